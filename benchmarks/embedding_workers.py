"""What the benchmark of the embedding runs in other processes: the model alone, and the stage."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from freshet.embedding import IndexRows, ProviderSpec
from freshet.rows import CurrentRows

MODEL = ProviderSpec("minilm")


def embed(texts: list[str]) -> int:
    """The model alone, as fast as it goes."""
    return len(MODEL.load().embed(texts))


@dataclass(frozen=True)
class Stage:
    """Makes index rows of records, as the sink's tasks do, for an index that is empty."""

    rows: IndexRows

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Answers with the number of rows made."""
        records = pa.Table.from_batches(list(batches))
        none = pa.table({name: pa.array([], pa.string()) for name in ("key", *self.rows.needs)})
        none = none.append_column("_rowid", pa.array([], pa.int64()))
        current = CurrentRows(none, lambda rows, columns: none)
        built = self.rows.build(records, current, datetime.now(UTC))
        assert built is not None
        yield pa.RecordBatch.from_pydict({"rows": [built.rows.num_rows]})
