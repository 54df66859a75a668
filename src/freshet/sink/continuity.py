"""The start-up check: do checkpoint, ledger and table belong together? `decide` is pure.

Spark runs again at most the newest batch of a checkpoint, and numbers batches without gaps. So the
first batch after a start is the one after the last landed one, or that one again. Everything else
means that something was deleted, restored, replaced or renamed, and is recognised here.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

from freshet.errors import ContinuityError, HistoryMissingError, TableMissingError
from freshet.sink.ledger import Landed, Ledger
from freshet.sink.spark_queries import end_of
from freshet.sink.stamps import Batch, Mark, Past, look_back
from freshet.sink.target import Mode, Target
from freshet.stores.lance_tables import TABLE_ID, LanceTable


class Course(StrEnum):
    """What to do with the first batch."""

    WRITE = "write"
    SKIP = "skip"
    """It is on record."""
    RECOVER = "recover"
    """It is in the table, and only its ledger row is missing."""
    REPLAY = "replay"
    """Its number is on record, but an older checkpoint made it anew: it may hold other rows."""


class Notice(StrEnum):
    """What was found and is handled; logged by this name."""

    CHECKPOINT_REPLACED = "checkpoint_replaced"
    CHECKPOINT_OLDER = "checkpoint_older"
    CHECKPOINT_TAKEN_OVER = "checkpoint_taken_over"
    LEDGER_MISSING = "ledger_missing"


@dataclass(frozen=True)
class Decision:
    """The course, and what somebody should know."""

    course: Course
    notice: Notice | None = None
    last_batch: int | None = None
    """The newest landed batch of the query."""
    found: Mark | None = None
    """What tells of a batch that is to be recovered."""


@dataclass(frozen=True)
class Evidence:
    """All that is known when the first batch after a start comes."""

    target: Target
    batch: Batch
    table_id: str | None
    """None if there is no table."""
    table_version: int
    landed: Landed
    past: Past

    @property
    def last_version(self) -> int:
        """The newest version of this very table that the ledger knows."""
        return self.landed.last_versions.get(self.table_id or "", 0)

    @property
    def last_batch(self) -> int | None:
        """The newest landed batch of the query, by the ledger or by the table's own history."""
        newest = self.past.newest
        stamped = newest.batch_id if newest and newest.query_id == self.batch.query_id else None
        known = [batch for batch in (self.landed.last_batch, stamped) if batch is not None]
        return max(known, default=None)

    @property
    def offsets_then(self) -> str | None:
        """Where the batch of this number ended when it landed, by the ledger or by its stamp."""
        newest = self.past.newest
        stamped = newest.offsets if newest and newest.has_number_of(self.batch) else None
        return self.landed.offsets or stamped

    @property
    def is_on_record(self) -> bool:
        """Whether the ledger has this very batch, and not only one of its number."""
        last = self.landed.last_batch
        is_known = last is not None and self.batch.batch_id <= last
        return is_known and self.landed.offsets == self.batch.offsets


def table_id_of(table: LanceTable) -> str:
    """What tells a table from another one that came in its place."""
    return table.metadata.get(TABLE_ID, "")


def gather(target: Target, batch: Batch, landed: Landed) -> Evidence:
    """Reads what a Lance table says to what the ledger said."""
    try:
        table = LanceTable.open(target.uri)
    except TableMissingError:
        return Evidence(target, batch, None, 0, landed, Past())
    table_id = table_id_of(table)
    after = landed.last_versions.get(table_id, 0)
    return Evidence(target, batch, table_id, table.version, landed, look_back(table, batch, after))


def decide(evidence: Evidence) -> Decision:
    """The course to take; raises `ContinuityError` where going on could lose or double rows."""
    _check_table(evidence)
    newest, batch = evidence.past.newest, evidence.batch
    is_in_table = newest and newest.is_of(batch) and newest.offsets == batch.offsets
    if is_in_table and not evidence.is_on_record:
        return Decision(Course.RECOVER, _ledger_notice(evidence), batch.batch_id, newest)
    last = evidence.last_batch
    if last is None:
        return _without_record(evidence)
    if batch.batch_id > last + 1:
        _refuse(
            evidence,
            "checkpoint_ahead",
            f"the checkpoint is at batch {batch.batch_id}, but the newest batch on record is "
            f"{last}: batches between them may be missing in the table",
            "Restore ledger and table of the checkpoint's time, or start over from the source "
            "with an empty checkpoint",
        )
    if batch.batch_id == last + 1:
        return Decision(Course.WRITE, _ledger_notice(evidence), last)
    return _with_record(evidence, last)


