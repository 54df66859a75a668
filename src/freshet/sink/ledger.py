"""The ledger: one row a batch, written after its commit. Ledger and instrument panel in one."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any, Final

from freshet import schemas
from freshet.events import emit
from freshet.sink.stamps import Batch, Counts, Found
from freshet.stores import delta_facts
from freshet.stores.delta_tables import SmallTable
from freshet.stores.sql import is_among, quoted

COMMITTED: Final = "committed"
RECOVERED: Final = "recovered"
REPLAYED: Final = "replayed"
FAILED: Final = "failed"

_Row = dict[str, Any]


@dataclass(frozen=True)
class BatchReport:
    """One row of the ledger."""

    pipeline: str
    sink: str
    query_id: str
    batch_id: int
    status: str
    table_version: int | None
    counts: Counts
    embed_s: float
    write_s: float
    commit_s: float
    total_s: float
    started_at: datetime
    finished_at: datetime
    error: str | None = None
    offsets: str | None = None
    table_id: str | None = None

    def as_row(self) -> dict[str, Any]:
        """The columns of the ledger."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "counts"}
        return own | asdict(self.counts)


@dataclass
class Attempt:
    """One try at a batch."""

    batch: Batch
    clock: Callable[[], datetime]
    started_at: datetime = field(init=False)
    started: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        """The try begins now."""
        self.started_at = self.clock()

    def report(
        self,
        status: str,
        counts: Counts,
        *,
        version: int | None = None,
        table_id: str | None = None,
        embed_s: float = 0.0,
        write_s: float = 0.0,
        commit_s: float = 0.0,
        error: str | None = None,
    ) -> BatchReport:
        """The ledger row of this try, ended now."""
        return BatchReport(
            pipeline=self.batch.pipeline,
            sink=self.batch.sink,
            query_id=self.batch.query_id,
            batch_id=self.batch.batch_id,
            status=status,
            table_version=version,
            counts=counts,
            embed_s=embed_s,
            write_s=write_s,
            commit_s=commit_s,
            total_s=time.perf_counter() - self.started,
            started_at=self.started_at,
            finished_at=self.clock(),
            error=error,
            offsets=self.batch.offsets,
            table_id=table_id,
        )


@dataclass(frozen=True)
class Landed:
    """What the ledger knows of a sink, seen from one batch."""

    last_versions: Mapping[str, int] = field(default_factory=dict)
    """By table id: the newest version that the sink is known to have written or seen."""
    last_batch: int | None = None
    """The newest landed batch of this batch's query."""
    table_id: str | None = None
    """The table that it landed in."""
    offsets: str | None = None
    """Where the batch of this number ended, if it landed."""


@dataclass(frozen=True)
class NewestBatch:
    """The batch that landed last in a table, as the ledger has it."""

    query_id: str
    batch_id: int
    offsets: str | None
    table_version: int
    """The newest version on record, of whatever batch."""


