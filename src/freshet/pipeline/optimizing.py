"""How a pipeline's index is kept fast: once, again and again, or beside a run."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property, partial
from threading import Event, Thread
from typing import Final

from freshet.bronze.table import FILES_PER_BATCH
from freshet.clock import utc_now
from freshet.errors import FreshetError, TableMissingError
from freshet.events import warn
from freshet.layout import INDEX
from freshet.optimizer import Limits, Optimizer, Records, RunReport, Situation, Wanted
from freshet.optimizer.acting import Acting, Hook, no_hook
from freshet.optimizer.health import Health, HealthRecords, last_probe, recalls_since
from freshet.optimizer.optimizer import OnAction
from freshet.optimizer.plan import SideTable
from freshet.optimizer.records import Done, lost_rows, speeds
from freshet.search.probe import Probe, probe
from freshet.settings import NO_INDEX, Settings
from freshet.sink import Ledger
from freshet.stores import delta_upkeep, lance_actions, lance_upkeep
from freshet.stores.lance_shape import TableShape
from freshet.stores.lance_tables import TABLE_ID, LanceTable
from freshet.stores.locks import ExpiringLock
from freshet.units import seconds_of

_BRONZE: Final = "bronze"
_TOMBSTONES: Final = "tombstones"
_PROBE_SAMPLES: Final = 16
_LONGEST_PAUSE_S: Final = 3_600.0
KEPT_FOR: Final = timedelta(days=30)
"""So long it is on record what the optimizer did and how the index fared."""


def index_lock(settings: Settings, purpose: str) -> ExpiringLock | None:
    """The lock that batches and actions take in turns; None if both may go on at once."""
    if settings.optimizer.coordination == "optimistic":
        return None
    return _lock(settings, INDEX, purpose)


def _lock(settings: Settings, name: str, purpose: str) -> ExpiringLock:
    expiry = timedelta(seconds=seconds_of(settings.optimizer.lock_expiry))
    return ExpiringLock(settings.home.lock(name), purpose, expiry, utc_now)


@dataclass(frozen=True)
class Optimizing:
    """The optimizer of a pipeline's index. Needs no Spark."""

    settings: Settings
    hook: Hook = no_hook
    clock: Callable[[], datetime] = utc_now

    def optimizer(self) -> Optimizer:
        """Made of the settings as they are."""
        home, chosen = self.settings.home, self.settings.optimizer
        return Optimizer(
            uri=home.index,
            pipeline=home.name,
            wanted=self.wanted,
            look=self._look,
            limits=self._limits,
            acting=Acting(
                home.index, self.settings.index.metric, chosen.fragment_rows, self._tidy, self.hook
            ),
            records=self._records,
            lock=_lock(self.settings, "optimizer", "an optimizer"),
            writer_lock=index_lock(self.settings, "an optimizer"),
            cadence=timedelta(seconds=seconds_of(chosen.cadence)),
            clock=self.clock,
            on_shape=self._note_health,
        )

    def wanted(self, shape: TableShape) -> list[Wanted]:
        """The indexes that the settings ask for, of columns that are there."""
        chosen = self.settings.index
        wanted = [Wanted("key_idx", "key", "BTREE")]
        if chosen.kind != NO_INDEX:
            vectors = ("vector", *self.settings.gold.vectors)
            wanted += [
                Wanted(f"{name}_idx", name, chosen.kind, chosen.min_rows) for name in vectors
            ]
        if chosen.text_index:
            wanted.append(Wanted("text_idx", "text", "INVERTED"))
        wanted += [Wanted(f"{name}_idx", name, kind) for name, kind in chosen.filters.items()]
        return [one for one in wanted if one.column in shape.columns]

    # --- what a plan follows from ----------------------------------------------------------------

    def _look(self, shape: TableShape, records: Sequence[Done]) -> Situation:
        home, now = self.settings.home, self.clock()
        recalls = recalls_since(self._health.known(now), _trained_at(records))
        return Situation(
            shape=shape,
            now=now,
            floor=self._floor(shape),
            recall=recalls[-1] if recalls else None,
            best_recall=max(recalls[:-1], default=None),
            speeds=speeds(records),
            lost_rows=lost_rows(records, now),
            free_bytes=shutil.disk_usage(home.root).free if home.is_local else None,
            orphans=lance_actions.orphans(home.index, now - self._limits.orphan_age),
            tables=tuple(self._side_tables()),
        )

    def _floor(self, shape: TableShape) -> int | None:
        """The version that the newest batch on record wrote or saw: recovery looks from there.

        None if that is none of those that are kept.
        """
        home = self.settings.home
        table_id = LanceTable.open(home.index).metadata.get(TABLE_ID, "")
        oldest = shape.versions[0].number
        return Ledger(home.ledger).newest_version(home.name, INDEX, table_id, at_least=oldest)

    def _side_tables(self) -> Iterator[SideTable]:
        """Files of Bronze and versions of the tombstones.

        All others are folded by who appends to them (`SmallTable`).
        """
        found = delta_upkeep.files_of(self.settings.home.bronze)
        yield SideTable(_BRONZE, found.files, found.rows // self._bronze_rows, found.bytes)
        times = lance_upkeep.version_times(self.settings.home.tombstones)
        since = self.clock() - self._limits.retention
        yield SideTable(_TOMBSTONES, len(times), sum(at >= since for at in times), 0)

    @property
    def _bronze_rows(self) -> int:
        """A file of Bronze has no more rows than this, so that batches can be capped."""
        return max(self.settings.pipeline.max_rows_per_batch // FILES_PER_BATCH, 1)

    def _tidy(self, name: str) -> None:
        if name == _TOMBSTONES:
            lance_upkeep.forget_versions(self.settings.home.tombstones, self._limits.retention)
            return
        found = delta_upkeep.files_of(self.settings.home.bronze)
        row_bytes = found.bytes // max(found.rows, 1)
        delta_upkeep.fold(self.settings.home.bronze, max(row_bytes * self._bronze_rows, 1))

    # --- how the index fares ---------------------------------------------------------------------

    @cached_property
    def _limits(self) -> Limits:
        return Limits.of(self.settings.optimizer)

    @cached_property
    def _records(self) -> Records:
        return Records(self.settings.home.optimizer, self.settings.home.name)

    @cached_property
    def _health(self) -> HealthRecords:
        return HealthRecords(self.settings.home.health, self.settings.home.name)

    def _note_health(self, shape: TableShape) -> None:
        now, home = self.clock(), self.settings.home
        looks = self._health.latest(now)
        if not looks or looks[-1].at.date() < now.date():  # the first look of a day
            self._forget(now - KEPT_FOR)
        probed = last_probe(looks)
        interval = timedelta(seconds=seconds_of(self.settings.optimizer.probe_interval))
        is_due = probed is None or now - probed.at >= interval
        found = self.probe() if is_due and shape.rows else None
        self._health.add(Health.of(home.name, now, shape, found))

    def _forget(self, before: datetime) -> None:
        """Old rows go; a failure is told, does no harm, and the next day tries again."""
        try:
            self._health.forget_before(before)
            self._records.forget_before(before)
        except FreshetError as error:
            warn("optimizer", "forget_failed", error=error)

    def probe(self) -> Probe | None:
        """How fast searches are and what they miss, on rows of the index."""
        chosen = self.settings.search
        return probe(
            self.settings.home.index,
            metric=self.settings.index.metric,
            samples=_PROBE_SAMPLES,
            nprobes=chosen.nprobes,
            ef=chosen.ef,
            refine=chosen.refine,
            seed=int(self.clock().timestamp()),
        )

    # --- running it ------------------------------------------------------------------------------

    def run(self, on_action: OnAction = lambda _action, _done: None) -> RunReport:
        """Does what is due; nothing if there is no index yet."""
        try:
            return self.optimizer().run(on_action)
        except TableMissingError:
            return RunReport()

    def watch(self, stop: Event, on_run: Callable[[RunReport], None] = lambda _: None) -> None:
        """Runs at its cadence until told to stop; after a failure it waits longer and longer."""
        cadence = seconds_of(self.settings.optimizer.cadence)
        pause = cadence
        while not stop.wait(pause):
            try:
                report = self.run()
            except FreshetError as error:
                warn("optimizer", "run_failed", error=error)
                pause = min(2 * pause, max(_LONGEST_PAUSE_S, cadence))
                continue
            pause = cadence
            on_run(report)

    def after_run(self) -> None:
        """Once, if the settings ask for it; a failure is told and recorded, and does no harm."""
        if not self.settings.optimizer.in_run:
            return
        try:
            self.run()
        except FreshetError as error:
            warn("optimizer", "run_failed", error=error)

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Watches in a thread while the block runs, if the settings ask for it."""
        if not self.settings.optimizer.in_run:
            yield
            return
        stop = Event()
        thread = Thread(target=partial(self.watch, stop), name="freshet-optimizer", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            # What it is at is safe to be cut off, and may take long.
            thread.join(timeout=5)


def _trained_at(records: Sequence[Done]) -> datetime | None:
    """When the vector index was made; what was probed before tells nothing of it."""
    trained = [done.finished_at for done in records if done.action in {"build", "retrain"}]
    return max(trained, default=None)
