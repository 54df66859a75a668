"""Locks that processes share through a table, and that a dead owner loses.

A lock is a Lance table of at most one row. Lance overwrites a table only if nothing was committed
since it was read, so of several that see a free lock one gets it.
"""

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from threading import Event, Thread
from typing import Final
from uuid import uuid4

import pyarrow as pa

from freshet import schemas
from freshet.errors import CommitConflictError, StoreError
from freshet.events import warn
from freshet.stores import lance_upkeep
from freshet.stores.lance_tables import LanceTable

_FORGET_EVERY: Final = 64


@dataclass(frozen=True)
class Holder:
    """Who has a lock, and until when, unless it is renewed."""

    owner: str
    purpose: str
    host: str
    process: int
    until: datetime

    @property
    def sentence(self) -> str:
        """Who it is, for people."""
        return f"{self.purpose}, process {self.process} on {self.host}"

    def is_there(self, now: datetime) -> bool:
        """Whether it may still be at work: not if its time is over, or its process has ended."""
        is_here = self.host == platform.node()
        return now < self.until and not (is_here and not is_alive(self.process))


class ExpiringLock:
    """One process's hand on a lock.

    Guarantee: of all processes whose clocks agree to within half of `expiry`, at most one holds it.
    One that is stopped for longer than `expiry` may lose it without noticing: what it guards must
    be safe by itself, and only slower without it.
    """

    def __init__(
        self, uri: str, purpose: str, expiry: timedelta, clock: Callable[[], datetime]
    ) -> None:
        self._uri = uri
        self._purpose = purpose
        self._expiry = expiry
        self._clock = clock
        self._owner = uuid4().hex

    def holder(self) -> Holder | None:
        """Who holds it now, this process included."""
        return self._read(self._table())

    def take(self) -> Holder | None:
        """Takes the lock, or renews it; returns who has it if another one does."""
        table = self._table()
        other = self._read(table)
        if other is not None and other.owner != self._owner:
            return other
        mine = Holder(
            self._owner, self._purpose, platform.node(), os.getpid(), self._clock() + self._expiry
        )
        try:
            self._write(table, mine)
        except CommitConflictError:
            other = self.holder()
            return None if other is not None and other.owner == self._owner else other or mine
        return None

    def release(self) -> None:
        """Gives the lock back, if this process has it."""
        table = self._table()
        holder = self._read(table)
        if holder is not None and holder.owner == self._owner:
            try:
                self._write(table, None)
            except CommitConflictError:
                self.release()

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Renews a lock that was taken for as long as the work takes, then gives it back."""
        is_done = Event()
        thread = Thread(target=self._renew, args=(is_done,), name="freshet-lock", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_done.set()
            thread.join()
            try:
                self.release()
            except StoreError as error:  # what was done is done, and the lock expires by itself
                warn("stores", "lock_not_given_back", lock=self._uri, error=error)

    def _renew(self, is_done: Event) -> None:
        while not is_done.wait(self._expiry.total_seconds() / 3):
            try:
                self.take()
            except StoreError as error:
                warn("stores", "lock_not_renewed", lock=self._uri, error=error)

    def _table(self) -> LanceTable:
        return LanceTable.create(self._uri, schemas.LOCK)

    def _read(self, table: LanceTable) -> Holder | None:
        rows = [row for batch in table.read(schemas.LOCK.names, table.fragment_ids)
                for row in batch.to_pylist()]  # fmt: skip
        holder = Holder(**rows[0]) if rows else None
        return holder if holder is not None and holder.is_there(self._clock()) else None

    def _write(self, table: LanceTable, holder: Holder | None) -> None:
        rows = [] if holder is None else [asdict(holder)]
        data = pa.Table.from_pylist(rows, schema=schemas.LOCK)
        fragments = table.write_files(data.to_reader()) if rows else []
        # By the number of the version: a process may take a lock only once.
        if table.overwrite(schemas.LOCK, fragments, {}) % _FORGET_EVERY == 0:
            lance_upkeep.forget_versions(self._uri, self._expiry)


def is_alive(process: int) -> bool:
    """Whether a process of this machine is still there."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is somebody else's
        return True
    return True
