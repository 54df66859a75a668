"""Whether the trigger leaves the index's batches enough time, as the ledger tells. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from freshet.units import duration_of, round_down, seconds_of

MARGIN: Final = 1.5
"""A trigger that is so many times as long as a batch leaves room to catch up after a peak."""
LATEST: Final = 5
"""So many of the newest batches are looked at."""
_FEWEST: Final = 3
_LEAST_ROWS: Final = 8


@dataclass(frozen=True)
class ShortTrigger:
    """A trigger that is too short for the batches, and what would do."""

    trigger: str
    batches: int
    """How many batches the times are medians of."""
    batch_s: float
    embed_s: float
    wanted_trigger: str
    wanted_rows: int | None
    """`max_rows_per_batch` that fits the trigger as it is; None if no number does."""

    @property
    def is_behind(self) -> bool:
        """Whether batches take longer than the trigger, and not only nearly as long."""
        return self.batch_s > seconds_of(self.trigger)

    @property
    def sentence(self) -> str:
        """What is wrong and what to set."""
        means = (
            "every batch starts late, and the index lags while changes keep coming"
            if self.is_behind
            else "there is little room to catch up after a peak"
        )
        ways = [f'pipeline.trigger = "{self.wanted_trigger}"']
        if self.wanted_rows is not None:
            ways.append(f"pipeline.max_rows_per_batch = {self.wanted_rows}")
        return (
            f"batches take {self.batch_s:.1f} s, of which {self.embed_s:.1f} s embedding (median "
            f"of the last {self.batches}), but the trigger is {self.trigger}: {means}. Set "
            f"{', or '.join(ways)}, or give Spark more cores; `freshet profile` measures what fits"
        )

    def is_news_after(self, told: "ShortTrigger | None") -> bool:
        """Whether the figure differs by more than a quarter from what was told before."""
        if told is None or told.trigger != self.trigger:
            return True
        return abs(self.batch_s - told.batch_s) > told.batch_s / 4


def short_trigger(rows: Sequence[Mapping[str, Any]], trigger: str) -> ShortTrigger | None:
    """What the newest rows of the ledger say of a trigger; None if it is long enough.

    Rows come oldest first. Only batches count that landed and embedded something, and fewer than
    three of them tell nothing: the first ones load the model.
    """
    heavy = [row for row in rows if row["error"] is None and row["rows_embedded"]][-LATEST:]
    if len(heavy) < _FEWEST:
        return None
    batch_s, embed_s = _median(heavy, "total_s"), _median(heavy, "embed_s")
    interval_s = seconds_of(trigger)
    if batch_s * MARGIN <= interval_s:
        return None
    room_s = interval_s / MARGIN - (batch_s - embed_s)
    fitting = round_down(_median(heavy, "rows_in") * room_s / embed_s) if embed_s else 0
    return ShortTrigger(
        trigger=trigger,
        batches=len(heavy),
        batch_s=batch_s,
        embed_s=embed_s,
        wanted_trigger=duration_of(batch_s * MARGIN),
        wanted_rows=fitting if fitting >= _LEAST_ROWS else None,
    )


def _median(rows: Sequence[Mapping[str, Any]], column: str) -> float:
    return float(median(row[column] for row in rows))
