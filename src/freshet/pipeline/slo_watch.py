"""Watches the targets of freshness beside a continuous run."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

from freshet.events import emit, warn
from freshet.monitor.slo import Verdict
from freshet.pipeline.freshness import Timing
from freshet.settings import Settings

_EVERY_S: Final = 5.0
_SHARE: Final = 0.02
"""A look takes no more than this share of the time, however long it takes."""


class SloWatch:
    """Says once that a target is missed, and once that it is met again; never ends a run."""

    def __init__(self, look: Callable[[], Sequence[Verdict]], *, every_s: float) -> None:
        self._look = look
        self._every_s = every_s
        self._missed: set[str] = set()
        self._is_failing = False

    def look(self) -> None:
        """Looks once; a failure is told once."""
        try:
            found = self._look()
        except Exception as error:  # noqa: BLE001 - the edge of a thread: the stream must go on
            if not self._is_failing:
                warn("pipeline", "slo_not_known", error=f"{type(error).__name__}: {error}")
            self._is_failing = True
            return
        self._is_failing = False
        for verdict in found:
            self._note(verdict)

    def watch(self, stop: Event) -> None:
        """Looks again and again until told to stop."""
        pause = self._every_s
        while not stop.wait(pause):
            started = time.perf_counter()
            self.look()
            pause = max(self._every_s, (time.perf_counter() - started) / _SHARE)

    def _note(self, verdict: Verdict) -> None:
        was_missed = verdict.target in self._missed
        if verdict.is_missed and not was_missed:
            self._missed.add(verdict.target)
            warn("pipeline", "slo_missed", **verdict.fields())
        elif was_missed and not verdict.is_missed:
            self._missed.remove(verdict.target)
            emit("pipeline", "slo_met", **verdict.fields())


@contextmanager
def watched(settings: Settings) -> Iterator[None]:
    """Watches in a thread while the block runs, if there is any target."""
    if not settings.slo.targets:
        yield
        return
    stop = Event()
    watch = SloWatch(Timing(settings).verdicts, every_s=_EVERY_S)
    thread = Thread(target=watch.watch, args=(stop,), name="freshet-slo", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=5)
