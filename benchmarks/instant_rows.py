"""Index rows without a model, for measuring what is left; imported by executors."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from freshet import schemas
from freshet.embedding.rows_executor import IndexRows

DIMENSION = 384


@dataclass(frozen=True)
class InstantRows(IndexRows):
    """Index rows whose vectors cost nothing: what is left is the sink."""

    @property
    def schema(self) -> pa.Schema:
        """The index's columns, with the default model's dimension."""
        return schemas.index(DIMENSION, self.attributes)

    @property
    def metadata(self) -> Mapping[str, str]:
        """No model."""
        return {}

    def _embed(self, texts: Mapping[str, str]) -> Mapping[str, np.ndarray]:
        made = np.random.default_rng().random((len(texts), DIMENSION), np.float32)
        return dict(zip(texts, made, strict=True))


def count_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Reads its rows and answers with one number."""
    yield pa.RecordBatch.from_pydict({"rows": [sum(batch.num_rows for batch in batches)]})
