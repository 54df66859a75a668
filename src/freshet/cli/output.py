"""What commands print: people get tables, scripts get JSON. The only place that prints."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

console = Console(highlight=False)
_errors = Console(stderr=True, highlight=False)


def error(problem: Exception) -> None:
    """One sentence on standard error."""
    _errors.print(f"[bold red]error:[/] {escape(str(problem))}", soft_wrap=True)


def complain(text: str) -> None:
    """A line about something that does not hold, on standard error."""
    _errors.print(f"[bold yellow]{escape(text)}[/]", soft_wrap=True)


def say(text: str) -> None:
    """A line for people."""
    console.print(text, soft_wrap=True)


def as_json(value: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(value, default=_plain, ensure_ascii=False) + "\n")
    sys.stdout.flush()


@contextmanager
def working(text: str) -> Iterator[Status | None]:
    """Shows that something is going on; on a terminal only, elsewhere gives None."""
    if _errors.is_terminal:
        with _errors.status(text) as status:
            yield status
    else:
        yield None


def table(title: str | None, columns: Mapping[str, str], rows: Sequence[Sequence[str]]) -> None:
    """A table; `columns` maps headings to `left` or `right`."""
    made = Table(
        title=title,
        title_justify="left",
        header_style="bold",
        box=None,
        pad_edge=False,
        collapse_padding=len(columns) > 7,  # or a ledger's row would not fit 80 characters
    )
    for heading, side in columns.items():
        made.add_column(heading, justify="right" if side == "right" else "left", no_wrap=True)
    for row in rows:
        made.add_row(*row)
    console.print(made)


def facts(rows: Mapping[str, str]) -> None:
    """Names and values, one pair a line."""
    made = Table(show_header=False, box=None, pad_edge=False)
    made.add_column(style="bold")
    made.add_column(overflow="fold")
    for name, value in rows.items():
        made.add_row(name, value)
    console.print(made)


def number(value: float | None) -> str:
    """A count with separators."""
    return "-" if value is None else f"{value:,}"


def seconds(value: float) -> str:
    """A duration."""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def size(value: int | None) -> str:
    """A number of bytes."""
    if value is None:
        return "-"
    for unit, bytes_ in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if value >= bytes_:
            return f"{value / bytes_:.1f} {unit}"
    return f"{value} B"


def short_moment(value: datetime | None) -> str:
    """A time, to the minute."""
    return "-" if value is None else f"{value:%m-%d %H:%M}"


def room_for(others: int) -> int:
    """Characters that are left of a line for its last column."""
    return max(20, console.width - others)


def clipped_left(text: str, width: int) -> str:
    """The end of a path, safe to print."""
    return escape(text if len(text) <= width else "…" + text[1 - width :])


def clipped(text: str, width: int) -> str:
    """One line of at most `width` characters, safe to print."""
    line = " ".join(text.split())
    return escape(line if len(line) <= width else line[: width - 1] + "…")


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)
