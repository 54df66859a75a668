"""`freshet rebuild`: a new index from Bronze, made beside the live one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import rich.progress
import typer
from rich.console import Console

from freshet.cli import output
from freshet.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, settings_of
from freshet.units import seconds_of

if TYPE_CHECKING:
    from freshet.pipeline.rebuild_report import Progress, RebuildReport

_DOING = {
    "hold": "looking at what is there",
    "fill": "reading Bronze",
    "fence": "stopping the run's index batches",
    "drain": "reading what has come since",
    "bury": "carrying over deletes",
    "copy": "copying rows",
    "switch": "switching",
    "clear": "clearing up",
}


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(name="rebuild")(rebuild)


def rebuild(
    config: ConfigOption = DEFAULT_CONFIG,
    keep_old: Annotated[
        str,
        typer.Option("--keep-old", metavar="TIME", help="How long the old index can be opened."),
    ] = "7 days",
    forget: Annotated[
        bool,
        typer.Option(
            "--forget",
            help="Build nothing: drop an unfinished rebuild, and old indexes whose time is over.",
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Build the index anew from Bronze with the settings as they are now, and switch to it at once.

    Searches go on, and so does a run; a rebuild that was interrupted goes on where it was.
    """
    from freshet.pipeline import Pipeline  # noqa: PLC0415 - Spark and Lance load slowly

    kept = timedelta(seconds=seconds_of(keep_old))
    pipeline = Pipeline(settings_of(config))
    if forget:
        _show_forgotten(pipeline.forget_rebuilds(), as_json=json)
        return
    try:
        with _bar() as on_progress:
            report = pipeline.rebuild(keep_old=kept, on_progress=on_progress)
    except KeyboardInterrupt:
        output.say("stopped; the next `freshet rebuild` goes on from here")
        raise typer.Exit(130) from None
    if json:
        output.as_json(report.as_dict())
    else:
        _show(report)


@contextmanager
def _bar() -> Iterator[Callable[["Progress"], None]]:
    screen = Console(stderr=True)
    with rich.progress.Progress(console=screen, disable=not screen.is_terminal) as bar:
        task = bar.add_task("starting Spark", total=None)

        def show(progress: "Progress") -> None:
            bar.update(
                task,
                description=_DOING[progress.step],
                completed=progress.events,
                total=progress.of_events,
            )

        yield show


def _show(report: "RebuildReport") -> None:
    n, seconds = output.number, output.seconds
    output.say(
        f"switched at version {report.version}: {n(report.rows)} rows of {n(report.events)} events "
        f"in {seconds(report.seconds)}, {n(report.embedded)} embedded, {n(report.reused)} reused"
        + ("; gone on from an earlier rebuild" if report.is_continued else "")
    )
    output.say(f"no run could write for {seconds(report.fenced_s)}")
    if report.old_name is not None:
        output.say(f'the old index can be opened by its tag: checkout("{report.old_name}")')


def _show_forgotten(done: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        output.as_json(done)
        return
    dropped = "an unfinished rebuild" if done["rebuild"] else "no unfinished rebuild"
    output.say(f"dropped {dropped} and {len(done['old'])} old indexes")
