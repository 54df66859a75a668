"""What tasks hand to each other and to the driver: parts, and rows too few for a file of their own.

A task with enough rows writes its own data files. Fewer rows travel on, as one opaque value a
batch, to a task that sweeps those of many tasks together: so the number of files follows the bytes
of a batch and not the number of tasks. Vectors never reach the driver.
"""

import pickle
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Self

import pyarrow as pa

from freshet.stores.lance_tables import LanceTable

_PART: Final = "part"
_ROWS: Final = "rows"
PARTS: Final = pa.schema([(_PART, pa.binary()), (_ROWS, pa.binary())])

ENOUGH_BYTES: Final = 32 << 20
"""What is worth a file of its own."""


class TooMuchForOneTaskError(Exception):
    """The batch should be spread over several tasks; nothing was written."""


@dataclass
class Part:
    """What one task made of its share of a batch. Pickled to the driver."""

    rows_in: int = 0
    is_refused: bool = False
    fragments: list[str] = field(default_factory=list)
    gone: list[str | int] = field(default_factory=list)
    """Keys whose current rows leave the table."""
    places: list[int] = field(default_factory=list)
    """The addresses of those rows in the pinned version."""
    deleted: dict[str | int, str] = field(default_factory=dict)
    """Deleted keys with the versions that deleted them."""
    unsettled: list[str | int] = field(default_factory=list)
    """Keys whose stale events may have a better value for what the table has."""
    upserted: int = 0
    stale: int = 0
    unchanged: int = 0
    reused: int = 0
    embedded: int = 0
    embed_s: float = 0.0
    build_s: float = 0.0
    write_s: float = 0.0

    @classmethod
    def all_of(cls, made: pa.Table) -> list[Self]:
        """The parts that all tasks sent."""
        pickled = made.column(_PART).to_pylist()
        return [pickle.loads(part) for part in pickled if part is not None]  # noqa: S301 - ours

    def sent(self) -> pa.RecordBatch:
        """The part on its way."""
        return _sent(pickle.dumps(self), None)


def hand_over(
    part: Part,
    table: LanceTable,
    schema: pa.Schema,
    rows: Iterator[pa.RecordBatch],
    *,
    is_alone: bool,
) -> Iterator[pa.RecordBatch]:
    """The part, with the files that its rows went to; and the rows if they are too few for one.

    A task that is alone has nobody to send rows to, and always writes.
    """
    started = time.perf_counter()
    held, size = [], 0
    for batch in rows:
        held.append(batch)
        size += batch.nbytes
        if size > ENOUGH_BYTES:
            break
    if is_alone or size > ENOUGH_BYTES:
        part.fragments += write_rows(table, schema, chain(held, rows))
        held = []
    part.write_s += time.perf_counter() - started - part.build_s
    # Few opaque values: Spark would take longer over lists of keys and floats than over the rest.
    yield part.sent()
    for batch in held:
        yield _sent(None, batch.serialize().to_pybytes())


@dataclass(frozen=True)
class Sweep:
    """Writes the rows that other tasks handed over; passes their parts on. For executors."""

    uri: str
    version: int
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All parts that came in, and one more with the files that were written here."""
        passed: list[bytes] = []
        part = Part()
        started = time.perf_counter()
        table = LanceTable.open(self.uri, version=self.version)
        part.fragments = write_rows(table, self.schema, self._rows(batches, passed))
        part.write_s = time.perf_counter() - started
        yield from (_sent(pickled, None) for pickled in passed)
        yield part.sent()

    def _rows(
        self, batches: Iterator[pa.RecordBatch], passed: list[bytes]
    ) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            passed += [part for part in batch.column(_PART).to_pylist() if part is not None]
            for rows in batch.column(_ROWS):
                if rows.is_valid:
                    yield pa.ipc.read_record_batch(rows.as_buffer(), self.schema)


def _sent(part: bytes | None, rows: bytes | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{_PART: part, _ROWS: rows}], schema=PARTS)


def write_rows(table: LanceTable, schema: pa.Schema, rows: Iterator[pa.RecordBatch]) -> list[str]:
    """Writes data files that no version names yet; none if there are no rows."""
    first = next(rows, None)
    if first is None:
        return []
    return table.write_files(pa.RecordBatchReader.from_batches(schema, chain([first], rows)))
