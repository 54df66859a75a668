"""A table of results, and how its figures are written."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """One table: the first column is text, the others are figures."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def markdown(self) -> str:
        """For a page, and fit to be read as it is."""
        cells = [self.columns, *self.rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        head, *rows = (_line(row, widths) for row in cells)
        first, *others = widths
        sides = f"|{'-' * (first + 2)}|" + "".join(f"{'-' * (one + 1)}:|" for one in others)
        lines = [f"**{self.title}**", "", head, sides, *rows]
        return "\n".join([*lines, *(f"\n{note}" for note in self.notes)])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    padded = [first[0].ljust(first[1]), *(text.rjust(width) for text, width in others)]
    return f"| {' | '.join(padded)} |"


def ms(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:,.0f}"


def times(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f} ×"  # noqa: RUF001 - the sign that is meant


def fine(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:,.1f}"


def count(value: int) -> str:
    return "-" if value < 0 else f"{value:,}"
