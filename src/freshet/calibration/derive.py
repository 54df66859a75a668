"""Settings of the optimizer that follow from what was measured, each with its reason. Pure."""

from dataclasses import dataclass
from math import ceil, inf
from typing import Any, Final

from freshet.calibration.costs import PAUSE, Costs
from freshet.calibration.evidence import Evidence, Growth
from freshet.profiling import Advice
from freshet.profiling.write import AnyAdvice
from freshet.settings import OptimizerSettings
from freshet.tiers import FAN_IN
from freshet.units import duration_of, duration_within, round_down, seconds_of

_DEFAULT: Final = 1.5
"""Without a target, searches may take so many times the least that can be kept."""
_SHARE: Final = 0.25
"""Parts may take so much of what the target leaves above the least, and rows the rest."""
_LEAST_ROWS: Final = 100
_MOST_FRAGMENTS: Final = 64
_LONGEST_PAUSE_S: Final = 600.0


@dataclass(frozen=True)
class Target:
    """What p95 is to be kept within."""

    p95_ms: float
    least_ms: float
    """The least that can be kept at this growth."""
    reason: str
    is_missed: bool = False
    """Whether it is not what was asked for."""


@dataclass(frozen=True)
class Derived:
    """What fits the index, its growth and the machine."""

    costs: Costs
    target: Target
    room: int
    """The most unindexed rows that keep p95 within the target."""
    held_ms: float
    """p95 just before new rows are indexed, with all settings at their limits."""
    run_s: float
    """A run of the optimizer over the rows of one cadence."""
    unindexed_rows: Advice[int]
    cadence: Advice[str]
    index_parts: Advice[int]
    small_fragments: Advice[int]

    @property
    def advice(self) -> tuple[AnyAdvice, ...]:
        """All of it, in the order in which one follows from the other."""
        return (self.index_parts, self.cadence, self.unindexed_rows, self.small_fragments)

    def as_dict(self) -> dict[str, Any]:
        """The form that `--json` prints."""
        return {
            "target_ms": round(self.target.p95_ms, 3),
            "target_reason": self.target.reason,
            "target_missed": self.target.is_missed,
            "held_ms": round(self.held_ms, 3),
            "room_rows": self.room,
            "run_s": round(self.run_s, 3),
            "settings": [one.as_dict() for one in self.advice],
        }


def derive(
    evidence: Evidence, settings: OptimizerSettings, latency_ms: float | None = None
) -> Derived:
    """The settings that keep p95 of searches within a latency, or within what can be kept."""
    costs, growth = Costs.of(evidence), evidence.growth
    target = _target(costs, growth, latency_ms)
    parts = _parts(costs, evidence, target, settings)
    room = min(costs.rows_within(target.p95_ms, parts.new), evidence.most_unindexed)
    cadence = _cadence(costs, growth, room, settings)
    coming = _coming(costs, growth, cadence.new)
    rows = _rows(costs, room, coming, target, settings)
    return Derived(
        costs=costs,
        target=target,
        room=int(room),
        held_ms=costs.p95_ms(rows.new + coming, parts.new),
        run_s=costs.run.at(growth.rows_per_hour * seconds_of(cadence.new) / 3_600),
        unindexed_rows=rows,
        cadence=cadence,
        index_parts=parts,
        small_fragments=_fragments(costs, growth, rows.new, settings),
    )


def _coming(costs: Costs, growth: Growth, cadence: str) -> float:
    """The rows that may come between two looks, and while the second one's run is at work."""
    return growth.rows_in(costs.period_s(seconds_of(cadence), growth.rows_per_hour))


