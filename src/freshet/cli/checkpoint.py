"""`freshet checkpoint`: the pipeline's state, backed up, looked at and put back."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from freshet.cli import output
from freshet.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, settings_of

if TYPE_CHECKING:
    from freshet.pipeline.recovering import Recovery
    from freshet.recovery import Backup, Restored

_MARKS = {"ok": "[green]ok[/]", "warning": "[yellow]warning[/]", "error": "[bold red]error[/]"}

BackupArgument = Annotated[
    str | None, typer.Argument(metavar="BACKUP", help="Its name in the list, or its folder.")
]


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    checkpoint = typer.Typer(
        help="Back up, verify and restore checkpoints, files table and ledger.",
        no_args_is_help=True,
    )
    for command in (backup, list_backups, verify, restore):
        checkpoint.command(name=command.__name__.partition("_")[0])(command)
    app.add_typer(checkpoint, name="checkpoint")


def backup(
    config: ConfigOption = DEFAULT_CONFIG,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="FOLDER", help="Where to; unset: checkpoint.backup_path."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Copy checkpoints and small tables to a dated folder; safe while a run is active."""
    with output.working("copying"):
        made = _recovery(config).backup(to)
    if json:
        output.as_json(_as_dict(made))
        return
    size = output.number(made.bytes)
    output.say(f"{made.uri}: {len(made.manifest.files)} files, {size} bytes")


def list_backups(config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """List the backups, oldest first."""
    found = _recovery(config).backups()
    if json:
        output.as_json([_as_dict(one) for one in found])
        return
    columns = {"backup": "left", "made at (UTC)": "left", "files": "right", "bytes": "right"}
    output.table(None, columns | {"read up to": "right", "batch": "right"}, [*map(_row, found)])


def verify(
    name: BackupArgument = None,
    config: ConfigOption = DEFAULT_CONFIG,
    json: JsonOption = False,
) -> None:
    """Check that checkpoints, tables and backups are readable and in step; or check one backup."""
    from freshet.recovery import is_well  # noqa: PLC0415 - Lance loads slowly

    with output.working("looking"):
        found = _recovery(config).verify(name)
    if json:
        output.as_json({"ok": is_well(found), "findings": [one.as_dict() for one in found]})
    for one in () if json else found:
        output.say(f"{_MARKS[one.level]}  {one.what}: {output.clipped(one.found, 400)}")
        if one.next:
            output.say(f"    → {output.clipped(one.next, 400)}")
    if not is_well(found):
        raise typer.Exit(1)


def restore(
    name: BackupArgument = None,
    config: ConfigOption = DEFAULT_CONFIG,
    to: Annotated[
        str | None, typer.Option("--to", metavar="HOME", help="Another home than the settings'.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also if a run seems to be active.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Put a backup back, the newest unless one is named; what is there is moved aside."""
    with output.working("restoring"):
        done = _recovery(config).restore(name, to=to, force=force)
    if json:
        output.as_json(_report_of(done))
        return
    rows = ", ".join(f"{table} {output.number(rows)}" for table, rows in done.tables.items())
    output.say(f"restored {done.backup.uri}: {rows} rows")
    if done.aside is not None:
        output.say(f"what was there lies in {done.aside}")
    for note in done.notes:
        output.say(note)
    for one in done.rebuilt:
        output.say(f"{one.what} made anew ({'; '.join(one.found)}): {one.done}")
    output.say("go on with `freshet run`")


def _recovery(config: Any) -> "Recovery":
    from freshet.pipeline.recovering import Recovery  # noqa: PLC0415 - Spark and Lance load slowly

    return Recovery(settings_of(config))


def _as_dict(made: "Backup") -> dict[str, Any]:
    return {"backup": made.uri, "bytes": made.bytes} | made.manifest.as_dict()


def _row(made: "Backup") -> list[str]:
    queries = made.manifest.queries
    end = queries["ingest"].end or {}
    return [
        made.name,
        f"{made.manifest.made_at:%Y-%m-%d %H:%M:%S}",
        output.number(len(made.manifest.files)),
        output.number(made.bytes),
        output.number(end.get("seq", 0)),
        output.number(queries["index"].batch_id),
    ]


def _report_of(done: "Restored") -> dict[str, Any]:
    return {
        "backup": done.backup.uri,
        "aside": done.aside,
        "tables": dict(done.tables),
        "notes": list(done.notes),
        "rebuilt": [
            {"what": one.what, "found": one.found, "done": one.done, "replaced": one.replaced}
            for one in done.rebuilt
        ],
    }
