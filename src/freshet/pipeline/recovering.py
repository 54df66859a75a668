"""How a pipeline uses its backups: at the start, on a schedule, and when somebody asks."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Thread
from typing import Final

from pyspark.sql.streaming.query import StreamingQuery

from freshet import recovery
from freshet.clock import utc_now
from freshet.errors import StoreError, TableMissingError
from freshet.events import emit, warn
from freshet.layout import INDEX, Home
from freshet.pipeline.queries import OnTick
from freshet.recovery import Backup, Backups, Finding, Landed, Rebuilt, Restored
from freshet.settings import Settings
from freshet.sink import Ledger, Mode
from freshet.sink.continuity import position
from freshet.sink.target import Target
from freshet.stores.lance_tables import TABLE_ID, LanceTable
from freshet.units import seconds_of

Clock = Callable[[], datetime]
_TRY_AGAIN_AFTER: Final = timedelta(minutes=1)


class Recovery:
    """The state of one pipeline: backed up, looked at, put back, made anew. Needs no Spark."""

    def __init__(self, settings: Settings, clock: Clock = utc_now) -> None:
        chosen = settings.checkpoint
        self._home = settings.home
        self._clock = clock
        self._keep = chosen.backup_keep
        interval = None if chosen.backup_interval is None else seconds_of(chosen.backup_interval)
        self._backups = Backups(
            chosen.backup_path or self._home.backups,
            None if interval is None else timedelta(seconds=interval),
        )

    def reconcile(self) -> list[Rebuilt]:
        """Before a run: makes anew what cannot be gone on from; milliseconds if all is well."""
        return recovery.reconcile(self._home, position=self._asking(self._home), clock=self._clock)

    def backup(self, place: str | None = None) -> Backup:
        """Makes a backup, in the settings' place or another."""
        return recovery.backup(
            self._home, place or self._backups.place, keep=self._keep, clock=self._clock
        )

    def backups(self) -> list[Backup]:
        """The backups that there are, oldest first."""
        return recovery.backups_in(self._backups.place, self._home.name)

    def verify(self, name: str | None = None) -> list[Finding]:
        """The live state, or a backup by name or place."""
        if name is not None:
            return recovery.inspect_backup(self._chosen(name), self._home, clock=self._clock)
        return recovery.inspect(
            self._home, self._backups, position=self._asking(self._home), clock=self._clock
        )

    def restore(
        self, name: str | None = None, *, to: str | None = None, force: bool = False
    ) -> Restored:
        """Puts a backup back, the newest unless one is named; into another home if one is named."""
        home = self._home if to is None else Home(to, self._home.name)
        return recovery.restore(
            self._chosen(name),
            home,
            position=self._asking(home),
            clock=self._clock,
            force=force,
        )

    def scheduled(self, on_tick: OnTick) -> OnTick:
        """The function, made to start a backup as well whenever one is due."""
        interval = self._backups.interval
        if interval is None:
            return on_tick
        made = [backup.manifest.made_at + interval for backup in self.backups()]
        schedule = Schedule(interval, self.backup, self._clock, max(made, default=self._clock()))

        def tick(queries: list[StreamingQuery]) -> None:
            schedule.tick()
            on_tick(queries)

        return tick

    def _chosen(self, name: str | None) -> Backup:
        if name is not None:
            is_place = "/" in name
            return Backup.open(name if is_place else f"{self._backups.place.rstrip('/')}/{name}")
        known = self.backups()
        if not known:
            raise StoreError("restore from", self._backups.place, "there is no backup")
        return known[-1]

    def _asking(self, home: Home) -> recovery.Position:
        return lambda: landed(home)


def landed(home: Home) -> Landed | None:
    """How far the index has come, by ledger and index."""
    ledger = Ledger(home.ledger)
    target = Target(home.index, home.name, INDEX, Mode.UPDATE, "key")
    surely = position(target, ledger)
    if surely is not None:
        return Landed(surely.query_id, surely.batch_id, surely.end, surely.table_version)
    if not LanceTable.exists(home.index):
        return None
    table_id = LanceTable.open(home.index).metadata.get(TABLE_ID, "")
    known = ledger.newest(home.name, INDEX, table_id)
    if known is None:
        return None
    return Landed(known.query_id, known.batch_id, table_version=known.table_version)


@dataclass
class Schedule:
    """Makes backups beside a running stream; one that fails is logged, and soon tried again."""

    interval: timedelta
    make: Callable[[], object]
    clock: Clock
    due_at: datetime
    _running: Thread | None = field(default=None, init=False)

    def tick(self) -> None:
        """Starts a backup if one is due and none is being made; returns at once."""
        is_busy = self._running is not None and self._running.is_alive()
        if is_busy or self.clock() < self.due_at:
            return
        self.due_at = self.clock() + self.interval
        self._running = Thread(target=self._make, name="freshet-backup", daemon=True)
        self._running.start()

    def _make(self) -> None:
        try:
            self.make()
        except TableMissingError:
            emit("recovery", "backup_too_early")
        except Exception as error:  # noqa: BLE001 - the edge of a thread: the stream must go on
            warn("recovery", "backup_failed", error=f"{type(error).__name__}: {error}")
        else:
            return
        self.due_at = self.clock() + min(self.interval, _TRY_AGAIN_AFTER)
