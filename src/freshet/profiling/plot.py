"""A profile as a picture: lengths, rates, and how long batches take."""

from io import BytesIO
from typing import TYPE_CHECKING, Final

from freshet.profiling.derive import Derived
from freshet.profiling.evidence import Evidence, Spread
from freshet.units import seconds_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES: Final = (15, 4.5)
_BLUE: Final = "#1f77b4"
_ORANGE: Final = "#ff7f0e"
_GREY: Final = "#7f7f7f"


def png(evidence: Evidence, derived: Derived) -> bytes:
    """The picture, in three panels."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - loads slowly

    figure = Figure(figsize=_INCHES, layout="constrained")
    lengths, speed, time = figure.subplots(1, 3)
    _draw_lengths(lengths, evidence)
    _draw_rates(speed, evidence, derived)
    _draw_batches(time, derived)
    drawn = BytesIO()
    figure.savefig(drawn, format="png")
    return drawn.getvalue()


def _draw_lengths(axes: "Axes", evidence: Evidence) -> None:
    tokens = evidence.lengths.tokens
    axes.hist(tokens, bins=40, color=_BLUE)
    spread = Spread.of(tokens)
    for name in ("p50", "p90", "p99"):
        figure = getattr(spread, name)
        axes.axvline(figure, color=_GREY, linestyle="--", linewidth=1)
        axes.text(figure, axes.get_ylim()[1], f" {name} ", color=_GREY, fontsize=8, va="bottom")
    axes.set(
        title=f"Length of {evidence.records:,} records\n",
        xlabel="tokens of a record",
        ylabel="records",
    )


def _draw_rates(axes: "Axes", evidence: Evidence, derived: Derived) -> None:
    budgets = [rate.batch_tokens for rate in evidence.rates]
    one = [rate.one_worker for rate in evidence.rates]
    every = [rate.all_cores for rate in evidence.rates]
    axes.plot(budgets, one, "o-", color=_BLUE, label="one core")
    axes.plot(budgets, every, "o-", color=_ORANGE, label=f"all {evidence.cores} cores")
    chosen = derived.batch_tokens.new
    axes.axvline(chosen, color=_GREY, linestyle="--", linewidth=1, label=f"chosen: {chosen}")
    axes.set_xscale("log", base=2)
    axes.set_xticks(budgets, [str(budget) for budget in budgets])
    axes.set(title="Rate of the model", xlabel="batch_tokens", ylabel="texts/s")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8)


def _draw_batches(axes: "Axes", derived: Derived) -> None:
    rows, trigger = derived.max_rows_per_batch, derived.trigger
    records = [0, min(rows.old, 2 * rows.new)]
    times = [derived.cost.batch_s(count) for count in records]
    axes.plot(records, times, "-", color=_BLUE, label="a batch of new records")
    was = f" (was {trigger.old})" if trigger.is_change else ""
    axes.axhline(seconds_of(trigger.new), color=_ORANGE, label=f"trigger: {trigger.new}{was}")
    axes.plot(
        rows.new, derived.cost.batch_s(rows.new), "o", color=_BLUE, label=f"{rows.new:,} records"
    )
    axes.set(title="Time of a batch", xlabel="new records in the batch", ylabel="seconds")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.legend(fontsize=8)
