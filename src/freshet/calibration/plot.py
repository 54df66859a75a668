"""A calibration as a picture: growth, how long actions take, and how long searches take."""

from io import BytesIO
from typing import TYPE_CHECKING, Final

from freshet.calibration.derive import Derived
from freshet.calibration.evidence import Evidence, Growth
from freshet.optimizer import Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES: Final = (15, 4.5)
_BLUE: Final = "#1f77b4"
_ORANGE: Final = "#ff7f0e"
_GREY: Final = "#7f7f7f"
_COLOURS: Final = {Kind.EXTEND: _BLUE, Kind.MERGE: _ORANGE, Kind.COMPACT: _GREY}


def png(evidence: Evidence, derived: Derived) -> bytes:
    """The picture, in three panels."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - loads slowly

    figure = Figure(figsize=_INCHES, layout="constrained")
    growth, actions, searches = figure.subplots(1, 3)
    _draw_growth(growth, evidence.growth)
    _draw_actions(actions, evidence)
    _draw_searches(searches, evidence, derived)
    drawn = BytesIO()
    figure.savefig(drawn, format="png")
    return drawn.getvalue()


def _draw_growth(axes: "Axes", growth: Growth) -> None:
    hours = [0.0, *(hour for hour, _ in growth.steps)] if growth.steps else [0.0, 1.0]
    if growth.steps:
        rows = [0.0, *(rows for _, rows in growth.steps)]
        label = f"{growth.batches:,} batches on record"
        axes.step(hours, rows, where="post", color=_BLUE, label=label)
    mean = [growth.rows_per_hour * hour for hour in (0.0, hours[-1])]
    axes.plot(
        [0.0, hours[-1]], mean, "--", color=_GREY, label=f"{growth.rows_per_hour:,.0f} rows/h"
    )
    axes.set(title="Growth", xlabel="hours", ylabel="new and changed rows")
    _from_zero(axes)


def _draw_actions(axes: "Axes", evidence: Evidence) -> None:
    for kind, colour in _COLOURS.items():
        rows, seconds = zip(*evidence.times(kind), strict=True)
        axes.plot(rows, seconds, "o-", color=colour, label=str(kind))
    axes.set(title="Time of an action", xlabel="rows", ylabel="seconds")
    _from_zero(axes)


def _draw_searches(axes: "Axes", evidence: Evidence, derived: Derived) -> None:
    scanned = [
        one for one in evidence.latencies if one.shape.parts == 1 and one.shape.fragments < 2
    ]
    rows = [one.shape.unindexed_rows for one in scanned]
    for name, colour in (("p50", _BLUE), ("p95", _ORANGE), ("p99", _GREY)):
        times = [getattr(one, f"{name}_ms") for one in scanned]
        axes.plot(rows, times, "o", color=colour, label=name)
    ends, parts = [0, rows[-1]], derived.index_parts.new
    axes.plot(ends, [derived.costs.scan.at(count) for count in ends], ":", color=_ORANGE)
    at_most = [derived.costs.p95_ms(count, parts) for count in ends]
    label = f"p95 with {parts} parts, batch by batch"
    axes.plot(ends, at_most, "-", color=_ORANGE, label=label)
    target, room = derived.target.p95_ms, derived.room
    axes.axhline(target, color=_GREY, linestyle="--", label=f"target: {target:.1f} ms")
    axes.axvline(room, color=_GREY, linestyle=":", label=f"{room:,} rows at most")
    axes.set(title="Time of a search", xlabel="rows that are not indexed", ylabel="ms")
    _from_zero(axes)


def _from_zero(axes: "Axes") -> None:
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8)
