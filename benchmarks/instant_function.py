"""An embedding function that costs next to nothing: for measuring a pipeline without its model."""

import zlib
from typing import Any

import numpy as np
from lancedb.embeddings import TextEmbeddingFunction, register

DIMENSION = 384


@register("instant-384")
class InstantFunction(TextEmbeddingFunction):
    """Numbers drawn at random, the same for the same texts."""

    def ndims(self) -> int:
        """As many as those of the default model."""
        return DIMENSION

    def generate_embeddings(self, texts: Any, *args: Any, **kwargs: Any) -> list[Any]:
        """One vector a text."""
        seed = zlib.crc32("".join(texts).encode())
        drawn = np.random.default_rng(seed).random((len(texts), DIMENSION), np.float32) - 0.5
        return list(drawn)
