"""Scripted faults around the store calls of a sink: what a bad disk or a dying process does to it.

A step of the protocol makes several calls, and a fault between two of them is not a fault between
two steps. So every call can be broken too, before or after it took effect.
"""

import errno
import functools
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from freshet.errors import StoreError

_STORES: Final = {
    "LanceTable": ("freshet.stores.lance_tables", "LanceTable"),
    "PostgresMerge": ("freshet.stores.postgres_merge", "Merge"),
    "SmallTable": ("freshet.stores.delta_tables", "SmallTable"),
    "Tombstones": ("freshet.sink.tombstones", "Tombstones"),
}
"""Loaded when they are needed: psycopg may not be there."""

STORE_CALLS: Final = {
    "LanceTable.commit": "commit to",
    "LanceTable.create": "create",
    "LanceTable.discard": "delete",
    "LanceTable.history": "read the history of",
    "LanceTable.index_new_keys": "index the new keys of",
    "LanceTable.lookup": "look up keys in",
    "LanceTable.open": "open",
    "LanceTable.overwrite": "overwrite",
    "LanceTable.removal": "delete rows of",
    "LanceTable.write_files": "write data files of",
    "PostgresMerge.run": "write to",
    "SmallTable.append": "append to",
    "SmallTable.scan": "read",
    "SmallTable.version": "read the log of",
    "Tombstones.bury": "commit to",
}
"""Every call that can be broken, and what its error says could not be done.

`PostgresMerge.run` is made inside the transaction of a batch: after its mark, before the commit.
"""
_OUTLIVES_S: Final = 20


class Kind(StrEnum):
    """What happens to a store call."""

    ERROR = "error"
    """The store answers with an error of its own."""
    FULL_DISK = "full_disk"
    NO_PERMISSION = "no_permission"
    KILLED = "killed"
    """The process that made the call dies as of `kill -9`: nothing is cleaned up."""


_ERRNO: Final = {
    Kind.ERROR: errno.EIO,
    Kind.FULL_DISK: errno.ENOSPC,
    Kind.NO_PERMISSION: errno.EACCES,
}


@dataclass
class StoreFault:
    """Breaks the n-th call of a store method, while it is entered; `struck` tells whether it did.

    The error is the one that the stores raise for it: a `StoreError` made of an `OSError`. With
    `when="after"` the call has taken effect and only its answer is lost.

    Guarantee: without `lasts` it strikes once, in one process; also in many, if they are given the
    same `marker`. It is pickled to executors, where it counts the calls of each task anew.
    """

    method: str
    """One of `STORE_CALLS`."""
    when: str = "before"
    kind: str = Kind.ERROR
    call: int = 1
    table: str | None = None
    """Counts calls to tables of this name alone: the last part of their address."""
    lasts: bool = False
    """Whether all later calls fail too, as on a disk that stays full."""
    marker: Path | None = None
    """A file that is made when the fault strikes, so that it is known of after a kill."""
    victim: int | None = None
    """The process that a kill strikes, too: the driver of a task; None: only the one that calls."""
    _calls: int = field(default=0, init=False)
    _has_struck: bool = field(default=False, init=False)
    _plain: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Only what can strike is taken."""
        if self.method not in STORE_CALLS:
            raise ValueError(f"{self.method} is not one of {', '.join(STORE_CALLS)}")
        if self.when not in {"before", "after"}:
            raise ValueError(f"a fault is before or after a call, not {self.when}")
        self.kind = Kind(self.kind)

    @classmethod
    def parse(cls, text: str, marker: Path | None = None) -> Self:
        """The fault that a text such as `after:LanceTable.commit:killed:1:rows.lance` names."""
        when, method, kind, call, *table = text.split(":")
        return cls(method, when, kind, int(call), table[0] if table else None, marker=marker)

    def __str__(self) -> str:
        parts = [self.when, self.method, str(self.kind), str(self.call)]
        return ":".join(parts if self.table is None else [*parts, self.table])

    @property
    def struck(self) -> bool:
        """Whether it came to the fault, in this process or in one with the same marker."""
        return self._has_struck or (self.marker is not None and self.marker.exists())

    def __enter__(self) -> Self:
        owner, name = self._place()
        self._calls, self._plain = 0, vars(owner)[name]
        setattr(owner, name, self._broken(self._plain))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        setattr(*self._place(), self._plain)
        self._plain = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_calls": 0, "_plain": None}

    def _place(self) -> tuple[type, str]:
        store, _, name = self.method.partition(".")
        module, owner = _STORES[store]
        found: type = getattr(import_module(module), owner)
        return found, name

    def _broken(self, plain: Any) -> Any:
        if isinstance(plain, classmethod):
            return classmethod(self._around(plain.__func__))
        return self._around(plain)

    def _around(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def call(of: Any, *arguments: Any, **named: Any) -> Any:
            uri = str(arguments[0] if isinstance(of, type) else getattr(of, "uri", of))
            is_now = self._is_now(uri)
            if is_now and self.when == "before":
                self._strike(uri)
            answer = plain(of, *arguments, **named)
            if is_now:
                self._strike(uri)
            return answer

        return call

    def _is_now(self, uri: str) -> bool:
        if self.table is not None and uri.rstrip("/").rpartition("/")[2] != self.table:
            return False
        self._calls += 1
        if self.lasts:
            return self._calls >= self.call
        return self._calls == self.call and not self.struck

    def _strike(self, uri: str) -> None:
        self._has_struck = True
        if self.marker is not None:
            self.marker.write_text(f"{self}\n")
        if self.kind == Kind.KILLED and self.victim is not None:
            os.kill(self.victim, signal.SIGKILL)
            # What Spark starts outlives its driver by a moment, and must not go on in it.
            time.sleep(_OUTLIVES_S)
        if self.kind == Kind.KILLED:
            os.kill(os.getpid(), signal.SIGKILL)
        number = _ERRNO[Kind(self.kind)]
        cause = OSError(number, os.strerror(number))
        raise StoreError(STORE_CALLS[self.method], uri, cause) from cause
