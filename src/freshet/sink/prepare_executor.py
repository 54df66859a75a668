"""Step 3 of the commit protocol, on an executor: judge a partition's events, write data files.

What comes back to the driver is small: fragment metadata, keys and counts. Vectors never do.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Final

import pyarrow as pa

from freshet.rows import BuiltRows, CurrentRows, RowBuilder
from freshet.sink.judge import Event, Verdict, judge
from freshet.sink.tombstones import buried
from freshet.stores.lance_tables import LanceTable

PREPARED: Final = pa.schema(
    [
        ("fragments", pa.list_(pa.string())),
        ("gone", pa.list_(pa.string())),
        ("deleted_keys", pa.list_(pa.string())),
        ("deleted_versions", pa.list_(pa.string())),
        ("upserted", pa.int64()),
        ("stale", pa.int64()),
        ("unchanged", pa.int64()),
        ("reused", pa.int64()),
        ("embedded", pa.int64()),
        ("embed_s", pa.float64()),
        ("write_s", pa.float64()),
    ]
)
PREPARED_DDL: Final = (
    "fragments array<string>, gone array<string>, deleted_keys array<string>, "
    "deleted_versions array<string>, upserted bigint, stale bigint, unchanged bigint, "
    "reused bigint, embedded bigint, embed_s double, write_s double"
)

_RECORDS_AT_ONCE: Final = 4_096


@dataclass
class _Tally:
    """What one partition came to."""

    gone: list[str] = field(default_factory=list)
    deleted: dict[str, str] = field(default_factory=dict)
    upserted: int = 0
    stale: int = 0
    unchanged: int = 0
    reused: int = 0
    embedded: int = 0
    embed_s: float = 0.0
    build_s: float = 0.0

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


@dataclass(frozen=True)
class Preparation:
    """Prepares a partition whose keys are in no other partition. Pickled to the executors.

    Looks everything up at one pinned version of the table. Memory is bounded by a slice of the
    partition's records, the keys of the partition, and the rows made of one slice.
    """

    uri: str
    version: int
    tombstones_uri: str
    key: str
    record_version: str
    deleted: str
    builder: RowBuilder
    at: datetime

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row of `PREPARED`, or none for an empty partition."""
        slices = _slices(batches)
        first = next(slices, None)
        if first is None:
            return
        table, tally = LanceTable.open(self.uri, version=self.version), _Tally()
        started = time.perf_counter()
        rows = self._rows(chain([first], slices), table, tally)
        fragments = _write(table, self.builder.schema, rows)
        write_s = time.perf_counter() - started - tally.build_s
        yield _prepared(fragments, tally, write_s)

    def _rows(
        self, slices: Iterator[pa.Table], table: LanceTable, tally: _Tally
    ) -> Iterator[pa.RecordBatch]:
        for records in slices:
            started = time.perf_counter()
            batches = self._rows_of(records, table, tally)
            tally.build_s += time.perf_counter() - started
            yield from batches

    def _rows_of(
        self, records: pa.Table, table: LanceTable, tally: _Tally
    ) -> Sequence[pa.RecordBatch]:
        events = self._events(records)
        keys = [event.key for event in events]
        found = table.lookup(self.key, keys, [self.key, self.record_version, *self.builder.needs])
        have = dict(
            zip(
                *(found.column(name).to_pylist() for name in (self.key, self.record_version)),
                strict=True,
            )
        )
        verdict = judge(events, have, buried(self.tombstones_uri, keys))
        tally.add_verdict(verdict, events, set(have))
        if not verdict.upserts:
            return ()
        upserts = records.take(pa.array(verdict.upserts))
        built = self.builder.build(upserts, CurrentRows(found, table.take), self.at)
        tally.add_built(built)
        batches: list[pa.RecordBatch] = built.rows.to_batches()
        return batches

    def _events(self, records: pa.Table) -> list[Event]:
        columns = (self.key, self.record_version, self.deleted)
        return [
            Event(*row)
            for row in zip(*(records.column(name).to_pylist() for name in columns), strict=True)
        ]


def _slices(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Records in tables of a bounded number of rows; enough of them to sort texts by length."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(part.num_rows for part in held) >= _RECORDS_AT_ONCE:
            yield pa.Table.from_batches(held)
            held = []
    if sum(part.num_rows for part in held):
        yield pa.Table.from_batches(held)


def _write(table: LanceTable, schema: pa.Schema, rows: Iterator[pa.RecordBatch]) -> list[str]:
    first = next(rows, None)
    if first is None:
        return []
    reader = pa.RecordBatchReader.from_batches(schema, chain([first], rows))
    return table.write_files(reader)


def _prepared(fragments: list[str], tally: _Tally, write_s: float) -> pa.RecordBatch:
    row = {
        "fragments": fragments,
        "gone": tally.gone,
        "deleted_keys": list(tally.deleted.keys()),
        "deleted_versions": list(tally.deleted.values()),
        "upserted": tally.upserted,
        "stale": tally.stale,
        "unchanged": tally.unchanged,
        "reused": tally.reused,
        "embedded": tally.embedded,
        "embed_s": tally.embed_s,
        "write_s": write_s,
    }
    return pa.RecordBatch.from_pylist([row], schema=PREPARED)
