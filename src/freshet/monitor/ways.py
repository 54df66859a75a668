"""The way of every change file, from the source to the vector index, as the tables tell it. Pure.

A file is in Bronze with the first commit that has its number, searchable with the first batch that
ends behind all of its data files there, and indexed with the first action on the vector index that
found that batch in the table.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple

from freshet.stores.delta_commits import DataCommit


class Stage(StrEnum):
    """From one moment of a way to another; the last two are the whole of it."""

    CHANGED_TO_LANDED = "changed_to_landed"
    LANDED_TO_DISCOVERED = "landed_to_discovered"
    DISCOVERED_TO_BRONZE = "discovered_to_bronze"
    BRONZE_TO_SEARCHABLE = "bronze_to_searchable"
    SEARCHABLE_TO_INDEXED = "searchable_to_indexed"
    LANDED_TO_SEARCHABLE = "landed_to_searchable"
    CHANGED_TO_SEARCHABLE = "changed_to_searchable"

    @property
    def way(self) -> str:
        """As people read it."""
        return self.replace("_to_", " → ")


STEPS = (
    Stage.LANDED_TO_DISCOVERED,
    Stage.DISCOVERED_TO_BRONZE,
    Stage.BRONZE_TO_SEARCHABLE,
)
"""What lies between landing and being found: together they are `LANDED_TO_SEARCHABLE`."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A change file as the files table has it."""

    seq: int
    bytes: int
    landed_at: datetime
    discovered_at: datetime


class Place(NamedTuple):
    """A place in Bronze: up to and with this data file of this version."""

    version: int
    file: int


@dataclass(frozen=True, slots=True)
class IndexBatch:
    """A batch that has landed in the index."""

    at: datetime
    """When that was on record: what it brought could be searched by then."""
    end: Place
    table_version: int


@dataclass(frozen=True, slots=True)
class Covering:
    """An action that made, extended, merged or trained the vector index."""

    started_at: datetime
    at: datetime
    version_before: int
    """The version of the table that it found."""


@dataclass(frozen=True, slots=True)
class Way:
    """The moments of one change file; None where there is none (yet), or none is known."""

    seq: int
    bytes: int
    landed_at: datetime
    discovered_at: datetime
    bronze_at: datetime
    searchable_at: datetime
    changed_at: datetime | None = None
    """The oldest change that the log of Bronze tells of it."""
    indexed_at: datetime | None = None
    is_backfill: bool = False
    """It was there before the pipeline first looked."""

    def seconds(self, stage: Stage) -> float | None:
        """How long a stage took; clocks that differ make none shorter than no time."""
        start, _, end = stage.partition("_to_")
        since: datetime | None = getattr(self, f"{start}_at")
        until: datetime | None = getattr(self, f"{end}_at")
        if since is None or until is None:
            return None
        return max(0.0, (until - since).total_seconds())


def trace(
    arrivals: Iterable[Arrival],
    commits: Sequence[DataCommit],
    batches: Sequence[IndexBatch],
    coverings: Sequence[Covering] = (),
    *,
    began_at: datetime | None = None,
    below: int = -1,
) -> Iterator[Way]:
    """The files that can be searched. Commits by version, batches and actions by time.

    Numbers up to `below` were in Bronze before these commits: a file that is read once more brings
    its number again. A file without a record leaves no trace in Bronze, and has no way.
    """
    known = {arrival.seq: arrival for arrival in arrivals}
    # A batch that was run again ends where it did; what it brings could be found before.
    ends = list(accumulate((batch.end for batch in batches), max))
    for commit in commits:
        for seq, (place, changed_at) in sorted(_files_of(commit, below).items()):
            number = bisect_left(ends, Place(commit.version, place))
            if seq in known and number < len(ends):
                batch, arrival = batches[number], known[seq]
                yield Way(
                    seq=seq,
                    bytes=arrival.bytes,
                    landed_at=arrival.landed_at,
                    discovered_at=arrival.discovered_at,
                    bronze_at=commit.at,
                    searchable_at=batch.at,
                    changed_at=changed_at,
                    indexed_at=_covered_at(batch, coverings),
                    is_backfill=began_at is not None and arrival.landed_at <= began_at,
                )
        below = max(below, commit.last)


def unindexed(commit: DataCommit, end: Place | None) -> DataCommit | None:
    """What of a commit no batch has taken, where they end at a place; None if they have it all."""
    left = tuple(
        bunch for bunch in commit.bunches if end is None or Place(commit.version, bunch.place) > end
    )
    return DataCommit(commit.version, commit.at, left) if left else None


def _files_of(commit: DataCommit, below: int) -> Mapping[int, tuple[int, datetime | None]]:
    """The files that a commit brought, with their last place in it and their oldest change.

    The log tells the oldest change of a data file, which may hold several files' changes: it is
    told of the first of them only.
    """
    found: dict[int, tuple[int, datetime | None]] = {}
    for bunch in commit.bunches:
        for seq in range(max(bunch.first, below + 1), bunch.last + 1):
            place, changed_at = found.get(seq, (-1, None))
            if seq == bunch.first and bunch.oldest is not None:
                changed_at = min(changed_at or bunch.oldest, bunch.oldest)
            found[seq] = max(place, bunch.place), changed_at
    return found


def _covered_at(batch: IndexBatch, coverings: Sequence[Covering]) -> datetime | None:
    return next(
        (
            one.at
            for one in coverings
            if one.version_before >= batch.table_version and one.started_at >= batch.at
        ),
        None,
    )
