"""Watches whether the trigger of a continuous run leaves its batches enough time."""

from collections import deque
from collections.abc import Callable
from typing import Any

from freshet.events import warn
from freshet.monitor import ShortTrigger, short_trigger
from freshet.monitor.trigger import LATEST
from freshet.sink import BatchReport


class TriggerWatch:
    """Says once that the trigger is too short, and again when the figure has changed by much."""

    def __init__(self, trigger: Callable[[], str]) -> None:
        self._trigger = trigger
        self._rows: deque[dict[str, Any]] = deque(maxlen=LATEST)
        self._told: ShortTrigger | None = None

    def note(self, report: BatchReport) -> None:
        """Takes a batch into account; those that embed nothing tell nothing."""
        if not report.counts.rows_embedded:
            return
        self._rows.append(report.as_row())
        found = short_trigger(self._rows, self._trigger())
        if found is None or not found.is_news_after(self._told):
            return
        self._told = found
        warn(
            "pipeline",
            "trigger_too_short",
            batch_s=found.batch_s,
            embed_s=found.embed_s,
            trigger=found.trigger,
            wanted_trigger=found.wanted_trigger,
            wanted_rows=found.wanted_rows,
            advice=found.sentence,
        )
