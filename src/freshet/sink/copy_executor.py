"""Step 3 of the commit protocol for rows without keys, on an executor: write data files."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from freshet.sink.columns import conformed_batches
from freshet.sink.parts_executor import ENOUGH_BYTES, Part, TooMuchForOneTaskError, hand_over
from freshet.stores.lance_tables import LanceTable


@dataclass(frozen=True)
class Copying:
    """Writes all rows of a partition as they are. Pickled to the executors.

    Memory is bounded by the rows that are worth a file.
    """

    uri: str
    version: int
    schema: pa.Schema
    is_alone: bool = False
    """Whether this is the batch's only task: it then takes a small batch and refuses others."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One part, and rows that are too few for a file."""
        part = Part()
        table = LanceTable.open(self.uri, version=self.version)
        rows = conformed_batches(self._counted(batches, part), self.schema)
        try:
            # Nothing may be written before it is known whether it is little enough.
            taken = iter(list(rows)) if self.is_alone else rows
            yield from hand_over(part, table, self.schema, taken, is_alone=self.is_alone)
        except TooMuchForOneTaskError:
            yield Part(is_refused=True).sent()

    def _counted(self, batches: Iterator[pa.RecordBatch], part: Part) -> Iterator[pa.RecordBatch]:
        size = 0
        for batch in batches:
            size += batch.nbytes
            if self.is_alone and size > ENOUGH_BYTES:
                raise TooMuchForOneTaskError
            part.rows_in += batch.num_rows
            part.upserted += batch.num_rows
            yield batch
