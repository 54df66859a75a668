"""Processes beside a benchmark: each on a core that it is given, with its memory watched."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from freshet.events import log_to
from freshet.optimizer import Action
from freshet.pipeline.optimizing import Optimizing
from live_index import settings_of

LOOKING = "looking"
"""What the optimizer does between its actions: it looks, plans and probes."""


@contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """What starts in the block runs on one core; Lance makes as many threads as it has cores."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Side:
    """A function in a process of its own: it is given an event that says when to stop."""

    def __init__(self, function: Callable[..., Any], *told: Any, core: int | None = None) -> None:
        context = get_context("spawn")
        self._stop = context.Event()
        self._answer, answer = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_run, args=(answer, function, self._stop, told), daemon=True
        )
        with pinned(core):
            self._process.start()
        answer.close()

    def stop(self) -> Any:
        """Tells it to stop; what the function returned."""
        self._stop.set()
        return self.result()

    def result(self) -> Any:
        """Waits until it ends; what the function returned."""
        try:
            found = self._answer.recv()
        except EOFError:
            self._process.join()
            raise RuntimeError(f"a process ended with {self._process.exitcode}") from None
        self._process.join()
        return found


def _run(answer: Connection, function: Callable[..., Any], stop: Event, told: tuple[Any]) -> None:
    answer.send(function(stop, *told))


def log_beside(home: Path, name: str) -> None:
    """Events of this process go to a file in the home."""
    log_to(logging.FileHandler(home / f"{name}.log"))


# --- memory --------------------------------------------------------------------------------------


def resident_bytes(what: str = "VmRSS") -> int:
    """What this process holds; `VmHWM`: at most, since the last `forget_peak`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1_024 for line in lines if line.startswith(what))


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


@dataclass(frozen=True)
class Peak:
    """The most that a process held while it did something, above what it held when idle."""

    kind: str
    rows: int
    bytes: int


@dataclass
class Peaks:
    """A hook of the optimizer's actions that asks the kernel for their peaks."""

    idle_bytes: int = field(default_factory=resident_bytes)
    found: list[Peak] = field(default_factory=list)
    _now: tuple[str, int] = (LOOKING, 0)

    def __call__(self, when: str, action: Action) -> None:
        """Told before and after each action."""
        if when == "before":
            self.end()
            self._now = (str(action.kind), action.rows)
        elif when == "after":
            self.end()

    def end(self) -> None:
        """Notes what was going on; an action that failed or lost counts, too."""
        kind, rows = self._now
        above = resident_bytes("VmHWM") - self.idle_bytes
        self.found.append(Peak(kind, rows, max(above, 0)))
        forget_peak()
        self._now = (LOOKING, 0)


def keep_fast(stop: Event, home: Path, optimizer: dict[str, Any]) -> list[Peak]:
    """The optimizer as a process of its own, until it is told to stop."""
    log_beside(home, "optimizer")
    peaks = Peaks()
    Optimizing(settings_of(home, **optimizer), hook=peaks).watch(stop)
    peaks.end()
    return peaks.found
