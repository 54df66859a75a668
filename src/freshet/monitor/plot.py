"""How an index fared over time and how fresh it was, as a picture."""

from collections.abc import Callable, Sequence
from io import BytesIO
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from freshet.errors import PlotError
from freshet.monitor.history import History, Row
from freshet.monitor.ways import STEPS, Stage

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES: Final = (15, 13)
_BLUE: Final = "#1f77b4"
_ORANGE: Final = "#ff7f0e"
_GREEN: Final = "#2ca02c"
_MEGABYTE: Final = 1e6
_PARTS: Final = 96
"""Medians are drawn of so many parts of the time."""
_MANY: Final = 200
"""A line of so many points shows itself; fewer are marked, or a single one could not be seen."""


def png(history: History) -> bytes:
    """The picture, in eight panels over one time; `PlotError` if nothing is on record."""
    if history.is_empty:
        raise PlotError(
            f"there is nothing to draw since {history.since:%Y-%m-%d %H:%M} UTC: neither a batch "
            "nor a look of the optimizer is on record. Start with `freshet run`, or go back "
            "further with `--since`"
        )
    from matplotlib import rc_context  # noqa: PLC0415 - loads slowly
    from matplotlib.figure import Figure  # noqa: PLC0415 - loads slowly

    drawn = BytesIO()
    with rc_context({"date.converter": "concise", "timezone": "UTC"}):
        figure = Figure(figsize=_INCHES, layout="constrained")
        for axes, draw in zip(figure.subplots(4, 2).flat, _PANELS, strict=True):
            draw(axes, history)
            axes.set_xlim(history.since, history.until)
            if not axes.has_data():
                axes.text(0.5, 0.5, "nothing on record", ha="center", transform=axes.transAxes)
        figure.suptitle(f"{history.since:%Y-%m-%d %H:%M} to {history.until:%Y-%m-%d %H:%M} UTC")
        figure.savefig(drawn, format="png")
    return drawn.getvalue()


def _draw_fragments(axes: "Axes", history: History) -> None:
    axes.set(title="Fragments", ylabel="fragments")
    _line(axes, history.looks, "at", "fragments", color=_BLUE)
    axes.set_ylim(bottom=0)


def _draw_unindexed(axes: "Axes", history: History) -> None:
    axes.set_title("Rows that a search compares one by one, and parts of the index")
    _line(axes, history.looks, "at", "unindexed_rows", color=_BLUE)
    _on_the_right(axes, history.looks, "index_parts", "parts", _ORANGE)
    _on_the_left(axes, "rows")


def _draw_search(axes: "Axes", history: History) -> None:
    axes.set_title("Search: times and recall of the probes")
    for name, style in (("p50", "-"), ("p95", "--"), ("p99", ":")):
        _line(
            axes, history.looks, "at", f"query_{name}_ms", color=_BLUE, linestyle=style, label=name
        )
    _on_the_right(axes, history.looks, "recall", "recall@10", _GREEN)
    _on_the_left(axes, "milliseconds")
    _legend(axes)


def _draw_room(axes: "Axes", history: History) -> None:
    axes.set_title("Versions that are kept, and room that the table takes")
    _line(axes, history.looks, "at", "versions", color=_BLUE)
    sizes = [{"at": look["at"], "MB": look["bytes"] / _MEGABYTE} for look in history.looks]
    _on_the_right(axes, sizes, "MB", "MB", _ORANGE)
    _on_the_left(axes, "versions")


def _draw_actions(axes: "Axes", history: History) -> None:
    axes.set(title="Actions of the optimizer (x: lost or failed)", ylabel="seconds", yscale="log")
    for number, action in enumerate(sorted({row["action"] for row in history.actions})):
        own = [row for row in history.actions if row["action"] == action]
        done = [row for row in own if row["status"] == "done"]
        vain = [row for row in own if row["status"] != "done"]
        color = f"C{number}"
        axes.plot(*_points(done, "finished_at", "seconds"), ".", color=color, label=action)
        axes.plot(*_points(vain, "finished_at", "seconds"), "x", color=color)
    _legend(axes)


def _draw_batches(axes: "Axes", history: History) -> None:
    axes.set(title="Batches", ylabel="seconds")
    landed = [row for row in history.batches if row["error"] is None]
    _line(axes, landed, "finished_at", "total_s", color=_BLUE, label="whole batch")
    _line(axes, landed, "finished_at", "commit_s", color=_ORANGE, label="commit")
    axes.set_ylim(bottom=0)
    _legend(axes)


def _draw_freshness(axes: "Axes", history: History) -> None:
    axes.set(title="Change files: from landing until they can be searched", ylabel="seconds")
    if history.ways:
        axes.plot(*_points(history.ways, "at", Stage.LANDED_TO_SEARCHABLE), ".", color=_BLUE)
    if history.ways and history.target_s is not None:
        axes.axhline(history.target_s, color=_ORANGE, linestyle="--", label="target")
    axes.set_ylim(bottom=0)
    _legend(axes)


def _draw_stages(axes: "Axes", history: History) -> None:
    axes.set(title="Where that time goes (medians)", ylabel="seconds")
    for number, stage in enumerate(STEPS):
        rows = _medians(history, stage)
        _line(axes, rows, "at", stage, color=f"C{number}", label=stage.way)
    axes.set_ylim(bottom=0)
    _legend(axes)


def _medians(history: History, stage: Stage) -> list[Row]:
    """One point for each part of the time that has ways, drawn at its middle."""
    part = (history.until - history.since) / _PARTS
    found: dict[int, list[float]] = {}
    for way in history.ways:
        found.setdefault((way["at"] - history.since) // part, []).append(way[stage])
    return [
        {"at": history.since + (number + 0.5) * part, stage: median(seconds)}
        for number, seconds in sorted(found.items())
    ]


_PANELS: Final[tuple[Callable[["Axes", History], None], ...]] = (
    _draw_fragments,
    _draw_unindexed,
    _draw_search,
    _draw_room,
    _draw_actions,
    _draw_batches,
    _draw_freshness,
    _draw_stages,
)


def _line(axes: "Axes", rows: Sequence[Row], when: str, column: str, **style: Any) -> None:
    """One column over time, without the rows that do not tell it."""
    times, values = _points(rows, when, column)
    if times:
        marker = "." if len(times) < _MANY else ""
        axes.plot(times, values, marker=marker, linewidth=1, **style)


def _points(rows: Sequence[Row], when: str, column: str) -> tuple[list[Any], list[Any]]:
    told = [(row[when], row[column]) for row in rows if row[column] is not None]
    return [time for time, _ in told], [value for _, value in told]


def _on_the_left(axes: "Axes", label: str) -> None:
    axes.set_ylabel(label, color=_BLUE)
    axes.set_ylim(bottom=0)


def _on_the_right(axes: "Axes", looks: Sequence[Row], column: str, label: str, color: str) -> None:
    right = axes.twinx()
    _line(right, looks, "at", column, color=color)
    right.set_ylabel(label, color=color)
    right.set_ylim(bottom=0)


def _legend(axes: "Axes") -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8)
