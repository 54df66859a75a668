"""Rows of the index, read on executors: first the keys alone, then the rest of some of them."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class KeyReader:
    """Reads the keys of the fragments whose ids it is given, with their rows' ids. Pickled."""

    uri: str
    version: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The keys, batch by batch."""
        from freshet.stores.lance_tables import ROW_ID, LanceTable

        table = LanceTable.open(self.uri, version=self.version)
        for batch in batches:
            for rows in table.read(["key", ROW_ID], batch.column(0).to_pylist()):
                ids = rows.column(ROW_ID).cast(pa.int64())
                yield pa.RecordBatch.from_arrays([rows.column("key"), ids], ["key", "id"])


@dataclass(frozen=True)
class RowReader:
    """Reads the rows whose ids it is given. Pickled. Holds the rows of one batch of ids."""

    uri: str
    version: int
    columns: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch."""
        from freshet.stores.lance_tables import LanceTable

        table = LanceTable.open(self.uri, version=self.version)
        for batch in batches:
            ids = batch.column("id").to_pylist()
            if ids:
                yield from table.take(ids, self.columns).combine_chunks().to_batches()
