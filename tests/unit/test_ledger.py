"""What the ledger answers at a start, against a plain look at all of its rows."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from freshet.sink.ledger import COMMITTED, FAILED, REPLAYED, BatchReport, Ledger
from freshet.sink.stamps import Batch, Counts

PIPELINE, SINK = "docs", "index"
START = datetime(2026, 1, 1, tzinfo=UTC)


def report_of(query: str, batch: int, version: int, table: str, status: str) -> BatchReport:
    return BatchReport(
        PIPELINE,
        SINK,
        query,
        batch,
        status,
        None if status == FAILED else version,
        Counts(),
        *(0.0, 0.0, 0.0, 0.0),
        START,
        START,
        offsets=f"{query} {batch} planned once",
        table_id=None if status == FAILED else table,
    )


def history(seed: int) -> list[BatchReport]:
    """Two queries in turn, tables that are replaced, batches that fail or are planned anew."""
    chooser = random.Random(seed)
    made: list[BatchReport] = []
    next_of = {"a": 0, "b": 0}
    version, table = 0, 0
    for place in range(70):
        if chooser.random() < 0.03:
            version, table = 0, table + 1
        version += chooser.randrange(3)
        query = "a" if place % 20 < 12 else "b"
        batch = next_of[query]
        status = chooser.choices([COMMITTED, FAILED, REPLAYED], [8, 1, 1])[0]
        if status == REPLAYED:
            batch = chooser.randrange(batch + 1)
        one = report_of(query, batch, version, f"table {table}", status)
        if status == REPLAYED:
            one = replace(one, offsets=f"{query} {batch} planned at {place}")
        if status != FAILED:
            next_of[query] = max(next_of[query], batch + 1)
        at = START + timedelta(seconds=place)
        made.append(replace(one, started_at=at, finished_at=at))
    return made


def landed(rows: Sequence[BatchReport], query: str) -> list[BatchReport]:
    return [row for row in rows if row.status != FAILED and row.query_id == query]


@pytest.mark.parametrize("seed", range(3))
def test_a_start_learns_the_same_from_the_newest_rows_as_from_all(
    tmp_path: Path, seed: int
) -> None:
    ledger, rows = Ledger(str(tmp_path)), history(seed)
    for row in rows:
        ledger.record(row)
        ledger.record(replace(row, sink="other", table_id="elsewhere", table_version=10**6))
    for query in ("a", "b"):
        own = landed(rows, query)
        last = max(row.batch_id for row in own)
        for asked in (last + 1, last, last - 3, 0):
            found = ledger.landed(Batch(PIPELINE, SINK, query, asked))
            assert found.last_batch == last
            assert found.table_id in {row.table_id for row in own if row.batch_id == last}
            versions = [
                row.table_version
                for row in rows
                if row.status != FAILED and row.table_id == found.table_id
            ]
            assert found.last_versions[str(found.table_id)] == max(filter(None, versions))
            same = [row.offsets for row in own if row.batch_id == asked]
            assert found.offsets == (same[-1] if same else None)


def test_of_an_unknown_query_and_of_a_gap_all_tables_are_known(tmp_path: Path) -> None:
    ledger, rows = Ledger(str(tmp_path)), history(9)
    for row in rows:
        ledger.record(row)
    newest: dict[Any, int] = {}
    for row in rows:
        if row.status != FAILED:
            newest[row.table_id] = max(newest.get(row.table_id, 0), row.table_version or 0)
    new = ledger.landed(Batch(PIPELINE, SINK, "new", 0))
    assert (new.last_batch, new.table_id, dict(new.last_versions)) == (None, None, newest)
    ahead = ledger.landed(Batch(PIPELINE, SINK, "a", 10_000))
    assert ahead.last_batch == max(row.batch_id for row in landed(rows, "a"))
    assert dict(ahead.last_versions) == newest
    assert ledger.landed(Batch("elsewhere", SINK, "a", 3)).last_batch is None


def test_the_newest_batch_is_that_of_the_query_that_wrote_last(tmp_path: Path) -> None:
    ledger, rows = Ledger(str(tmp_path)), history(4)
    for row in rows:
        ledger.record(row)
    for table in {row.table_id for row in rows} - {None}:
        own = [row for row in rows if row.status != FAILED and row.table_id == table]
        found = ledger.newest(PIPELINE, SINK, str(table))
        assert found is not None
        assert found.query_id == own[-1].query_id
        mine = [row for row in own if row.query_id == found.query_id]
        last = max(mine, key=lambda row: (row.batch_id, row.finished_at))
        assert (found.batch_id, found.offsets) == (last.batch_id, last.offsets)
        assert found.table_version == max(row.table_version or 0 for row in own)
    assert ledger.newest(PIPELINE, SINK, "no such table") is None
