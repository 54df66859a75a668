"""How the benchmarks of the optimizer tell what they found: tables, CSV files and pictures."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from measuring import machine

COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728")
MIB = 1 << 20


def headline(what: str) -> str:
    return f"{machine()}, pylance {version('pylance')}, lancedb {version('lancedb')}\n{what}"


def line(label: str, values: Iterable[str], width: int = 44) -> None:
    print(f"{label:<{width}}" + "".join(f"{value:>12}" for value in values))


def verdict(what: str, found: float, most: float) -> None:
    """A ratio that is asked for, and whether it is so."""
    print(f"{what}: {found:.2f} (asked: at most {most}) {'ok' if found <= most else 'NOT MET'}")


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """One row each; the columns are those of the first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def panels(*titles: str) -> tuple[Figure, list[Axes]]:
    """A picture with some panels side by side."""
    figure = Figure(figsize=(5 * len(titles), 4), layout="constrained")
    axes = list(figure.subplots(1, len(titles), squeeze=False)[0])
    for one, title in zip(axes, titles, strict=True):
        one.set_title(title)
    return figure, axes


def save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    print(f"written: {path.parent}")
