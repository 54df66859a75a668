"""What keeps requests to a server below its limits, and below those of a wallet."""

import time
from collections import deque
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

_HOUR_S: Final = 3_600


@dataclass
class Pace:
    """Keeps requests apart by at least their share of a minute."""

    per_minute: int | None
    _next: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    def wait(self) -> None:
        """Returns when the next request may be made."""
        if self.per_minute is None:
            return
        with self._lock:
            now = time.monotonic()
            self._next = max(self._next, now) + 60 / self.per_minute
            pause = self._next - 60 / self.per_minute - now
        time.sleep(max(pause, 0))


@dataclass
class Allowance:
    """How many tokens may be used within any hour. It is of one process, and ends with it."""

    tokens: int | None
    _used: deque[tuple[float, int]] = field(default_factory=deque)
    _lock: Lock = field(default_factory=Lock)

    def has_room_for(self, tokens: int) -> bool:
        """Whether a request of so many tokens fits; they count as used then."""
        if self.tokens is None:
            return True
        with self._lock:
            now = time.monotonic()
            while self._used and self._used[0][0] < now - _HOUR_S:
                self._used.popleft()
            fits = sum(used for _, used in self._used) + tokens <= self.tokens
            if fits:
                self._used.append((now, tokens))
            return fits

    def correct(self, tokens: int) -> None:
        """Adds what a request used more than was thought; less than nothing if it used less."""
        if self.tokens is not None:
            with self._lock:
                self._used.append((time.monotonic(), tokens))
