"""What the optimizer did, one row an action, in the ledger's manner; and what follows from it."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from statistics import median
from typing import Any, Final

from freshet import schemas
from freshet.optimizer.actions import Action, Kind
from freshet.optimizer.limits import ANY, Speeds
from freshet.stores.delta_tables import SmallTable
from freshet.stores.sql import quoted

DONE: Final = "done"
LOST: Final = "lost"
"""A writer changed the same rows first: the work was in vain."""
FAILED: Final = "failed"

_LOOKS_BACK: Final = timedelta(days=1)
_SPEED_OF: Final = 5
"""The median of so many actions is taken as their speed."""
_LEAST_ROWS: Final = 1_000
"""Actions of fewer rows say little about speed."""
_LONGEST_PAUSE: Final = timedelta(hours=1)
_LOST_LATELY: Final = timedelta(minutes=10)
"""Then a compaction is tried at its full size again; a smaller one may not be worth its while."""


@dataclass(frozen=True)
class Done:
    """One row: an action that was tried."""

    pipeline: str
    run_id: str
    action: str
    target: str
    reasons: str
    status: str
    rows: int
    seconds: float
    memory_bytes: int | None
    """The most that the process took above what it had before."""
    version_before: int
    fragments_before: int
    bytes_before: int
    error: str | None
    started_at: datetime
    finished_at: datetime

    def is_of(self, action: Action) -> bool:
        """Whether it was a try at the same thing."""
        if action.kind is Kind.COMPACT:  # its target only says how many fragments it folds
            return self.action == Kind.COMPACT
        return (self.action, self.target) == (action.kind, action.target)


class Records:
    """The optimizer's table of one home. Memory is bounded by the actions of one day."""

    def __init__(self, uri: str, pipeline: str) -> None:
        self._table = SmallTable(uri, schemas.OPTIMIZER)
        self._pipeline = pipeline

    def add(self, done: Done) -> None:
        """One row more."""
        self._table.append([asdict(done)])

    def latest(self, now: datetime, within: timedelta = _LOOKS_BACK) -> list[Done]:
        """What was tried lately, oldest first."""
        since = (now - within).isoformat()
        where = f"pipeline = {quoted(self._pipeline)} AND finished_at >= {quoted(since)}"
        names = [field.name for field in fields(Done)]
        rows = (Done(**{name: row[name] for name in names}) for row in self._rows(where))
        return sorted(rows, key=lambda done: done.finished_at)

    def forget_before(self, moment: datetime) -> None:
        """Removes older rows. To be called before this object, or another one, adds any."""
        self._table.forget(f"finished_at < {quoted(moment.isoformat())}")

    def _rows(self, where: str) -> Iterator[dict[str, Any]]:
        yield from self._table.read(where=where)


def speeds(records: Sequence[Done]) -> Speeds:
    """Rows a second of each kind of action, as the latest ones of some size were."""
    found: dict[tuple[Kind, str], list[float]] = {}
    for done in records:
        if done.status == DONE and done.rows >= _LEAST_ROWS and done.seconds > 0:
            kind = Kind(done.action)
            about = ANY if kind is Kind.COMPACT else done.target
            found.setdefault((kind, about), []).append(done.rows / done.seconds)
    return {about: median(own[-_SPEED_OF:]) for about, own in found.items()}


def lost_rows(records: Sequence[Done], now: datetime) -> int | None:
    """How many rows the last compaction read if a writer beat it lately; None if none did."""
    last = next((done for done in reversed(records) if done.action == Kind.COMPACT), None)
    if last is None or last.status != LOST or last.finished_at < now - _LOST_LATELY:
        return None
    return last.rows


def is_waiting(action: Action, records: Sequence[Done], now: datetime, cadence: timedelta) -> bool:
    """Whether an action failed lately, and is to be tried later: after 1, 2, 4 … cadences."""
    own = [done for done in records if done.is_of(action)]
    failures = 0
    for done in reversed(own):
        if done.status != FAILED:
            break
        failures += 1
    if not failures:
        return False
    pause = min(cadence * 2 ** (failures - 1), _LONGEST_PAUSE)
    return bool(now < own[-1].finished_at + pause)
