"""How fresh the index is kept: the way of every change file, from what the tables know.

Nothing is written down for it, and nothing of it is done on the way of the data. The cost follows
the window: rows and commits of that time are read, of at most `MOST_FILES` files and as many
commits as a `CommitLog` holds, and one row for each file that waits.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from freshet.clock import utc_now
from freshet.errors import TableMissingError
from freshet.landing.files import ARRIVING, FilesTable, KnownFile, Oldest
from freshet.layout import INDEX, INGEST
from freshet.monitor.freshness import Freshness, Timed, Waiting, verdicts
from freshet.monitor.slo import Verdict
from freshet.monitor.ways import Arrival, Covering, IndexBatch, Place, Stage, trace, unindexed
from freshet.optimizer import Kind, Records
from freshet.optimizer.records import DONE
from freshet.settings import Settings
from freshet.sink import Ledger
from freshet.sink.spark_queries import end_of
from freshet.stores import checkpoints
from freshet.stores.delta_commits import CommitLog, DataCommit, LogEnd
from freshet.stores.lance_shape import shape_of
from freshet.units import seconds_of

MOST_FILES: Final = 20_000
"""So many of the newest files are timed; of a window with more, the older part is left out."""
_COVERS: Final = (Kind.BUILD, Kind.EXTEND, Kind.MERGE, Kind.RETRAIN)
_VECTOR_INDEX: Final = "vector_idx"
_BEFORE: Final = 8
"""So many versions before the first one tell which numbers were in Bronze already."""
_FURTHER: Final = 4
"""So many times as far back the ledger is looked into, if it has nothing older than the window."""


@dataclass(frozen=True)
class _Bronze:
    """The commits that matter, and how far the index has come in them."""

    end: LogEnd
    batches: Sequence[IndexBatch]
    commits: Sequence[DataCommit] = ()
    below: int = -1
    """Numbers up to this one were there before."""
    is_cut: bool = False
    """There were more files than are timed."""

    @property
    def versions(self) -> tuple[int, int] | None:
        """The first and the last one of the commits."""
        return (self.commits[0].version, self.commits[-1].version) if self.commits else None

    @property
    def place(self) -> Place | None:
        """Behind what the index has; None if it has nothing."""
        return max((batch.end for batch in self.batches), default=None)


class Timing:
    """Times change files. Reads only, needs no Spark; keeps commits of Bronze between looks."""

    def __init__(self, settings: Settings, clock: Callable[[], datetime] = utc_now) -> None:
        self._settings = settings
        self._home = settings.home
        self._clock = clock
        self._log = CommitLog(self._home.bronze, "seq", "changed_at")

    @property
    def target_s(self) -> float | None:
        """How long a file may take from landing to being searchable, if that is set."""
        return self._settings.slo.targets.get(Stage.LANDED_TO_SEARCHABLE)

    def freshness(self, undiscovered: Oldest = Oldest()) -> Freshness:  # noqa: B008 - frozen
        """The figures of the settings' window, against the settings' targets."""
        return Freshness.of(self.look(undiscovered=undiscovered), self._settings.slo)

    def verdicts(self) -> tuple[Verdict, ...]:
        """Whether the targets are met, without a look at the landing zone."""
        return verdicts(self.look(), self._settings.slo)

    def look(
        self,
        within: timedelta | None = None,
        *,
        undiscovered: Oldest = Oldest(),  # noqa: B008 - frozen
    ) -> Timed:
        """The files that became searchable lately, and what waits now."""
        until = self._clock()
        since = until - (within or timedelta(seconds=seconds_of(self._settings.slo.window)))
        files, end = FilesTable(self._home.files), self._log.end()
        began_at = files.began_at()
        if end is None or began_at is None:
            return Timed(since, until)
        bronze = self._bronze(end, since)
        found = trace(
            _arrivals(files, bronze.commits, bronze.below),
            bronze.commits,
            bronze.batches,
            self._coverings(since, until),
            began_at=began_at,
            below=bronze.below,
        )
        ways = [way for way in found if way.searchable_at >= since]
        return Timed(
            since=min(way.searchable_at for way in ways) if bronze.is_cut and ways else since,
            until=until,
            ways=ways,
            waiting=self._waiting(files, bronze, began_at, undiscovered),
            has_vector_index=self._has_vector_index(),
            versions=bronze.versions,
        )

    # --- Bronze and the index --------------------------------------------------------------------

    def _bronze(self, end: LogEnd, since: datetime) -> _Bronze:
        batches = list(self._batches(end, since))
        known = _Bronze(end, batches)
        if known.place is None:
            return known
        before = max((batch.end for batch in batches if batch.at < since), default=Place(0, -1))
        last = min(known.place.version, end.version)
        found = self._log.between(before.version - _BEFORE, last)
        earlier = [commit for commit in found if commit.version < before.version]
        below = max((commit.last for commit in earlier), default=-1)
        return _newest(replace(known, commits=found[len(earlier) :], below=below))

    def _batches(self, end: LogEnd, since: datetime) -> Iterator[IndexBatch]:
        for row in self._ledger(since):
            place = _place(row["offsets"], end.table_id)
            if place is not None:
                yield IndexBatch(row["finished_at"], place, row["table_version"])

    def _ledger(self, since: datetime) -> Sequence[Mapping[str, Any]]:
        """The batches that landed since, and at least one before, which tells where they began."""
        ledger = Ledger(self._home.ledger)
        began_at = ledger.began_at()
        if began_at is None:
            return []
        back = self._clock() - since
        while True:
            rows = ledger.landed_since(self._home.name, INDEX, since - back)
            if since - back <= began_at or (rows and rows[0]["finished_at"] < since):
                return rows
            back *= _FURTHER

    def _coverings(self, since: datetime, until: datetime) -> list[Covering]:
        done = Records(self._home.optimizer, self._home.name).latest(until, until - since)
        return [
            Covering(one.started_at, one.finished_at, one.version_before)
            for one in done
            if one.status == DONE and one.action in _COVERS and one.target == _VECTOR_INDEX
        ]

    def _has_vector_index(self) -> bool:
        """Asked only if it matters."""
        if self._settings.slo.searchable_to_indexed is None:
            return False
        try:
            return shape_of(self._home.index).index_on("vector") is not None
        except TableMissingError:
            return False

    # --- what waits ------------------------------------------------------------------------------

    def _waiting(
        self, files: FilesTable, bronze: _Bronze, began_at: datetime, undiscovered: Oldest
    ) -> Waiting:
        """Files from the first one on that the index lacks, or Bronze if the index has it all."""
        left = self._first_unindexed(bronze)
        if left is None:
            read = checkpoints.committed_offset(self._home.checkpoint(INGEST)) or {"seq": 0}
            known = max((commit.last for commit in bronze.commits), default=bronze.below)
            first = max(int(read["seq"]), known + 1)
        else:
            first = min(bunch.first for bunch in left.bunches)
        found = files.waiting(first, began_at)
        landed = (found.landed_at, undiscovered.landed_at)
        changed = () if left is None else (bunch.oldest for bunch in left.bunches)
        return Waiting(
            files=found.files + undiscovered.files,
            landed_at=min((at for at in landed if at is not None), default=None),
            changed_at=min((at for at in changed if at is not None), default=None),
        )

    def _first_unindexed(self, bronze: _Bronze) -> DataCommit | None:
        place = bronze.place
        start = 0 if place is None else place.version
        left = (unindexed(commit, place) for commit in self._log.after(start, bronze.end.version))
        return next((one for one in left if one is not None), None)


def _place(offsets: str | None, table_id: str) -> Place | None:
    """Where a batch ends in Bronze, as Delta's streaming source writes it; None if nowhere there.

    A source that starts reads a snapshot first, whose files it counts in another way: only the
    last batch of it tells a place.
    """
    text = end_of(offsets)
    told = {} if text is None else json.loads(text)
    if told.get("reservoirId") != table_id or told.get("isStartingVersion"):
        return None
    return Place(int(told["reservoirVersion"]), int(told["index"]))


def _newest(bronze: _Bronze) -> _Bronze:
    """Without the oldest commits, if those after them have as many files as are timed."""
    first = len(bronze.commits)
    greatest = bronze.commits[-1].last if bronze.commits else -1
    while first > 0 and greatest - bronze.commits[first - 1].last < MOST_FILES:
        first -= 1
    left_out = bronze.commits[:first]
    below = max([bronze.below, *(commit.last for commit in left_out)])
    return replace(bronze, commits=bronze.commits[first:], below=below, is_cut=first > 0)


def _arrivals(files: FilesTable, commits: Sequence[DataCommit], below: int) -> Iterator[Arrival]:
    if not commits:
        return
    first = max(below + 1, min(bunch.first for commit in commits for bunch in commit.bunches))
    last = max(commit.last for commit in commits)
    for file in files.between(first, last + 1):
        if file.how in ARRIVING and file.modified_at is not None:
            yield _arrival(file, file.modified_at)


def _arrival(file: KnownFile, landed_at: datetime) -> Arrival:
    discovered_at = file.discovered_at or landed_at
    return Arrival(file.seq, file.size or 0, landed_at, discovered_at)
