"""What is asked of a model whose own tokenizer is not here: tokens are estimated."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from freshet.embedding import surrogates
from freshet.embedding.batching import by_token_budget
from freshet.embedding.chunking import Chunking
from freshet.embedding.provider import Span, Vectors

# Four characters, as OpenAI counts English.
_TOKEN: Final = re.compile(r"\S{1,4}")


def token_spans(text: str) -> list[Span]:
    """Pieces of four characters."""
    return [found.span() for found in _TOKEN.finditer(text)]


@dataclass(frozen=True)
class Request:
    """Texts that are asked for at once, about how many tokens they have, and whose they are."""

    texts: tuple[str, ...]
    places: tuple[int, ...]
    tokens: int


def requests_for(texts: Sequence[str], window_tokens: int, batch_tokens: int) -> Iterator[Request]:
    """As much of each text as fits into the window, grouped; nothing of a blank one."""
    window = Chunking(window_tokens, 0)
    places = [place for place, text in enumerate(texts) if text.strip()]
    heads = [surrogates.replaced(window.head(texts[place], token_spans)) for place in places]
    lengths = [len(token_spans(head)) for head in heads]
    for group in by_token_budget(lengths, batch_tokens):
        yield Request(
            tuple(heads[one] for one in group),
            tuple(places[one] for one in group),
            sum(lengths[one] for one in group),
        )


def blank_vectors(count: int, dimension: int) -> Vectors:
    """What blank texts get: vectors along the first axis."""
    vectors = np.zeros((count, dimension), np.float32)
    vectors[:, 0] = 1.0
    return vectors
