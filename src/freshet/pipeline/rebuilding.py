"""`Rebuild`: a new index from Bronze, made beside the live one and put in its place at once.

1. Hold      the mark says who is at it. What an earlier rebuild left is gone on from if its
             settings were the same, and dropped otherwise.
2. Fill      Bronze is read into a table of its own, again and again, until little is left.
3. Fence     the lease of the live index is taken: a run waits at its next batch from now on.
4. Drain     what has come since is read, too; so is all that the run has ever written.
5. Bury      deleted keys and their versions go to the tombstones of the live index, and keys that
             are watched to those that it watches.
6. Copy      the rows go to data files of the live index that no version names yet.
7. Switch    columns, metadata and rows are replaced in one commit, only if nothing was committed
             since the version that it replaces; that version keeps a name.
8. Clear     the table beside it, its checkpoint and the mark go.

Guarantee: readers see the old index or the new one, whole, whenever they look. A kill before 7 is
done leaves the live index as it was, and the next rebuild goes on; a kill after it leaves only
things to clear, which the next run or rebuild does. The run goes on after the switch from its own
checkpoint: what it reads again is known by its version.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Event
from typing import Final
from uuid import uuid4

from pyspark.sql import SparkSession

from freshet import bronze
from freshet.clock import utc_now
from freshet.embedding import ProviderSpec
from freshet.errors import (
    CommitConflictError,
    FencedError,
    ModelMismatchError,
    SchemaMismatchError,
    StoreError,
)
from freshet.events import emit, warn
from freshet.layout import INDEX
from freshet.pipeline import old_versions, queries
from freshet.pipeline.beside import (
    REBUILT_AS,
    bury_all,
    drop,
    events_read,
    fingerprint,
    is_switched,
    rebuilt_as,
    watch_all,
)
from freshet.pipeline.index import Index, IndexPlace
from freshet.pipeline.rebuild_mark import Keeper, Mark
from freshet.pipeline.rebuild_report import Progress, RebuildReport, RebuildStep
from freshet.settings import Settings
from freshet.sink import BatchReport, Ledger
from freshet.sink.fence import try_to_discard
from freshet.sink.leases import FOR_REBUILD, Lease
from freshet.sink.target import Target
from freshet.stores import lance_switch
from freshet.stores.lance_tables import TABLE_ID, LanceTable

_MAX_CONFLICTS: Final = 20
_PAUSE_S: Final = 0.1


class Rebuild:
    """One rebuild of one pipeline's index."""

    def __init__(
        self,
        settings: Settings,
        *,
        spark: Callable[[], SparkSession],
        on_progress: Callable[[Progress], None] = lambda _: None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._settings = settings
        self._home = settings.home
        self._spark = spark
        self._on_progress = on_progress
        self._clock = clock
        self._ledger = Ledger(self._home.ledger)
        self._index = self._new_index()
        self._rows_read = 0
        self._step = RebuildStep.HOLD
        self._progress = Progress(self._step, 0, 0)
        self._report = RebuildReport("", 0, 0)

    def run(self, keep_old: timedelta) -> RebuildReport:
        """Builds the index anew and switches to it; the old one is kept for a time."""
        started = time.perf_counter()
        LanceTable.open(self._home.index, what="index")
        if not bronze.count(self._home.bronze).rows:
            raise StoreError("rebuild the index from", self._home.bronze, "there is nothing in it")
        ProviderSpec.of(self._settings.embedding).check()
        with Keeper(self._home, self._clock) as keeper:
            if not self._is_switched_already(keeper):
                self._begin(keeper)  # 1
                self._fill()  # 2
                self._switch(keeper.mark.rebuild_id, keep_old)  # 3 to 7
            self._enter(RebuildStep.CLEAR)  # 8
            drop(self._home)
            keeper.remove()
        old_versions.forget_expired(self._home.index, self._clock())
        self._report = replace(self._report, seconds=time.perf_counter() - started)
        emit("pipeline", "index_rebuilt", **self._report.as_dict())
        return self._report

    # --- 1: hold ---------------------------------------------------------------------------------

    def _is_switched_already(self, keeper: Keeper) -> bool:
        """Whether a rebuild with these settings was killed when only clearing was left."""
        mark, live = keeper.mark, LanceTable.open(self._home.index)
        if mark.settings != fingerprint(self._settings) or not is_switched(self._home, mark):
            return False
        self._report = RebuildReport(mark.rebuild_id, live.count(), live.version, is_continued=True)
        return True

    def _begin(self, keeper: Keeper) -> None:
        """Goes on with what there is, or drops it and starts over."""
        self._enter(RebuildStep.HOLD)
        wanted = fingerprint(self._settings)
        is_continued = keeper.mark.settings == wanted and self._fits()
        if not is_continued:
            keeper.become(Mark("", "", self._clock()))
            drop(self._home)
            keeper.become(Mark(uuid4().hex, wanted, self._clock()))
        # Not the one that looked at what may be gone now.
        self._index = self._new_index()
        read = events_read(self._home, self._ledger) if is_continued else 0
        self._progress = Progress(self._step, read, read)
        self._report = RebuildReport(keeper.mark.rebuild_id, 0, 0, is_continued=is_continued)
        emit("pipeline", "rebuild_begun", rebuild=keeper.mark.rebuild_id, continued=is_continued)

    def _fits(self) -> bool:
        try:
            self._index.check()
        except (ModelMismatchError, SchemaMismatchError):
            return False
        return True

    # --- 2: fill ---------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Rounds, as long as each leaves less for the next and more than one batch."""
        self._enter(RebuildStep.FILL)
        bronze.create(self._home.bronze)
        behind = None
        while True:
            self._read_bronze()
            came = self._rows_to_read()
            is_little = came <= self._settings.pipeline.max_rows_per_batch
            if is_little or (behind is not None and came >= behind):
                return
            behind = came

    def _read_bronze(self) -> None:
        """All that is there now."""
        self._rows_read = bronze.count(self._home.bronze).rows
        query = self._index.start(self._spark(), {"availableNow": True})
        queries.watch(
            [query],
            lambda _: None,
            Event(),
            lambda failed: queries.raise_failure(failed, self._index.failure),
        )

    def _rows_to_read(self) -> int:
        """What has come since; Bronze only grows."""
        return bronze.count(self._home.bronze).rows - self._rows_read

    # --- 3 to 7: switch --------------------------------------------------------------------------

    def _switch(self, rebuild_id: str, keep_old: timedelta) -> None:
        self._enter(RebuildStep.FENCE)
        fenced = time.perf_counter()
        target = Target(self._home.index, self._settings.pipeline.name, INDEX)
        lease = Lease.take(self._ledger.leases, target, self._clock, FOR_REBUILD)
        self._enter(RebuildStep.DRAIN)
        if self._rows_to_read():
            self._read_bronze()
        self._enter(RebuildStep.BURY)
        bury_all(self._home, self._clock())
        watch_all(self._home, self._clock())
        self._enter(RebuildStep.COPY)
        made = LanceTable.open(self._home.rebuilt)
        fragments = lance_switch.copy_rows(made, self._home.index)
        self._enter(RebuildStep.SWITCH)
        until = self._clock() + keep_old if keep_old else None
        switched = self._replace(rebuild_id, made, fragments, lease, until)
        fenced_s = time.perf_counter() - fenced
        self._report = replace(switched, rows=made.count(), fenced_s=fenced_s)
        self._index_keys(made)

    def _replace(
        self,
        rebuild_id: str,
        made: LanceTable,
        fragments: list[str],
        lease: Lease,
        until: datetime | None,
    ) -> RebuildReport:
        """The one commit that everybody sees."""
        for _ in range(_MAX_CONFLICTS):
            # In this order: who takes the lease after the check commits after this version.
            live = LanceTable.open(self._home.index)
            try:
                lease.check()
                name = old_versions.keep(live, rebuild_id, until)
                version = self._commit(rebuild_id, live, made, fragments)
            except CommitConflictError:
                warn("pipeline", "switch_conflict", table_version=live.version)
                time.sleep(_PAUSE_S)
            except FencedError:
                try_to_discard(live, fragments)
                raise
            else:
                return replace(
                    self._report, version=version, old_version=live.version, old_name=name
                )
        try_to_discard(live, fragments)
        raise CommitConflictError("replace", live.uri, f"{_MAX_CONFLICTS} conflicts in a row")

    def _commit(
        self, rebuild_id: str, live: LanceTable, made: LanceTable, fragments: list[str]
    ) -> int:
        # It stays the table that ledger and checkpoint know.
        own = {TABLE_ID: live.metadata[TABLE_ID], REBUILT_AS: rebuild_id}
        stamp = {REBUILT_AS: rebuild_id}
        try:
            return live.overwrite(made.schema, fragments, stamp, made.metadata | own)
        except CommitConflictError:
            raise
        except StoreError:
            # The answer may be lost, and the commit not.
            if rebuilt_as(self._home) != rebuild_id:
                raise
            return LanceTable.open(self._home.index).version

    def _index_keys(self, made: LanceTable) -> None:
        """Without it look-ups are slower, until the next batch makes up for it."""
        try:
            LanceTable.create(self._home.index, made.schema, key="key")
        except StoreError as error:
            warn("pipeline", "key_index_failed", error=error)

    # --- around the steps ------------------------------------------------------------------------

    def _new_index(self) -> Index:
        place = IndexPlace.rebuilt(self._home)
        return Index(self._settings, self._home, place=place, on_batch=self._count)

    def _enter(self, step: RebuildStep) -> None:
        self._step = step
        counts = bronze.count(self._home.bronze)
        self._tell(self._progress.events, counts.rows - counts.errors)

    def _count(self, report: BatchReport) -> None:
        counts, known = report.counts, self._report
        self._report = replace(
            known,
            events=known.events + counts.rows_in,
            embedded=known.embedded + counts.rows_embedded,
            reused=known.reused + counts.rows_reused,
        )
        self._tell(self._progress.events + counts.rows_in, self._progress.of_events)

    def _tell(self, events: int, of_events: int) -> None:
        self._progress = Progress(self._step, events, max(events, of_events))
        self._on_progress(self._progress)
