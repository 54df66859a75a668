"""`freshet run`: brings the index up to date, once or for ever."""

import logging
from collections.abc import Callable
from typing import Annotated, Any

import typer

from freshet.cli import output
from freshet.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, settings_of


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(name="run")(run)


def run(
    config: ConfigOption = DEFAULT_CONFIG,
    once: Annotated[
        bool, typer.Option("--once", help="End when everything that is there now is indexed.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Keep the index fresh until Ctrl-C; with --once, bring it up to date and end."""
    from freshet.pipeline import Pipeline  # noqa: PLC0415 - Spark and Lance load slowly

    logging.getLogger("freshet").setLevel(logging.INFO)
    display = RunDisplay(as_json=json)
    pipeline = Pipeline(
        settings_of(config), on_batch=display.on_batch, reload=lambda: settings_of(config)
    )
    try:
        with output.working("starting Spark") as status:
            pipeline.run(once=once, on_tick=display.ticker(status))
    except KeyboardInterrupt:
        output.say("stopped; the next run goes on from here")
    display.summary()


class RunDisplay:
    """Shows what a run does: a spinner for what goes on, a line for what is done."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._batches = 0
        self._rows = 0

    def on_batch(self, report: Any) -> None:
        """A batch has been committed."""
        self._batches += 1
        self._rows += report.counts.rows_in
        if self._as_json:
            output.as_json(report.as_row())
        else:
            output.say(batch_line(report))

    def ticker(self, status: Any) -> Callable[[list[Any]], None]:
        """A function that updates the spinner with what the queries say of themselves."""

        def tick(queries: list[Any]) -> None:
            if status is not None:
                status.update(" · ".join(f"{query.name}: {_doing(query)}" for query in queries))

        return tick

    def summary(self) -> None:
        """The last line."""
        if not self._as_json:
            batches = "1 batch" if self._batches == 1 else f"{self._batches} batches"
            output.say(f"{batches}, {output.number(self._rows)} events indexed")


def _doing(query: Any) -> str:
    """What a query is at: the tasks of a stage while it works, else what it says itself."""
    from freshet.pipeline.progress import stage_of  # noqa: PLC0415 - Spark loads slowly

    said = query.status
    stage = stage_of(query) if said["isTriggerActive"] else None
    if stage is None:
        return str(said["message"]).lower()
    batch = "" if stage.batch_id is None else f"batch {stage.batch_id}, "
    doing = "embedding " if stage.is_embedding else ""
    return f"{batch}{doing}{stage.done} of {stage.total} tasks"


def batch_line(report: Any) -> str:
    """One batch in one line."""
    counts = report.counts
    parts = [
        f"batch {report.batch_id}",
        f"{output.number(counts.rows_in)} events",
        f"{output.number(counts.rows_upserted)} upserted",
        f"{output.number(counts.rows_deleted)} deleted",
        f"{output.number(counts.rows_stale)} stale",
        f"{output.number(counts.rows_embedded)} embedded",
        f"{output.number(counts.rows_reused)} reused",
        f"{output.seconds(report.total_s)} (embed {output.seconds(report.embed_s)},"
        f" commit {output.seconds(report.commit_s)})",
    ]
    return " · ".join(parts)
