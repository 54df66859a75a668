"""What the optimizer did during a benchmark, from its own records."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from freshet.clock import utc_now
from freshet.optimizer.records import DONE, FAILED, LOST, Records
from freshet.settings import Settings
from measuring import median
from reporting import MIB, line

COUNTED = "fragments"
"""Compactions are of a number of these."""

Work = dict[str, Any]


def work_of(settings: Settings, since: datetime | None = None) -> list[Work]:
    """One row an action, oldest first."""
    known = Records(settings.home.optimizer, settings.home.name).latest(utc_now())
    return [
        {
            "action": done.action,
            "target": COUNTED if done.target.endswith(COUNTED) else done.target,
            "status": done.status,
            "rows": done.rows,
            "seconds": done.seconds,
            "memory_bytes": done.memory_bytes or 0,
            "started_at": done.started_at.isoformat(),
            "reasons": done.reasons,
            "error": done.error or "",
        }
        for done in known
        if since is None or done.started_at >= since
    ]


def show_work(work: Sequence[Work]) -> None:
    """A line for each kind of action and what it is about."""
    columns = ("done", "lost", "failed", "median s", "all s", "most rows", "most MiB")
    line("what the optimizer did", columns)
    for action, target in sorted({(one["action"], one["target"]) for one in work}):
        own = [one for one in work if (one["action"], one["target"]) == (action, target)]
        counts = [sum(one["status"] == status for one in own) for status in (DONE, LOST, FAILED)]
        seconds = [one["seconds"] for one in own]
        values = (
            *(str(count) for count in counts),
            f"{median(seconds):.3f}",
            f"{sum(seconds):.1f}",
            f"{max(one['rows'] for one in own):,}",
            f"{max(one['memory_bytes'] for one in own) / MIB:,.0f}",
        )
        line(f"  {action} {target}", values)
    for error in sorted({one["error"] for one in work if one["status"] == FAILED}):
        print(f"  failed: {error[:200]}")
