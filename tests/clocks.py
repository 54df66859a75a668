"""Time that goes on only when told to."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta


@dataclass
class ManualClock:
    """A clock for everything that takes one."""

    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, step: timedelta) -> None:
        self.now += step
