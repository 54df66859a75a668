"""What tasks hand to each other and to the driver: parts, rows that wait, rows too few for a file.

A task with enough rows writes its own data files. Fewer rows travel on, as one opaque value a
batch, to a task that sweeps those of many tasks together: so the number of files follows the bytes
of a batch and not the number of tasks. Rows that take long to make travel, unfinished, to the task
that they are dealt out to. Vectors never reach the driver.
"""

import pickle
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from freshet.rows import BuiltRows, RowBuilder
from freshet.stores.lance_tables import LanceTable

_PART: Final = "part"
_ROWS: Final = "rows"
_WAITING: Final = "waiting"
TASK: Final = "task"
"""The column that says which task is to finish what waits; null where nothing does."""
PARTS: Final = pa.schema(
    [(_PART, pa.binary()), (_ROWS, pa.binary()), (_WAITING, pa.binary()), (TASK, pa.int32())]
)

ENOUGH_BYTES: Final = 32 << 20
"""What is worth a file of its own."""
_ROWS_AT_ONCE: Final = 1 << 14


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

    def add(self, built: BuiltRows) -> None:
        """Counts what it took to make some rows."""
        self.reused += built.reused
        self.embedded += built.embedded
        self.embed_s += built.embed_s

    def sent(self) -> pa.RecordBatch:
        """The part on its way."""
        return _sent(part=pickle.dumps(self))


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
        yield _sent(rows=batch.serialize().to_pybytes())


def dealt_out(task: int, rows: pa.Table) -> pa.RecordBatch:
    """Rows on their way to the task that is to finish them."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return _sent(waiting=sink.getvalue().to_pybytes(), task=task)


def _unpacked(rows: pa.BinaryScalar) -> pa.Table:
    return pa.ipc.open_stream(rows.as_buffer()).read_all()


@dataclass(frozen=True)
class Finishing:
    """Finishes the rows that wait for this task; passes all else on. For executors.

    Memory is bounded by what waits for the task, and by the rows that are made of a slice of it.
    """

    uri: str
    version: int
    builder: RowBuilder

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What came in and does not wait; then one part more, and rows too few for a file."""
        waiting: list[pa.Table] = []
        for batch in batches:
            is_waiting = pc.is_valid(batch.column(_WAITING))
            yield batch.filter(pc.invert(is_waiting))
            waiting += map(_unpacked, batch.filter(is_waiting).column(_WAITING))
        if waiting:
            part, table = Part(), LanceTable.open(self.uri, version=self.version)
            # Some may lack a column that others have.
            rows = pa.concat_tables(waiting, promote_options="default")
            finished = self._finished(rows, part)
            yield from hand_over(part, table, self.builder.schema, finished, is_alone=False)

    def _finished(self, rows: pa.Table, part: Part) -> Iterator[pa.RecordBatch]:
        for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
            built = self.builder.finish(rows.slice(start, _ROWS_AT_ONCE))
            part.add(built)
            part.build_s += built.embed_s
            yield from built.rows.combine_chunks().to_batches()


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
        yield from (_sent(part=pickled) for pickled in passed)
        yield part.sent()

    def _rows(
        self, batches: Iterator[pa.RecordBatch], passed: list[bytes]
    ) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            passed += [part for part in batch.column(_PART).to_pylist() if part is not None]
            for rows in batch.column(_ROWS):
                if rows.is_valid:
                    yield pa.ipc.read_record_batch(rows.as_buffer(), self.schema)


def _sent(
    part: bytes | None = None,
    rows: bytes | None = None,
    waiting: bytes | None = None,
    task: int | None = None,
) -> pa.RecordBatch:
    sent = {_PART: part, _ROWS: rows, _WAITING: waiting, TASK: task}
    return pa.RecordBatch.from_pylist([sent], schema=PARTS)


def write_rows(table: LanceTable, schema: pa.Schema, rows: Iterator[pa.RecordBatch]) -> list[str]:
    """Writes data files that no version names yet; none if there are no rows."""
    first = next(rows, None)
    if first is None:
        return []
    return table.write_files(pa.RecordBatchReader.from_batches(schema, chain([first], rows)))