def _check_table(evidence: Evidence) -> None:
    landed, table_id = evidence.landed, evidence.table_id
    if landed.table_id is not None and landed.table_id != table_id:
        _refuse(
            evidence,
            "table_replaced" if table_id is not None else "table_missing",
            "the table that this checkpoint has been writing is gone"
            + (", and another is in its place" if table_id is not None else ""),
            "Restore it, or build it anew: delete the checkpoint too, so that everything is read "
            "again",
        )
    is_short = evidence.table_version < evidence.last_version
    if table_id is not None and (is_short or evidence.past.restored_at is not None):
        _refuse(
            evidence,
            "table_rolled_back",
            f"the table was set back: it is at version {evidence.table_version}"
            + ("" if is_short else f", restored at version {evidence.past.restored_at}")
            + f", and version {evidence.last_version} is on record",
            "Put it forward again, or build it anew: delete table and checkpoint, so that "
            "everything is read again",
        )
    could_double = evidence.target.mode is Mode.APPEND and bool(table_id)
    if evidence.past.missing is not None and (evidence.last_version or could_double):
        raise HistoryMissingError(
            table=evidence.target.uri,
            batch_id=evidence.batch.batch_id,
            missing=evidence.past.missing,
        )


def _without_record(evidence: Evidence) -> Decision:
    """Nothing tells of this query."""
    if evidence.batch.batch_id > 0 and evidence.target.takes_over:
        return Decision(Course.WRITE, Notice.CHECKPOINT_TAKEN_OVER)
    if evidence.batch.batch_id > 0:
        _refuse(
            evidence,
            "checkpoint_unknown",
            f"the checkpoint is at batch {evidence.batch.batch_id}, but neither ledger nor table "
            "know it: the pipeline was renamed, or its ledger and table were deleted",
            "Set the name back, restore them, or start over from the source with an empty "
            "checkpoint; if another sink wrote the batches before, say takes_over=True",
        )
    if evidence.last_version == 0 and evidence.past.newest is None:
        return Decision(Course.WRITE)
    if evidence.target.mode is Mode.APPEND:
        _refuse(
            evidence,
            "checkpoint_replaced",
            "the checkpoint is new, but the table holds batches of an earlier one: all rows that "
            "are read again would be added again",
            "Restore the checkpoint, write under another sink name if the rows are new, or delete "
            "the table to start over",
        )
    return Decision(Course.WRITE, Notice.CHECKPOINT_REPLACED)


def _with_record(evidence: Evidence, last: int) -> Decision:
    """The number of the batch is on record already."""
    then, now = evidence.offsets_then, evidence.batch.offsets
    is_newest_again = evidence.batch.batch_id == last and None in (then, now)
    if is_newest_again or (then is not None and then == now):
        return Decision(Course.SKIP, None, last)
    if evidence.target.mode is Mode.APPEND:
        _refuse(
            evidence,
            "checkpoint_older",
            f"the checkpoint was restored from an older copy: its batch {evidence.batch.batch_id} "
            f"is not the one that landed, and batches up to {last} are in the table",
            "Restore the newest checkpoint, or start over with an empty table and checkpoint",
        )
    return Decision(Course.REPLAY, Notice.CHECKPOINT_OLDER, last)


@dataclass(frozen=True)
class Position:
    """How far a table has come: a landed batch, and where it ended in its source."""

    query_id: str
    batch_id: int
    end: str
    """As the source writes it. All that lies before it has landed, in this batch or before."""
    table_version: int
    """The version that it made, or that was the newest one then."""


def position(target: Target, ledger: Ledger) -> Position | None:
    """The newest landed batch whose end is known; None if nothing tells surely.

    A checkpoint that was lost can be made anew from it: the same query goes on with its next batch.
    """
    try:
        table = LanceTable.open(target.uri)
    except TableMissingError:
        return None
    known = ledger.newest(target.pipeline, target.sink, table_id_of(table))
    after = 0 if known is None else known.table_version
    past = look_back(table, Batch(target.pipeline, target.sink, "", 0), after)
    if table.version < after or past.restored_at is not None or past.missing is not None:
        return None
    last = past.newest or known
    end = None if last is None else end_of(last.offsets)
    if last is None or end is None:
        return None
    return Position(
        last.query_id, last.batch_id, end, past.newest.version if past.newest else after
    )


def _ledger_notice(evidence: Evidence) -> Notice | None:
    is_missing = not evidence.landed.last_versions and evidence.batch.batch_id > 0
    return Notice.LEDGER_MISSING if is_missing else None


def _refuse(evidence: Evidence, case: str, found: str, remedy: str) -> NoReturn:
    raise ContinuityError(case=case, table=evidence.target.uri, found=found, remedy=remedy)
