"""`freshet status`: where the pipeline stands."""

from typing import Any

import typer

from freshet.cli import output
from freshet.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, settings_of


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(name="status")(status)


def status(config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """Show files, events, the index and the last batch."""
    from freshet.pipeline import Pipeline  # noqa: PLC0415 - Spark and Lance load slowly

    found = Pipeline(settings_of(config)).status()
    if json:
        output.as_json(found.as_dict())
        return
    n = output.number
    output.facts(
        {
            "pipeline": found.pipeline,
            "files": f"{n(found.files.seen)} seen, {n(found.files.waiting)} waiting "
            f"({output.size(found.files.waiting_bytes)})",
            "bronze": f"{n(found.bronze.rows)} events, {n(found.bronze.errors)} in quarantine; "
            f"understood as {', '.join(found.bronze.envelopes) or 'nothing yet'}",
            "schema": f"version {found.schema.version}, {n(found.schema.columns)} columns, "
            f"{n(found.schema.pending)} changes to accept, {n(found.schema.conflicts)} values "
            "that did not fit",
            "index": f"{n(found.index.keys)} records in {n(found.index.rows)} rows, version "
            f"{found.index.version}, {n(found.index.fragments)} fragments, "
            f"{n(found.index.unindexed_rows)} rows not in a vector index",
            "last batch": _last_batch(found.last_batch),
        }
        | ({"held back": _held(found.index.held)} if found.index.held else {})
        | ({"refused": _refused(found.index.refused)} if found.index.refused else {})
        | ({} if found.rebuild is None else {"rebuild": _rebuild(found.rebuild)})
        | ({} if found.short_trigger is None else {"trigger": found.short_trigger.sentence})
    )


def _last_batch(row: object) -> str:
    if not isinstance(row, dict):
        return "none yet"
    line = f"{row['batch_id']} {row['status']} at {row['finished_at']:%Y-%m-%d %H:%M:%S} UTC"
    if row["error"]:
        return f"{line}: {output.clipped(row['error'], 200)}"
    return (
        f"{line}: {output.number(row['rows_in'])} events in {output.seconds(row['total_s'])}, "
        f"{output.number(row['rows_embedded'])} embedded, "
        f"{output.number(row['rows_reused'])} reused"
    )


def _refused(rows: int) -> str:
    return (
        f"{output.number(rows)} pieces of text are in the index without a vector: "
        "`freshet quarantine list` says why"
    )


def _held(records: int) -> str:
    return f"{output.number(records)} records wait for a value that the tool left out"


def _rebuild(found: Any) -> str:
    state = "under way" if found.is_active else "interrupted: `freshet rebuild` goes on"
    read = f"{output.number(found.events)} of {output.number(found.of_events)} events read"
    return f"{read}, {state}"
