"""The ledger: one row a batch, written after its commit. Ledger and instrument panel in one."""

from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, Final

from freshet import schemas
from freshet.stores.delta_tables import SmallTable
from freshet.stores.sql import is_among, quoted

COMMITTED: Final = "committed"
RECOVERED: Final = "recovered"
FAILED: Final = "failed"


@dataclass(frozen=True)
class Counts:
    """What a batch did, counted in records; `reused` and `embedded` count pieces of text."""

    rows_in: int = 0
    rows_upserted: int = 0
    rows_deleted: int = 0
    rows_stale: int = 0
    rows_unchanged: int = 0
    rows_reused: int = 0
    rows_embedded: int = 0


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

    def as_row(self) -> dict[str, Any]:
        """The columns of the ledger."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "counts"}
        return own | asdict(self.counts)


class Ledger:
    """The batches of all sinks of a home.

    Guarantee: a batch whose row says committed or recovered has landed, and its row was written
    after its commit. A crash between the two leaves a landed batch without a row; the stamp in
    the table's own history tells of it.
    """

    def __init__(self, uri: str) -> None:
        self._table = SmallTable(uri, schemas.LEDGER)

    def record(self, report: BatchReport) -> None:
        """Adds one row."""
        self._table.append([report.as_row()])

    def last_landed(self, pipeline: str, sink: str, query_id: str) -> int | None:
        """The newest landed batch of one query; None if it has none."""
        where = f"{_landed(pipeline, sink)} AND query_id = {quoted(query_id)}"
        return max((row["batch_id"] for row in self._table.read(["batch_id"], where)), default=None)

    def last_version(self, pipeline: str, sink: str) -> int:
        """The newest table version that any query of the sink is known to have written, or 0."""
        rows = self._table.read(["table_version"], _landed(pipeline, sink))
        return max((row["table_version"] for row in rows), default=0)

    def latest(self, pipeline: str, sink: str) -> dict[str, Any] | None:
        """The row of the batch that ended last, whatever its status."""
        rows = self._table.read(where=_of(pipeline, sink))
        return max(rows, key=_end, default=None)

    def rows(self, pipeline: str, sink: str) -> list[dict[str, Any]]:
        """All rows of a sink, in the order of their end."""
        return sorted(self._table.read(where=_of(pipeline, sink)), key=_end)


def _of(pipeline: str, sink: str) -> str:
    return f"pipeline = {quoted(pipeline)} AND sink = {quoted(sink)}"


def _landed(pipeline: str, sink: str) -> str:
    return f"{_of(pipeline, sink)} AND {is_among('status', (COMMITTED, RECOVERED))}"


def _end(row: dict[str, Any]) -> Any:
    return row["finished_at"]
