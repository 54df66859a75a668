"""How an index fares over time: from the tables that tell of it to the monitor."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from freshet.clock import utc_now
from freshet.layout import INDEX, Home
from freshet.monitor import History, plot
from freshet.monitor.history import Row
from freshet.monitor.optimizer import LATELY
from freshet.optimizer import Records
from freshet.optimizer.health import HealthRecords
from freshet.pipeline.freshness import Timing
from freshet.pipeline.optimizing import KEPT_FOR
from freshet.sink import Ledger

_OTHERWISE: Final = timedelta(days=7)


@dataclass(frozen=True)
class Monitoring:
    """What was on record when. Reads only, without Spark; memory follows the time asked for."""

    home: Home
    clock: Callable[[], datetime] = utc_now
    timing: Timing | None = None
    """Times change files; None: they are not drawn."""

    def newest(self) -> History:
        """The last day of index and optimizer; of which the day has nothing, the last week."""
        now = self.clock()
        return History(
            since=now - LATELY,
            until=now,
            looks=self._looks(now, LATELY) or self._looks(now, _OTHERWISE),
            actions=self._actions(now, LATELY) or self._actions(now, _OTHERWISE),
        )

    def picture(self, seconds: float) -> bytes:
        """Index, optimizer and batches of the last time, as a PNG; `PlotError` if there is nothing.

        Of 30 days at most.
        """
        now, within = self.clock(), timedelta(seconds=min(seconds, KEPT_FOR.total_seconds()))
        found = History(
            since=now - within,
            until=now,
            looks=self._looks(now, within),
            actions=self._actions(now, within),
            batches=Ledger(self.home.ledger).rows(self.home.name, INDEX, now - within),
        )
        if self.timing is not None:
            found = found.with_ways(self.timing.look(within).live, self.timing.target_s)
        return plot.png(found)

    def _looks(self, now: datetime, within: timedelta) -> list[Row]:
        return [
            vars(one) for one in HealthRecords(self.home.health, self.home.name).latest(now, within)
        ]

    def _actions(self, now: datetime, within: timedelta) -> list[Row]:
        return [
            vars(one) for one in Records(self.home.optimizer, self.home.name).latest(now, within)
        ]
