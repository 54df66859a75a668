"""`freshet demo`: the whole way, on real text, with the real model."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from freshet.cli import output, run, search, verify

_COUNTS = {
    "rows_in": "events",
    "rows_upserted": "new",
    "rows_deleted": "gone",
    "rows_stale": "stale",
    "rows_embedded": "embedded",
    "rows_reused": "reused",
}
_TIMES = {"embed_s": "model", "write_s": "write", "commit_s": "commit", "total_s": "total"}


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(name="demo")(demo)


def demo(
    folder: Annotated[Path, typer.Option("--folder", help="Where to play.")] = Path("freshet-demo"),
    records: Annotated[
        int, typer.Option("--records", min=500, max=20_000, help="How many.")
    ] = 3_000,
) -> None:
    """Watch it work: a first load, live changes, searches that follow them, and a proof.

    Uses the documentation inside installed Python packages; needs no network. Starts afresh.
    """
    from freshet.demo import tell  # noqa: PLC0415 - Spark and Lance load slowly

    is_equal = tell(folder, TerminalScreen(), records=records)
    output.say(
        f'\nYours to play with: freshet search "…" --config {folder}/freshet.toml\n'
        f'  or lancedb.connect("{folder}/home/index").open_table("docs")'
    )
    if not is_equal:
        raise typer.Exit(1)


class TerminalScreen:
    """Shows the story on a terminal; plain lines where there is none."""

    def __init__(self) -> None:
        self._chapters = 0

    def chapter(self, title: str) -> None:
        """A heading."""
        self._chapters += 1
        output.say(f"\n[bold cyan]{self._chapters}. {output.clipped(title, 100)}[/]")

    def line(self, text: str) -> None:
        """A line."""
        output.say(text)

    def hits(self, hits: Sequence[Any]) -> None:
        """Results, with short texts."""
        search.show_hits(hits, width=60)

    def batch(self, report: Any) -> None:
        """A batch in one line."""
        output.say(run.batch_line(report))

    def batches(self, rows: Sequence[dict[str, Any]]) -> None:
        """Ledger rows as a table."""
        output.table(
            None,
            {"batch": "right"} | dict.fromkeys((*_COUNTS.values(), *_TIMES.values()), "right"),
            [
                [
                    str(row["batch_id"]),
                    *(output.number(row[name]) for name in _COUNTS),
                    *(output.seconds(row[name]) for name in _TIMES),
                ]
                for row in rows
            ],
        )

    @contextmanager
    def progress(self, text: str, total: int) -> Iterator[Callable[[int], None]]:
        """A bar."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=output.console) as bar:
            task = bar.add_task(text, total=total)
            yield lambda done: bar.update(task, completed=done)

    def verdict(self, verdict_: Any) -> None:
        """What verify found."""
        verify.show(verdict_)
