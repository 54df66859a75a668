"""What the records of the optimizer come to: times, races, failures, the newest probe. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median
from typing import Final

from freshet.monitor.history import History, Row

LATELY: Final = timedelta(days=1)
"""Times and races are told of so long."""
_DONE: Final = "done"
_LOST: Final = "lost"
_FAILED: Final = "failed"
_COMPACT: Final = "compact"


@dataclass(frozen=True)
class ProbeStatus:
    """The newest probe of the search."""

    at: datetime
    p50_ms: float
    p95_ms: float
    p99_ms: float
    recall: float
    """The share of the true ten nearest that was found."""

    @classmethod
    def of(cls, history: History) -> "ProbeStatus | None":
        """None if there was no probe."""
        for look in reversed(history.looks):
            if look["recall"] is not None:
                return cls(
                    at=look["at"],
                    p50_ms=look["query_p50_ms"],
                    p95_ms=look["query_p95_ms"],
                    p99_ms=look["query_p99_ms"],
                    recall=look["recall"],
                )
        return None


@dataclass(frozen=True)
class ActionStatus:
    """One action of the optimizer."""

    at: datetime
    """When it ended."""
    action: str
    target: str
    seconds: float
    reasons: str
    error: str | None = None


@dataclass(frozen=True)
class ActionTimes:
    """How often a kind of action was done lately, and how long it took."""

    count: int
    median_s: float
    max_s: float


@dataclass(frozen=True)
class OptimizerStatus:
    """What the optimizer did."""

    looked_at: datetime | None = None
    """When it last looked at the index, whether or not anything was due."""
    last: ActionStatus | None = None
    """What it last got done."""
    times: Mapping[str, ActionTimes] = field(default_factory=dict)
    """Of what was done lately, by kind of action."""
    lost: int = 0
    """Actions that a writer was faster than, lately."""
    wasted_s: float = 0.0
    """How long those took."""
    failure: ActionStatus | None = None
    """The last action that failed and has not been done since."""

    @classmethod
    def of(cls, history: History) -> "OptimizerStatus":
        """All of it is empty if no optimizer ever ran."""
        done = [row for row in history.actions if row["status"] == _DONE]
        late = history.until - LATELY
        lost = [
            row["seconds"]
            for row in history.actions
            if row["status"] == _LOST and row["finished_at"] >= late
        ]
        return cls(
            looked_at=history.looks[-1]["at"] if history.looks else None,
            last=_action(done[-1]) if done else None,
            times=_times([row for row in done if row["finished_at"] >= late]),
            lost=len(lost),
            wasted_s=sum(lost),
            failure=_failure(history.actions),
        )


def _times(done: Sequence[Row]) -> dict[str, ActionTimes]:
    times: dict[str, list[float]] = {}
    for row in done:
        times.setdefault(row["action"], []).append(row["seconds"])
    return {
        action: ActionTimes(len(seconds), median(seconds), max(seconds))
        for action, seconds in sorted(times.items())
    }


def _failure(actions: Sequence[Row]) -> ActionStatus | None:
    broken: dict[tuple[str, str], Row] = {}
    for row in actions:
        # A compaction's target only says how many fragments it folds.
        what = (row["action"], "" if row["action"] == _COMPACT else row["target"])
        if row["status"] == _FAILED:
            broken.pop(what, None)  # so that the newest is the last one
            broken[what] = row
        elif row["status"] == _DONE:
            broken.pop(what, None)
    return _action(list(broken.values())[-1]) if broken else None


def _action(row: Row) -> ActionStatus:
    return ActionStatus(
        at=row["finished_at"],
        action=row["action"],
        target=row["target"],
        seconds=row["seconds"],
        reasons=row["reasons"],
        error=row["error"],
    )
