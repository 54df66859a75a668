"""What was measured, as pictures: #399's own figures are grey, beside ours."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from field_figures import Held, looks_of, trigger_of
from field_rivals import RIVALS
from field_samples import REFERENCE, Sample, by_rival, counted, reference

GREY = "#9a9a9a"
SMOOTH = 25
"""Medians of so many batches are drawn, the raw ones pale behind them."""
_COLOURS = dict(
    zip(RIVALS, (c for c in map(to_hex, colormaps["tab10"].colors) if c != "#7f7f7f"), strict=True)
)
"""All but the grey of the ten."""


def draw(experiment: str, samples: Sequence[Sample], path: Path) -> None:
    """One picture of one experiment."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    _DRAWS[experiment](samples, left, right)
    for axes in (left, right):
        axes.grid(alpha=0.25)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _colour(rival: str) -> object:
    return _COLOURS.get(rival, GREY)


def _growth(samples: Sequence[Sample], left: Axes, right: Axes) -> None:
    for name, own in {**by_rival(samples), REFERENCE: reference("E1")}.items():
        kept = counted(own)
        _line(left, name, [s.batch_id for s in kept], kept)
        if kept and kept[0].fragment_count >= 0:
            taken = [s.batch_duration_ms for s in kept]
            right.plot([s.fragment_count for s in kept], taken, ".", color=_colour(name), ms=2)
    for axes in (left, right):
        axes.set(yscale="log", ylabel="ms of a batch")
    most = max((s.batch_id for s in samples), default=100)
    left.set(title="E1: nothing is compacted", xlabel="batch", xlim=(0, 1.05 * most))
    right.set(title="over fragments", xlabel="fragments", xscale="log")
    left.legend(fontsize=7, ncols=2)


def _line(axes: Axes, name: str, places: Sequence[float], samples: Sequence[Sample]) -> None:
    values = [sample.batch_duration_ms for sample in samples]
    axes.plot(places, values, color=_colour(name), lw=0.4, alpha=0.25)
    if len(values) >= 2 * SMOOTH:
        cut = len(values) // SMOOTH * SMOOTH
        values = np.median(np.reshape(values[:cut], (-1, SMOOTH)), axis=1).tolist()
        places = np.median(np.reshape(places[:cut], (-1, SMOOTH)), axis=1).tolist()
    axes.plot(places, values, color=_colour(name), lw=1.4, label=name)


def _cadences(samples: Sequence[Sample], left: Axes, right: Axes) -> None:
    given, published = by_rival(samples), reference("E2")
    runs = list(dict.fromkeys(sample.run for sample in [*samples, *published]))
    for axes, run in zip((left, right), runs, strict=False):
        for name, own in {**given, REFERENCE: published}.items():
            kept = [sample for sample in counted(own) if sample.run == run]
            if kept:
                _line(axes, name, [sample.batch_id for sample in kept], kept)
        axes.set(title=f"E2: {run}", xlabel="batch", ylabel="ms of a batch", yscale="log")
        axes.legend(fontsize=7)


def _recovery(samples: Sequence[Sample], left: Axes, right: Axes) -> None:
    looks = looks_of(samples) + looks_of(reference("E3"))
    styles = {
        "recover": "o-",
        "recover-step-1": "o--",
        "recover-step-2": "o:",
        "recover-compacted": "D-",
        "recover-compacted-step-1": "D--",
        "recover-compacted-step-2": "D:",
        "lookback=100": "s-",
        "lookback=500": "^-",
    }
    for rival, run in dict.fromkeys((look.rival, look.run) for look in looks):
        own = [look for look in looks if (look.rival, look.run) == (rival, run)]
        for axes in (left, right):
            axes.plot(
                [look.versions for look in own],
                [look.mean_ms for look in own],
                styles.get(run, "v-"),
                color=_colour(rival),
                ms=4,
                label=f"{rival}: {run}",
            )
    left.set(title="E3: to recover after a crash", xlabel="versions", ylabel="ms")
    right.set(title="on logarithmic axes", xlabel="versions", xscale="log", yscale="log")
    left.legend(fontsize=7)


def _triggers(samples: Sequence[Sample], left: Axes, right: Axes) -> None:
    given = {**by_rival(samples), REFERENCE: reference("E4")}
    for name, own in given.items():
        runs = list(dict.fromkeys(sample.run for sample in own))
        held = {
            run: Held.of([sample for sample in own if sample.run == run], 1.0).spread
            for run in runs
        }
        seconds = [trigger_of(run) for run in runs]
        for axes, figure in ((left, "p50"), (right, "p99")):
            values = [getattr(held[run], figure) for run in runs]
            axes.plot(seconds, values, "o-", color=_colour(name), ms=4, label=name)
    for axes, figure in ((left, "p50"), (right, "p99")):
        axes.set(
            title=f"E4: {figure} of a batch", xlabel="trigger, seconds", ylabel="ms", ylim=(0, None)
        )
    left.legend(fontsize=7)


_DRAWS = {"E1": _growth, "E2": _cadences, "E3": _recovery, "E4": _triggers}
