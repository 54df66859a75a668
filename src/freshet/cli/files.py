"""`freshet files`: what became of the change files."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any

import typer

from freshet.cli import output
from freshet.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, settings_of
from freshet.errors import SettingsError

_OTHER_COLUMNS = 58
"""What all columns but the last take."""


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(name="files")(files)


def files(
    config: ConfigOption = DEFAULT_CONFIG,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            help="Only files that are waiting, read, archived, deleted, missing, changed "
            "(since they were read) or skipped (there before the first start).",
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most files to show.")] = 50,
    json: JsonOption = False,
) -> None:
    """Show change files, newest first: size, times, batch, rows, errors."""
    from freshet.landing import STATES  # noqa: PLC0415 - Spark and Lance load slowly
    from freshet.pipeline import Pipeline  # noqa: PLC0415

    for name in state or ():
        if name not in STATES:
            raise SettingsError(f'there is no state "{name}"; there are {", ".join(STATES)}')
    pipeline = Pipeline(settings_of(config))
    with output.working("looking at the landing zone"):
        found = list(islice(pipeline.files(state or ()), limit))
        rows = [_row(file, pipeline.readings(found)) for file in found]
    if json:
        output.as_json(rows)
        return
    _show(rows, pipeline.settings.landing.path)


def _row(file: Any, readings: Any) -> dict[str, Any]:
    result = readings.get(file.seq)
    counts = {"rows": getattr(result, "rows", None), "errors": getattr(result, "errors", None)}
    return asdict(file) | counts


def _show(rows: Sequence[dict[str, Any]], zone: str) -> None:
    n, width = output.number, output.room_for(_OTHER_COLUMNS)
    columns = {
        "state": "left",
        "number": "right",
        "size": "right",
        "modified": "left",
        "batch": "right",
        "rows": "right",
        "errors": "right",
        "file": "left",
    }
    shown = [
        [
            row["state"],
            n(row["seq"]),
            output.size(row["size"]),
            output.short_moment(row["modified_at"]),
            n(row["batch"]),
            n(row["rows"]),
            n(row["errors"]),
            output.clipped_left(row["path"].removeprefix(f"{zone}/"), width),
        ]
        for row in rows
    ]
    output.table(None, columns, shown)
    if not rows:
        output.say("no such files")
