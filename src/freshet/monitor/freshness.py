"""How fresh an index is: what its change files' ways come to, against targets. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import ceil
from typing import Final, Self

from freshet.monitor.slo import Verdict, judge
from freshet.monitor.ways import Stage, Way
from freshet.settings import SloSettings

SHARES: Final = (50, 95, 99, 100)


@dataclass(frozen=True)
class Waiting:
    """What has landed and cannot be searched yet."""

    files: int = 0
    landed_at: datetime | None = None
    """When the oldest of those files did."""
    changed_at: datetime | None = None
    """The oldest change in Bronze that no batch has taken, where the envelope tells it."""


@dataclass(frozen=True)
class Timed:
    """Change files that became searchable in some time, and what waits at its end."""

    since: datetime
    until: datetime
    ways: Sequence[Way] = ()
    """By number; also those of files that were there before the pipeline first looked."""
    waiting: Waiting = Waiting()
    has_vector_index: bool = False
    versions: tuple[int, int] | None = None
    """Of Bronze: the first and the last commit that was looked at."""

    @property
    def live(self) -> list[Way]:
        """Those that tell how fresh the index is kept: no backfill."""
        return [way for way in self.ways if not way.is_backfill]


@dataclass(frozen=True)
class Spread:
    """How long a stage took; each figure is that of a file, and no mean of two."""

    count: int
    p50_s: float
    p95_s: float
    p99_s: float
    max_s: float

    @classmethod
    def of(cls, seconds: Iterable[float]) -> Self | None:
        """None if there is no figure."""
        ordered = sorted(seconds)
        if not ordered:
            return None
        return cls(len(ordered), *(percentile(ordered, share) for share in SHARES))


@dataclass(frozen=True)
class Freshness:
    """How long change files took lately, stage by stage, and whether targets are met."""

    since: datetime
    until: datetime
    files: int = 0
    """That became searchable, but for the backfill."""
    backfill: int = 0
    """Files that were there before the pipeline first looked; no figure counts them."""
    stages: Mapping[str, Spread] = field(default_factory=dict)
    """Without those of which nothing is known."""
    waiting: Waiting = Waiting()
    verdicts: tuple[Verdict, ...] = ()
    """One for each target that is set."""

    @classmethod
    def of(cls, timed: Timed, slo: SloSettings) -> Self:
        """What the ways come to."""
        live = timed.live
        spreads = {str(stage): Spread.of(seconds_of(live, stage)) for stage in Stage}
        return cls(
            since=timed.since,
            until=timed.until,
            files=len(live),
            backfill=len(timed.ways) - len(live),
            stages={stage: one for stage, one in spreads.items() if one is not None},
            waiting=timed.waiting,
            verdicts=verdicts(timed, slo),
        )

    @property
    def missed(self) -> list[Verdict]:
        """Of the targets that are not met."""
        return [verdict for verdict in self.verdicts if verdict.is_missed]


def verdicts(timed: Timed, slo: SloSettings) -> tuple[Verdict, ...]:
    """Whether each target that is set is met."""
    return tuple(
        judge(
            name,
            target_s,
            slo.percentile,
            found_s=_found(timed.live, Stage(name), slo.percentile),
            waiting_s=_waiting_s(timed, Stage(name)),
        )
        for name, target_s in slo.targets.items()
    )


def seconds_of(ways: Iterable[Way], stage: Stage) -> list[float]:
    """How long a stage took, of the ways that tell it."""
    return [seconds for way in ways if (seconds := way.seconds(stage)) is not None]


def percentile(ordered: Sequence[float], share: int) -> float:
    """The least of some figures that so many percent of them do not exceed."""
    return ordered[max(ceil(share * len(ordered) / 100), 1) - 1]


def _found(ways: Sequence[Way], stage: Stage, share: int) -> float | None:
    ordered = sorted(seconds_of(ways, stage))
    return percentile(ordered, share) if ordered else None


def _waiting_s(timed: Timed, stage: Stage) -> float | None:
    """For how long the oldest has waited that has not come to the end of a stage."""
    since = _waiting_since(timed, stage)
    return None if since is None else max(0.0, (timed.until - since).total_seconds())


def _waiting_since(timed: Timed, stage: Stage) -> datetime | None:
    waiting = timed.waiting
    match stage:
        case Stage.LANDED_TO_SEARCHABLE:
            return waiting.landed_at
        case Stage.CHANGED_TO_SEARCHABLE:
            # What has landed was changed before, whether or not the envelope tells when.
            told = (waiting.changed_at, waiting.landed_at)
            return min((at for at in told if at is not None), default=None)
        case Stage.SEARCHABLE_TO_INDEXED if timed.has_vector_index:
            uncovered = (way.searchable_at for way in timed.live if way.indexed_at is None)
            return min(uncovered, default=None)
        case _:
            return None
