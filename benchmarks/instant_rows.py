"""Index rows without a model, for measuring what is left; imported by executors."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from freshet.embedding.rows_executor import IndexRows
from freshet.embedding.vectors_executor import MadeVectors

DIMENSION = 384


@dataclass(frozen=True)
class InstantRows(IndexRows):
    """Index rows whose vectors cost nothing: what is left is the sink."""

    @property
    def dimension(self) -> int:
        """The default model's."""
        return DIMENSION

    @property
    def metadata(self) -> Mapping[str, str]:
        """No model."""
        return {}

    def made(self, texts: Mapping[str, str], most: int | None) -> MadeVectors:
        """Random ones."""
        vectors = np.random.default_rng().random((len(texts), DIMENSION), np.float32)
        return MadeVectors(dict(zip(texts, vectors, strict=True)), embedded=len(texts))


def count_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Reads its rows and answers with one number."""
    yield pa.RecordBatch.from_pydict({"rows": [sum(batch.num_rows for batch in batches)]})