def _target(costs: Costs, growth: Growth, latency_ms: float | None) -> Target:
    """What was asked for if that can be kept, else the least that can."""
    pause_s = min(costs.shortest_pause_s(growth.rows_per_hour), _LONGEST_PAUSE_S)
    rows = _LEAST_ROWS + _coming(costs, growth, duration_of(pause_s))
    least_ms = costs.p95_ms(rows, FAN_IN)
    known = (
        f"it is {costs.indexed_ms:.1f} ms with everything indexed, and {costs.rows.fixed:.1f} ms "
        "as soon as a few rows are not"
    )
    most = costs.rows_per_hour_within(_LONGEST_PAUSE_S)
    if growth.rows_per_hour > most:
        reason = f"no latency can be kept: {growth.rows_per_hour:,.0f} rows come an hour, and "
        return Target(least_ms, least_ms, f"{reason}{most:,.0f} can be indexed", is_missed=True)
    if latency_ms is None:
        usual = f"{_DEFAULT} times the least that can be kept"
        return Target(_DEFAULT * least_ms, least_ms, f"{usual}; {known}")
    if latency_ms >= least_ms:
        return Target(latency_ms, least_ms, f"as asked for; {known}")
    reason = f"{latency_ms:g} ms cannot be kept: {known}; {rows:,.0f} of them have come before "
    can = f"the optimizer has indexed them, in {FAN_IN} parts. {least_ms:.1f} ms can be kept"
    return Target(least_ms, least_ms, reason + can, is_missed=True)


def _parts(
    costs: Costs, evidence: Evidence, target: Target, settings: OptimizerSettings
) -> Advice[int]:
    """Four, and as many more as a share of the time above the least pays for."""
    spare_ms, most = _SHARE * (target.p95_ms - target.least_ms), evidence.most_parts
    fitting = FAN_IN + spare_ms / costs.part_ms if costs.part_ms else inf
    new = int(max(FAN_IN, min(fitting, most)))
    bound = f"; fewer than {FAN_IN} would be merged too often" if new == FAN_IN else ""
    if new == most:
        bound = "; more were not tried"
    reason = (
        f"each further part adds {costs.part_ms:.2f} ms to p95, so {new} add "
        f"{(new - 1) * costs.part_ms:.1f} ms{bound}"
    )
    return Advice(("optimizer", "index_parts"), settings.index_parts, new, reason)


def _cadence(costs: Costs, growth: Growth, room: float, settings: OptimizerSettings) -> Advice[str]:
    """Half of the room may fill until the next look, unless a run takes too long for that."""
    rows = max(0.0, min(room / 2, room - _LEAST_ROWS))
    come_s = growth.seconds_for(rows)
    wanted_s = costs.pause_within(come_s, growth.rows_per_hour)
    least_s = costs.shortest_pause_s(growth.rows_per_hour)
    come = f"{growth.rows_per_hour:,.0f} rows/h bring {rows:,.0f} rows in {_told(come_s)}"
    path, old = ("optimizer", "cadence"), settings.cadence
    if max(wanted_s, least_s) >= _LONGEST_PAUSE_S:
        longest = duration_of(_LONGEST_PAUSE_S)
        return Advice(path, old, longest, f"{come}; {longest} at most, for what else is due")
    new = duration_within(wanted_s)
    run_s = costs.run.at(growth.rows_per_hour * max(wanted_s, least_s) / 3_600)
    takes = f"a run takes {run_s:.1f} s then, and the pause is {PAUSE} times that at least"
    if seconds_of(new) < least_s:
        new = duration_of(least_s)
    return Advice(path, old, new, f"{come}; {takes}")


def _rows(
    costs: Costs, room: float, coming: float, target: Target, settings: OptimizerSettings
) -> Advice[int]:
    """What is left of the room beside the rows that come until the next look."""
    new = max(_LEAST_ROWS, round_down(room - coming))
    reason = (
        f"up to {room:,.0f} unindexed rows keep p95 within {target.p95_ms:.1f} ms (1,000 add "
        f"{1_000 * costs.rows.each:.2f} ms), and {coming:,.0f} may come before they are indexed"
    )
    return Advice(("optimizer", "unindexed_rows"), settings.unindexed_rows, new, reason)


def _fragments(costs: Costs, growth: Growth, rows: int, settings: OptimizerSettings) -> Advice[int]:
    """As many as the rows that are indexed at once come in, so that these fold at once, too."""
    batches = rows / growth.rows_per_batch
    new = max(FAN_IN, min(ceil(batches), _MOST_FRAGMENTS))
    bound = f"; {_MOST_FRAGMENTS} at most" if batches > _MOST_FRAGMENTS else ""
    reason = (
        f"{rows:,} rows come in {batches:,.0f} batches, each with a fragment, which adds "
        f"{costs.fragment_ms:.2f} ms to p95 until it is indexed{bound}"
    )
    return Advice(("optimizer", "small_fragments"), settings.small_fragments, new, reason)


def _told(seconds: float) -> str:
    """A time for people, about."""
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.1f} s"
