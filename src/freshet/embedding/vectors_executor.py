"""Makes the vectors that are not known, on an executor: from the cache, else by the model."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from freshet.embedding.attempts import embed_all
from freshet.embedding.cache_executor import VectorCache
from freshet.embedding.provider import ProviderSpec, Vectors

_TASKS_AT_ONCE: Final = 64
"""The texts of so many small tasks are embedded at once, and then kept: if the model fails later,
these are not lost."""


@dataclass
class MadeVectors:
    """Vectors by the hash of their texts; why there is none, for texts that no model takes."""

    vectors: dict[str, Vectors] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    embedded: int = 0


@dataclass(frozen=True)
class VectorMaker:
    """A model, and the cache of what it has made. Pickled to the executors."""

    spec: ProviderSpec
    cache: VectorCache | None

    def make(self, texts: Mapping[str, str], *, most: int | None = None) -> MadeVectors | None:
        """The vectors of some texts, by their hashes; None if more than `most` are new.

        The model is loaded only if there is something to embed. It gets texts of about the same
        length together.
        """
        made = MadeVectors(self.cache.known(list(texts)) if self.cache and texts else {})
        missing = sorted(texts.keys() - made.vectors.keys(), key=lambda one: len(texts[one]))
        if most is not None and len(missing) > most:
            return None
        at_once = _TASKS_AT_ONCE * self.spec.describe().texts_per_task
        for start in range(0, len(missing), at_once):
            some = missing[start : start + at_once]
            embedded = embed_all(self.spec.load(), [texts[digest] for digest in some])
            made.refused |= {some[place]: why for place, why in embedded.refused.items()}
            new = dict(_taken(some, embedded.vectors, embedded.refused))
            if self.cache is not None:
                self.cache.add(new)
            made.vectors |= new
        made.embedded = len(missing) - len(made.refused)
        return made


def _taken(
    digests: list[str], vectors: Vectors, refused: Mapping[int, str]
) -> Iterator[tuple[str, Vectors]]:
    for place, digest in enumerate(digests):
        if place not in refused:
            yield digest, vectors[place]