class Ledger:
    """The batches of all sinks of a home.

    Guarantee: a batch whose row says committed or recovered has landed, and its row was written
    after its commit. A crash between the two leaves a landed batch without a row; the stamp in
    the table's own history tells of it.
    """

    def __init__(self, uri: str) -> None:
        self._table = SmallTable(uri, schemas.LEDGER)
        self.leases = SmallTable(f"{uri}_leases", schemas.LEASES)
        """Who writes for which sink; a small table beside the ledger."""

    def record(self, report: BatchReport) -> None:
        """Adds one row."""
        self._table.append([report.as_row()])

    def landed(self, batch: Batch) -> Landed:
        """What is on record of a batch's sink and query; holds one row of each table at most."""
        return self._landed_lately(batch) or self._landed_ever(batch)

    def _landed_lately(self, batch: Batch) -> Landed | None:
        """The same if the query's batch before this one, or a later one, is on record; else None.

        Reads, by the log's statistics, hardly more than what is newer: a start takes as long after
        a year as after a day. Of tables, it tells of the one that the query wrote last.
        """
        where = f"{_of_query(batch)} AND batch_id >= {batch.batch_id - 1}"
        newest, same = self._newest_and_same(batch, where)
        if newest is None:
            return None
        table_id, version = newest["table_id"], newest["table_version"]
        known = self.newest_version(batch.pipeline, batch.sink, table_id, at_least=version)
        return _landed_of(newest, same, {table_id: known or version})

    def _landed_ever(self, batch: Batch) -> Landed:
        versions: dict[str, int] = {}
        where = _landed(batch.pipeline, batch.sink)
        for rows in self._table.scan(["table_version", "table_id"], where):
            for row in rows.to_pylist():
                table = row["table_id"]
                versions[table] = max(versions.get(table, 0), row["table_version"])
        newest, same = self._newest_and_same(batch, _of_query(batch))
        return _landed_of(newest, same, versions)

    def _newest_and_same(self, batch: Batch, where: str) -> tuple[_Row | None, _Row | None]:
        """Of some rows of the query, the newest batch, and the last one of the batch's number."""
        columns = ["batch_id", "table_version", "table_id", "offsets", "finished_at"]
        newest: _Row | None = None
        same: _Row | None = None
        for rows in self._table.scan(columns, where):
            for row in rows.to_pylist():
                newest = max(newest or row, row, key=_batch_id)
                if row["batch_id"] == batch.batch_id:
                    same = max(same or row, row, key=_end)
        return newest, same

    def newest(self, pipeline: str, sink: str, table_id: str) -> NewestBatch | None:
        """The last batch of the query that wrote a table last; None if none is on record.

        Holds two rows of each query that ever wrote it.
        """
        columns = ["query_id", "batch_id", "offsets", "table_version", "finished_at"]
        where = f"{_landed(pipeline, sink)} AND table_id = {quoted(table_id)}"
        newest: dict[str, _Row] = {}
        latest: _Row | None = None
        version = 0
        for rows in self._table.scan(columns, where):
            for row in rows.to_pylist():
                query = row["query_id"]
                newest[query] = max(newest.get(query, row), row, key=_batch_and_end)
                latest = max(latest or row, row, key=_end)
                version = max(version, row["table_version"])
        if latest is None:
            return None
        last = newest[latest["query_id"]]
        return NewestBatch(latest["query_id"], _batch_id(last), last["offsets"], version)

    def newest_version(
        self, pipeline: str, sink: str, table_id: str, *, at_least: int
    ) -> int | None:
        """The newest version of a table that a batch wrote or saw; None if all are older.

        Reads, by the log's statistics, hardly more than what is newer.
        """
        where = (
            f"{_landed(pipeline, sink)} AND table_id = {quoted(table_id)} "
            f"AND table_version >= {at_least}"
        )
        rows = self._table.read(["table_version"], where)
        return max((row["table_version"] for row in rows), default=None)

    def is_repeated_by(self, found: Found, batch: Batch) -> bool:
        """Whether a commit of the batch's sink is of a batch that had landed in an earlier one.

        A batch of the same number that was planned anew is not the same batch.
        """
        where = f"{_landed(batch.pipeline, batch.sink)} AND {_is(found.query_id, found.batch_id)}"
        rows = self._table.read(["table_version", "offsets"], where)
        return any(
            row["table_version"] < found.version and row["offsets"] == found.offsets for row in rows
        )

    def has(self, batch: Batch) -> bool:
        """Whether there is any row of a batch, of whatever status."""
        where = f"{_of(batch.pipeline, batch.sink)} AND {_is(batch.query_id, batch.batch_id)}"
        return bool(self._table.read(["batch_id"], where))

    def last_row(self, pipeline: str, sink: str) -> dict[str, Any] | None:
        """The row of a sink that ended last, of whatever status; holds one row."""
        last: dict[str, Any] | None = None
        for rows in self._table.scan(None, _of(pipeline, sink)):
            last = max(([] if last is None else [last]) + rows.to_pylist(), key=_end, default=None)
        return last

    def landed_since(self, pipeline: str, sink: str, moment: datetime) -> list[dict[str, Any]]:
        """Which batches have landed since, where and when, in the order of their end.

        Reads, by the log's statistics, hardly more than those.
        """
        columns = ["table_version", "finished_at", "offsets"]
        where = f"{_landed(pipeline, sink)} AND {_since(moment)}"
        return sorted(self._table.read(columns, where), key=_end)

    def began_at(self) -> datetime | None:
        """When the first batch on record ended, of whatever sink; None if none is."""
        return delta_facts.earliest(self._table.uri, "finished_at")

    def rows(self, pipeline: str, sink: str, since: datetime | None = None) -> list[dict[str, Any]]:
        """The rows of a sink, all or of the last time, in the order of their end."""
        lately = "" if since is None else f" AND {_since(since)}"
        return sorted(self._table.read(where=f"{_of(pipeline, sink)}{lately}"), key=_end)


def _of(pipeline: str, sink: str) -> str:
    return f"pipeline = {quoted(pipeline)} AND sink = {quoted(sink)}"


def _of_query(batch: Batch) -> str:
    return f"{_landed(batch.pipeline, batch.sink)} AND query_id = {quoted(batch.query_id)}"


def _landed(pipeline: str, sink: str) -> str:
    return f"{_of(pipeline, sink)} AND {is_among('status', (COMMITTED, RECOVERED, REPLAYED))}"


def _since(moment: datetime) -> str:
    return f"finished_at >= {quoted(moment.isoformat())}"


def _is(query_id: str, batch_id: int) -> str:
    return f"query_id = {quoted(query_id)} AND batch_id = {batch_id}"


def _end(row: dict[str, Any]) -> Any:
    return row["finished_at"]


def _batch_id(row: _Row) -> int:
    return int(row["batch_id"])


def _batch_and_end(row: _Row) -> tuple[int, Any]:
    return _batch_id(row), _end(row)


def _landed_of(newest: _Row | None, same: _Row | None, versions: Mapping[str, int]) -> Landed:
    return Landed(
        versions,
        None if newest is None else newest["batch_id"],
        None if newest is None else newest["table_id"],
        None if same is None else same["offsets"],
    )


def announce(event: str, report: BatchReport) -> None:
    """Logs how a batch ended."""
    counts = report.counts
    emit(
        "sink",
        event,
        sink=report.sink,
        batch_id=report.batch_id,
        table_version=report.table_version,
        rows_in=counts.rows_in,
        upserted=counts.rows_upserted,
        deleted=counts.rows_deleted,
        stale=counts.rows_stale,
        embedded=counts.rows_embedded,
        reused=counts.rows_reused,
        embed_s=report.embed_s,
        write_s=report.write_s,
        commit_s=report.commit_s,
        duration_s=report.total_s,
    )
