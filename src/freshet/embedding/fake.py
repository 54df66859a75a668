"""A provider for tests: instant, deterministic, and free of any model.

Texts that share words get vectors that point a similar way, so that searches make sense.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from freshet.embedding import surrogates
from freshet.embedding.provider import Span, Vectors

_WORD: Final = re.compile(r"\S+")


class FakeProvider:
    """Adds up one pseudo-random vector a word."""

    model_id: Final = "fake/words-32"
    dimension: Final = 32
    window_tokens: Final = 64
    is_deterministic: Final = True
    texts_per_task: Final = 10_000

    def __init__(
        self, *, batch_tokens: int = 2_048, threads: int = 1, precision: str = "auto"
    ) -> None:
        """Takes what every provider takes, and needs none of it."""

    @staticmethod
    def check_installed() -> None:
        """Nothing to install."""

    def token_spans(self, text: str) -> Sequence[Span]:
        """Words are tokens."""
        return [found.span() for found in _WORD.finditer(text)]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors; an empty text points along the first axis."""
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            for word in _WORD.findall(text.lower())[: self.window_tokens]:
                vectors[row] += _direction(word, self.dimension)
        vectors[~vectors.any(axis=1), 0] = 1.0
        unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit


def _direction(word: str, dimension: int) -> Vectors:
    encoded = surrogates.replaced(word).encode()
    seed = int.from_bytes(hashlib.blake2b(encoded, digest_size=8).digest(), "big")
    return np.random.default_rng(seed).standard_normal(dimension, np.float32)
