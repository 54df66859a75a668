"""Embeds texts of which a model may not take some: finds and names those, and embeds the others.

A text is given up only if the model takes another one right after: else it is the model that fails.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from freshet.embedding.provider import Provider, Vectors
from freshet.errors import EmbeddingError, FreshetError, TextRefusedError

_PROBE: Final = "the"
_LONGEST_REASON: Final = 200


@dataclass(frozen=True)
class Embedded:
    """The vectors of some texts."""

    vectors: Vectors
    """One row a text; zeros where it was refused."""
    refused: Mapping[int, str]
    """The place of each text that the model does not take, and why."""


def embed_all(provider: Provider, texts: Sequence[str], tries: int = 3) -> Embedded:
    """One call if all is well; else the texts in ever smaller parts, down to those that fail.

    A text is refused if the model refuses it once, or fails for it alone `tries` times, and takes a
    probe then. Raises `EmbeddingError` if the probe fails too; outages pass through as they are.
    """
    if not texts:
        return Embedded(np.zeros((0, provider.dimension), np.float32), {})
    search = _Search(provider, texts, tries)
    return Embedded(search.embed(0, len(texts)), search.refused)


@dataclass
class _Search:
    """The texts of one call, and those of them that were refused so far."""

    provider: Provider
    texts: Sequence[str]
    tries: int
    refused: dict[int, str] = field(default_factory=dict)

    def embed(self, start: int, end: int) -> Vectors:
        """The vectors of the texts from one place up to another."""
        found = _attempt(self.provider, self.texts[start:end])
        if not isinstance(found, Exception):
            return found
        if end - start == 1:
            return self._embed_alone(start, found)
        middle = (start + end) // 2
        return np.concatenate([self.embed(start, middle), self.embed(middle, end)])

    def _embed_alone(self, place: int, failure: Exception) -> Vectors:
        """The vector of one text that failed already."""
        for _ in range(self.tries - 1):
            if isinstance(failure, TextRefusedError):
                break
            found = _attempt(self.provider, self.texts[place : place + 1])
            if not isinstance(found, Exception):
                return found
            failure = found
        self._probe(failure)
        self.refused[place] = _reason(failure)
        return np.zeros((1, self.provider.dimension), np.float32)

    def _probe(self, failure: Exception) -> None:
        """Raises if the model takes nothing at all: then the text is not to blame."""
        if isinstance(_attempt(self.provider, [_PROBE]), Exception):
            name = f"the model {self.provider.model_id}"
            raise EmbeddingError(name, f"takes no text: {_reason(failure)}") from failure


def _attempt(provider: Provider, texts: Sequence[str]) -> Vectors | Exception:
    """The vectors, or what went wrong with these texts. Outages and lack of memory are raised."""
    try:
        return provider.embed(texts)
    except TextRefusedError as error:
        return error
    except (FreshetError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001  a model's library may raise anything
        return error


def _reason(failure: Exception) -> str:
    said = " ".join(str(failure).split())
    is_told = isinstance(failure, FreshetError)
    return (said if is_told else f"{type(failure).__name__}: {said}")[:_LONGEST_REASON]
