"""The mark of a rebuild: a small file that says which one is being made, and who is at it.

Guarantee: while a rebuild works, its mark is renewed every two seconds; when it ends, however it
ends, others know after a minute at most, and at once if they are on its machine. A kill leaves the
mark as it was, so that the next rebuild knows what the one before was making.
"""

import json
import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4

from freshet.errors import RebuildActiveError, StoreError
from freshet.events import warn
from freshet.layout import Home
from freshet.stores import file_systems, small_files
from freshet.stores.locks import is_alive

_RENEW_EVERY_S: Final = 2.0
_DEAD_AFTER: Final = timedelta(seconds=60)


@dataclass(frozen=True)
class Mark:
    """What stands in the file."""

    rebuild_id: str
    settings: str
    """Tells the settings that it is made with from others."""
    renewed_at: datetime
    owner: str | None = None
    """None: nobody is at it."""
    machine: str = ""
    process: int = 0

    @property
    def holder(self) -> str:
        """Who is at it, for people."""
        return f"process {self.process} on {self.machine}"

    def is_active(self, now: datetime) -> bool:
        """Whether somebody is at it."""
        if self.owner is None or now - self.renewed_at > _DEAD_AFTER:
            return False
        return self.machine != platform.node() or is_alive(self.process)


def place_of(home: Home) -> str:
    """Where the mark lies."""
    return f"{home.root.rstrip('/')}/rebuild.json"


def read(home: Home) -> Mark | None:
    """The mark; None if no rebuild is under way."""
    data = small_files.read(place_of(home))
    if data is None:
        return None
    try:
        found: dict[str, Any] = json.loads(data)
        return Mark(**found | {"renewed_at": datetime.fromisoformat(found["renewed_at"])})
    except (ValueError, LookupError, TypeError) as error:
        raise StoreError("read", place_of(home), error) from error


class Keeper:
    """Holds the mark while a rebuild works: `with Keeper(…) as keeper`, then `keeper.mark`."""

    def __init__(self, home: Home, clock: Callable[[], datetime]) -> None:
        self._home = home
        self._clock = clock
        self._owner = uuid4().hex
        self._lock = Lock()
        self._ended = Event()
        self._thread = Thread(target=self._renew, name="freshet-rebuild", daemon=True)
        self.mark = Mark("", "", clock())
        """The mark that was found; empty if there was none."""

    def __enter__(self) -> Self:
        """Raises `RebuildActiveError` if somebody else is at it."""
        known = read(self._home)
        if known is not None and known.is_active(self._clock()):
            raise RebuildActiveError(holder=known.holder, renewed_at=known.renewed_at)
        self.become(known or self.mark)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nobody is at it any more; what it was about stays known."""
        if self._end():
            self._write(replace(self.mark, owner=None))

    def become(self, mark: Mark) -> None:
        """The mark is about another rebuild from now on."""
        with self._lock:
            self.mark = replace(
                mark, owner=self._owner, machine=platform.node(), process=os.getpid()
            )
            self._write(self.mark)

    def remove(self) -> None:
        """The rebuild is done, and nothing of it is left."""
        if self._end():
            file_systems.delete_file(place_of(self._home))

    def _end(self) -> bool:
        """Whether the mark was still this one's own."""
        if self._ended.is_set():
            return False
        self._ended.set()
        self._thread.join()
        return self._is_own()

    def _renew(self) -> None:
        while not self._ended.wait(_RENEW_EVERY_S):
            try:
                if not self._is_own():
                    return
                with self._lock:
                    self._write(self.mark)
            except (StoreError, OSError) as error:
                warn("pipeline", "rebuild_not_renewed", error=error)

    def _is_own(self) -> bool:
        found = read(self._home)
        return found is not None and found.owner == self._owner

    def _write(self, mark: Mark) -> None:
        said = asdict(mark) | {"renewed_at": self._clock().isoformat()}
        small_files.replace(place_of(self._home), json.dumps(said).encode())
