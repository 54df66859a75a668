"""Step 3 of the commit protocol, on an executor: judge a partition's events, write data files.

What comes back to the driver is small: fragment metadata, keys and counts. Vectors never do.
"""

import pickle
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any, Final, Self

import pyarrow as pa

from freshet.errors import SinkError
from freshet.rows import BuiltRows, CurrentRows, RowBuilder
from freshet.sink.judge import Event, Verdict, judge, newest
from freshet.sink.tombstones import buried
from freshet.stores.lance_tables import LanceTable

PART: Final = "part"
PARTS: Final = pa.schema([(PART, pa.binary())])


# What one task does about as fast as several, counting what it takes to start them.
MOST_RECORDS_ALONE: Final = 2_000

_RECORDS_AT_ONCE: Final = 4_096


@dataclass
class Part:
    """What one task made of its share of a batch. Pickled to the driver."""

    rows_in: int = 0
    is_refused: bool = False
    fragments: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    """Keys whose current rows leave the table."""
    deleted: dict[str, str] = field(default_factory=dict)
    """Deleted keys with the versions that deleted them."""
    upserted: int = 0
    stale: int = 0
    unchanged: int = 0
    reused: int = 0
    embedded: int = 0
    embed_s: float = 0.0
    build_s: float = 0.0
    write_s: float = 0.0

    @classmethod
    def of(cls, made: pa.RecordBatch) -> Self:
        """The part that a task sent."""
        part: Self = pickle.loads(made.column(PART)[0].as_py())  # noqa: S301 - our own executors'
        return part

    def add_verdict(self, verdict: Verdict, events: Sequence[Event], current: set[str]) -> None:
        """Counts one slice; remembers which current rows must leave and what is buried."""
        self.upserted += len(verdict.upserts)
        self.stale += verdict.stale
        self.unchanged += verdict.unchanged
        self.deleted |= {events[place].key: events[place].version for place in verdict.deletes}
        touched = (events[place].key for place in chain(verdict.upserts, verdict.deletes))
        self.gone += [key for key in touched if key in current]

    def add_built(self, built: BuiltRows) -> None:
        """Counts the rows made of one slice."""
        self.reused += built.reused
        self.embedded += built.embedded
        self.embed_s += built.embed_s


class _TooMuchForOneTaskError(Exception):
    """The batch should be spread over several tasks; nothing was written."""


@dataclass(frozen=True)
class Preparation:
    """Prepares a partition whose keys are in no other partition. Pickled to the executors.

    Looks everything up at one pinned version of the table. Memory is bounded by the partition's
    records, and by the rows made of a slice of them.
    """

    uri: str
    version: int
    tombstones_uri: str
    key: str
    record_version: str
    deleted: str
    builder: RowBuilder
    at: datetime
    is_alone: bool = False
    """Whether this is the batch's only task: it then takes a small batch and refuses others."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One pickled `Part`, or none for an empty partition."""
        try:
            records = self._held(batches)
            part = None if records is None else self._prepare(records)
        except _TooMuchForOneTaskError:
            part = Part(is_refused=True)
        if part is not None:
            # One opaque value: Spark would take longer over lists of keys than over the rest.
            yield pa.RecordBatch.from_pylist([{PART: pickle.dumps(part)}], schema=PARTS)

    def _held(self, batches: Iterator[pa.RecordBatch]) -> pa.Table | None:
        """All records of the partition; None if there are none."""
        held: list[pa.RecordBatch] = []
        count = 0
        for batch in batches:
            held.append(batch)
            count += batch.num_rows
            if self.is_alone and count > MOST_RECORDS_ALONE:
                raise _TooMuchForOneTaskError
        return pa.Table.from_batches(held) if count else None

    def _prepare(self, records: pa.Table) -> Part:
        table, part = LanceTable.open(self.uri, version=self.version), Part(records.num_rows)
        started = time.perf_counter()
        winners = records.take(pa.array(newest(self._events(records)), pa.int64()))
        part.fragments = _write(table, self.builder.schema, self._rows(winners, table, part))
        part.write_s = time.perf_counter() - started - part.build_s
        return part

    def _rows(self, records: pa.Table, table: LanceTable, part: Part) -> Iterator[pa.RecordBatch]:
        for start in range(0, records.num_rows, _RECORDS_AT_ONCE):
            started = time.perf_counter()
            batches = self._rows_of(records.slice(start, _RECORDS_AT_ONCE), table, part)
            part.build_s += time.perf_counter() - started
            yield from batches

    def _rows_of(
        self, records: pa.Table, table: LanceTable, part: Part
    ) -> Sequence[pa.RecordBatch]:
        events = self._events(records)
        keys = [event.key for event in events]
        columns = [self.key, self.record_version, *self.builder.needs]
        with ThreadPoolExecutor(1) as background:
            graves = background.submit(buried, self.tombstones_uri, keys)
            found = table.lookup(self.key, keys, columns)
        have = dict(_tuples(found, self.key, self.record_version))
        verdict = judge(events, have, graves.result())
        part.add_verdict(verdict, events, set(have))
        if not verdict.upserts:
            return ()
        upserts = records.take(pa.array(verdict.upserts))
        current = CurrentRows(found, table.take)
        built = self.builder.build(upserts, current, self.at, is_alone=self.is_alone)
        if built is None:
            raise _TooMuchForOneTaskError
        part.add_built(built)
        batches: list[pa.RecordBatch] = built.rows.to_batches()
        return batches

    def _events(self, records: pa.Table) -> list[Event]:
        columns = (self.key, self.record_version, self.deleted)
        for name in columns[:2]:
            if records.column(name).null_count:
                raise SinkError(f"there are rows without a {name}: leave them out with a filter")
        return [Event(*values) for values in _tuples(records, *columns)]


def _tuples(table: pa.Table, *columns: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(table.column(name).to_pylist() for name in columns), strict=True)


def _write(table: LanceTable, schema: pa.Schema, rows: Iterator[pa.RecordBatch]) -> list[str]:
    first = next(rows, None)
    if first is None:
        return []
    reader = pa.RecordBatchReader.from_batches(schema, chain([first], rows))
    return table.write_files(reader)
