"""Step 3 of the commit protocol for keyed rows, on an executor: judge events, make rows."""

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from freshet.errors import SinkError
from freshet.rows import BuiltRows, CurrentRows, RowBuilder
from freshet.sink.judge import Event, Verdict, judge, newest, take_all
from freshet.sink.parts_executor import Part, TooMuchForOneTaskError, dealt_out, hand_over
from freshet.sink.tombstones import buried
from freshet.stores.lance_tables import ROW_ADDRESS, LanceTable

# What one task does about as fast as several, counting what it takes to start them.
MOST_RECORDS_ALONE: Final = 8_000

_RECORDS_AT_ONCE: Final = 4_096


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
    record_version: str | None
    """None: later batches win, and a batch holds a key once."""
    deleted: str | None
    """None: nothing is ever deleted."""
    builder: RowBuilder
    at: datetime
    floor: str = ""
    """Everything of a lower version is deleted."""
    is_alone: bool = False
    """Whether this is the batch's only task: it then takes a small batch and refuses others."""
    tasks: int | None = None
    """How many tasks heavy rows are dealt out to; None: they are made here."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One part and rows that are too few for a file, or nothing for an empty partition."""
        try:
            records = self._held(batches)
            if records is not None:
                yield from self._prepare(records)
        except TooMuchForOneTaskError:
            # Spark ends a worker that leaves some of its input unread, and with it the model.
            for _ in batches:
                pass
            yield Part(is_refused=True).sent()

    def _held(self, batches: Iterator[pa.RecordBatch]) -> pa.Table | None:
        """All records of the partition; None if there are none."""
        held: list[pa.RecordBatch] = []
        count = 0
        for batch in batches:
            held.append(batch)
            count += batch.num_rows
            if self.is_alone and count > MOST_RECORDS_ALONE:
                raise TooMuchForOneTaskError
        return pa.Table.from_batches(held) if count else None

    def _prepare(self, records: pa.Table) -> Iterator[pa.RecordBatch]:
        table, part = LanceTable.open(self.uri, version=self.version), Part(records.num_rows)
        winners = records.take(pa.array(self._newest(records), pa.int64()))
        waiting: list[pa.RecordBatch] = []
        rows = self._rows(winners, table, part, waiting)
        yield from hand_over(part, table, self.builder.schema, rows, is_alone=self.is_alone)
        yield from waiting

    def _newest(self, records: pa.Table) -> list[int]:
        events = self._events(records)
        chosen = newest(events)
        if self.record_version is None and len(chosen) < len(events):
            raise SinkError(
                f"a {self.key} stands more than once in a batch, and without a version nothing "
                'tells which row is newer: name a column, version="…", or aggregate the rows'
            )
        return chosen

    def _rows(
        self, records: pa.Table, table: LanceTable, part: Part, waiting: list[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        for start in range(0, records.num_rows, _RECORDS_AT_ONCE):
            started = time.perf_counter()
            built = self._built(records.slice(start, _RECORDS_AT_ONCE), table, part)
            part.build_s += time.perf_counter() - started
            if built is not None:
                part.add(built)
                waiting += (dealt_out(task, rows) for task, rows in built.waiting.items())
                yield from built.rows.combine_chunks().to_batches()

    def _built(self, records: pa.Table, table: LanceTable, part: Part) -> BuiltRows | None:
        events = self._events(records)
        found, verdict = self._judged(events, table)
        _add_verdict(part, verdict, events, _tuples(found, self.key, ROW_ADDRESS))
        if not verdict.upserts:
            return None
        upserts = records.take(pa.array(verdict.upserts))
        current = CurrentRows(found, table.take)
        built = self.builder.build(
            upserts, current, self.at, is_alone=self.is_alone, tasks=self.tasks
        )
        if built is None:
            raise TooMuchForOneTaskError
        return built

    def _judged(self, events: Sequence[Event], table: LanceTable) -> tuple[pa.Table, Verdict]:
        """The current rows of the events' keys, and what they make of the events."""
        keys = [event.key for event in events]
        if self.record_version is None:
            return table.lookup(self.key, keys, [self.key, *self.builder.needs]), take_all(events)
        columns = [self.key, self.record_version, *self.builder.needs]
        with ThreadPoolExecutor(1) as background:
            graves = background.submit(buried, self.tombstones_uri, keys)
            found = table.lookup(self.key, keys, columns)
        have = dict(_tuples(found, self.key, self.record_version))
        return found, judge(events, have, graves.result(), self.floor)

    def _events(self, records: pa.Table) -> list[Event]:
        for name in (self.key, self.record_version, self.deleted):
            if name is not None and records.column(name).null_count:
                raise SinkError(f"there are rows without a {name}: leave them out with a filter")
        keys = records.column(self.key).to_pylist()
        versions = _values(records, self.record_version, "")
        return [
            Event(*event)
            for event in zip(keys, versions, _values(records, self.deleted, False), strict=True)
        ]


def _values(table: pa.Table, column: str | None, otherwise: Any) -> list[Any]:
    if column is None:
        return [otherwise] * table.num_rows
    values: list[Any] = table.column(column).to_pylist()
    return values


def _tuples(table: pa.Table, *columns: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(table.column(name).to_pylist() for name in columns), strict=True)


def _add_verdict(
    part: Part,
    verdict: Verdict,
    events: Sequence[Event],
    current: Iterable[tuple[str | int, int]],
) -> None:
    """Counts one slice; remembers which current rows must leave and what is buried."""
    part.upserted += len(verdict.upserts)
    part.stale += verdict.stale
    part.unchanged += verdict.unchanged
    part.unsettled += [events[place].key for place in verdict.unsettled]
    part.deleted |= {events[place].key: events[place].version for place in verdict.deletes}
    touched = {events[place].key for place in chain(verdict.upserts, verdict.deletes)}
    leaving = [(key, address) for key, address in current if key in touched]
    part.gone += {key for key, _ in leaving}
    part.places += [address for _, address in leaving]
