"""Stamps: how a commit in a table's own history is known as a batch's."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from freshet.errors import HistoryMissingError, VersionMissingError
from freshet.stores.lance_commits import Commit
from freshet.stores.lance_tables import LanceTable

_PIPELINE: Final = "freshet.pipeline"
_SINK: Final = "freshet.sink"
_QUERY: Final = "freshet.query"
_BATCH: Final = "freshet.batch"
_WRITER: Final = "freshet.writer"
_OFFSETS: Final = "freshet.offsets"
_COUNTS: Final = "freshet.counts"


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
class Batch:
    """A micro-batch of one sink, as Spark numbers it."""

    pipeline: str
    sink: str
    query_id: str
    batch_id: int
    offsets: str | None = None
    """When the batch was planned and where it ends; None if that is not known."""

    def stamp(self, writer: str, counts: Counts) -> dict[str, str]:
        """What marks a commit as this batch's, with all that its ledger row needs."""
        stamp = {
            _PIPELINE: self.pipeline,
            _SINK: self.sink,
            _QUERY: self.query_id,
            _BATCH: str(self.batch_id),
            _WRITER: writer,
            _COUNTS: json.dumps(asdict(counts)),
        }
        return stamp if self.offsets is None else stamp | {_OFFSETS: self.offsets}


@dataclass(frozen=True)
class Mark:
    """What a store says of a batch that landed in it."""

    version: int
    """The version of the table that it made."""
    query_id: str
    batch_id: int
    writer: str
    offsets: str | None
    counts: Counts

    def is_of(self, batch: Batch) -> bool:
        """Whether it is of this very batch, and not only of one of its number."""
        is_known = self.offsets is not None and batch.offsets is not None
        is_same_plan = self.offsets == batch.offsets or not is_known
        return is_same_plan and self.has_number_of(batch)

    def has_number_of(self, batch: Batch) -> bool:
        """Whether it is of a batch of this number, planned then or anew."""
        return (self.query_id, self.batch_id) == (batch.query_id, batch.batch_id)


@dataclass(frozen=True)
class Found(Mark):
    """A commit of a Lance table that carries a stamp."""

    commit: Commit


@dataclass(frozen=True)
class Past:
    """What a table's history tells of a sink, from its newest commit back to a known one."""

    newest: Mark | None = None
    """The sink's newest commit, whatever query and batch it is of."""
    restored_at: int | None = None
    """A version after that commit which put an older state of the table back."""
    missing: int | None = None
    """A version that was cleaned away before such a commit was found."""


def look_back(table: LanceTable, batch: Batch, after: int) -> Past:
    """Reads the history back to the newest commit of the batch's sink, or to a known version."""
    restored_at, looked_at = None, table.version + 1
    try:
        for commit in table.history(after):
            looked_at = commit.version
            if commit.kind == "Restore":
                restored_at = commit.version
            if is_stamp_of(commit.properties, batch):
                return Past(_found(commit), restored_at)
    except VersionMissingError:
        return Past(None, restored_at, looked_at - 1)
    return Past(None, restored_at)


def find_all(table: LanceTable, batch: Batch, after: int) -> list[Found]:
    """The commits of the batch's sink after a version, oldest first.

    Raises `HistoryMissingError` if one of the versions was cleaned away: it may be the one.
    """
    found, looked_at = [], table.version + 1
    try:
        for commit in table.history(after):
            looked_at = commit.version
            if is_stamp_of(commit.properties, batch):
                found.append(_found(commit))
    except VersionMissingError as error:
        raise HistoryMissingError(
            table=table.uri, batch_id=batch.batch_id, missing=looked_at - 1
        ) from error
    return found[::-1]


def find(table: LanceTable, batch: Batch, after: int) -> Found | None:
    """The first commit of this very batch after a version."""
    return next((one for one in find_all(table, batch, after) if one.is_of(batch)), None)


def is_stamp_of(stamp: Mapping[str, str], batch: Batch) -> bool:
    """Whether a stamp is one of the batch's sink, of whatever batch."""
    return (stamp.get(_PIPELINE), stamp.get(_SINK)) == (batch.pipeline, batch.sink)


def mark_of(stamp: Mapping[str, str], version: int) -> Mark:
    """What a stamp says, of the version that carries it."""
    return Mark(
        version=version,
        query_id=stamp[_QUERY],
        batch_id=int(stamp[_BATCH]),
        writer=stamp[_WRITER],
        offsets=stamp.get(_OFFSETS),
        counts=Counts(**json.loads(stamp[_COUNTS])),
    )


def _found(commit: Commit) -> Found:
    told = mark_of(commit.properties, commit.version)
    return Found(**vars(told), commit=commit)
