"""`freshet schema`: the records' schema, its history, and what people say to it."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer

from freshet.cli import output
from freshet.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, settings_of
from freshet.errors import SchemaError, TableMissingError
from freshet.settings import Settings

_EXAMPLE_WIDTH: Final = 40
_NOT_YET: Final = "there is no schema yet: `freshet run --once` makes its first version"


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(no_args_is_help=True, help="Show, accept or roll back the records' schema.")
    commands: tuple[Callable[..., None], ...] = (history, show, accept, rollback)
    for command in commands:
        group.command()(command)
    app.add_typer(group, name="schema")


def history(config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """Show which file brought which change, and when; the first version is one line."""
    entries = _history(settings_of(config)).entries()
    if json:
        output.as_json([asdict(entry) for entry in entries])
    elif entries:
        first = [one for one in entries if one.version == 1 and one.what == "added"]
        rows = [_line(same) for same in _alike([one for one in entries if one not in first])]
        headings = ("version", "when", "what", "column", "type", "records", "file")
        sides = dict.fromkeys(headings, "left") | {"version": "right", "records": "right"}
        output.table(None, sides, [_first_line(first), *rows])
    else:
        output.say(_NOT_YET)


def show(config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """Show the columns and types of now, and what of the records is not taken."""
    schema = _history(settings_of(config)).schema()
    if json:
        output.as_json(_as_dict(schema))
    elif schema.version == 0:
        output.say(_NOT_YET)
    else:
        rows = [[output.clipped(path, 60), str(kind)] for path, kind in schema.shape.items()]
        output.table(f"version {schema.version}", {"column": "left", "type": "left"}, rows)
        _show_held(schema)


def accept(
    columns: Annotated[
        list[str] | None,
        typer.Argument(metavar="COLUMN", help="Only these, with all that is inside."),
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Take columns and types that the pipeline stopped at, or that it rescued.

    What was rolled back is taken again only if it is named.
    """
    from freshet import evolution  # noqa: PLC0415 - Spark and Lance load slowly

    settings = settings_of(config)
    in_index = _columns_in_index(settings)
    written = _history(settings).append(
        lambda schema: evolution.acceptance(schema, columns or (), in_index=in_index)
    )
    if not written:
        output.say("nothing waits to be accepted")
        return
    names = ", ".join(f"{entry.column} ({entry.to_type})" for entry in written)
    output.say(
        f"version {written[0].version} takes {output.clipped(names, 400)}: "
        "the next batch is written with it"
    )


def rollback(
    version: Annotated[int, typer.Argument(min=1, help="The version to go back to.")],
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Make the schema what it was at a version; what came after is not taken again by itself.

    Columns that leave the schema leave an index whose attributes are "*" with the next run.
    """
    from freshet import evolution  # noqa: PLC0415 - Spark and Lance load slowly

    settings = settings_of(config)
    made = _history(settings)
    entries = made.entries()
    _check_version(version, max((entry.version for entry in entries), default=0))
    then = evolution.Schema().after(entry for entry in entries if entry.version <= version)
    in_index = _columns_in_index(settings)
    written = made.append(
        lambda now: evolution.rollback(
            now, then, newest_file=evolution.newest_file(settings.home.files), in_index=in_index
        )
    )
    if not written:
        output.say(f"the schema is that of version {version} already")
        return
    names = ", ".join(dict.fromkeys(entry.column for entry in written))
    output.say(
        f"version {written[0].version} is as version {version} was "
        f"({output.clipped(names, 400)} changed back): files that come from now on are read with "
        "it, and the next run drops columns that left the schema"
    )


def _check_version(version: int, newest: int) -> None:
    if newest == 0:
        raise SchemaError(_NOT_YET)
    if version > newest:
        raise SchemaError(f"there is no version {version} of the schema: the newest is {newest}")


def _history(settings: Settings) -> Any:
    from freshet.evolution import History  # noqa: PLC0415 - Spark and Lance load slowly

    return History(settings.home.schema)


def _columns_in_index(settings: Settings) -> Sequence[str]:
    """The index's columns, if it has those that the schema has."""
    from freshet.stores.lance_tables import LanceTable  # noqa: PLC0415 - Lance loads slowly

    if not settings.gold.takes_all:
        return ()
    try:
        names: list[str] = LanceTable.open(settings.home.index).schema.names
    except TableMissingError:
        return ()
    return names


# --- for people ----------------------------------------------------------------------------------


def _first_line(entries: Sequence[Any]) -> list[str]:
    first = min(entries, key=lambda entry: (entry.seq or 0, entry.row or 0))
    return [
        "1",
        f"{first.at:%Y-%m-%d %H:%M}",
        "first",
        f"{len(entries)} columns",
        "",
        output.number(max(entry.records or 0 for entry in entries)),
        _name_of(first.file),
    ]


def _alike(entries: Sequence[Any]) -> list[list[Any]]:
    """Entries that tell the same, batch after batch, in the order in which they first did."""
    found: dict[Any, list[Any]] = {}
    for entry in entries:
        same = (entry.version, entry.what, entry.column, entry.from_type, entry.to_type)
        found.setdefault(same, []).append(entry)
    return list(found.values())


def _line(same: Sequence[Any]) -> list[str]:
    entry = same[0]
    records = {one.batch_id: one.records for one in same if one.records is not None}
    return [
        str(entry.version),
        f"{entry.at:%Y-%m-%d %H:%M}",
        entry.what.replace("_", " "),
        output.clipped(entry.column, 40),
        _types(entry.from_type, entry.to_type),
        output.number(sum(records.values()) if records else None),
        _name_of(entry.file),
    ]


def _types(before: str | None, after: str | None) -> str:
    return f"{before or '-'} → {after or '-'}"


def _name_of(file: str | None) -> str:
    return output.clipped((file or "-").rsplit("/", 1)[-1], 40)


def _show_held(schema: Any) -> None:
    """What is not taken: why, how often, and a value of it."""
    rows = [
        [
            _why(schema, held),
            output.clipped(held.column, 40),
            _types(held.known, held.seen),
            output.number(held.records or held.first.records or 0),
            _name_of(held.first.file),
            output.clipped(held.first.example or "", _EXAMPLE_WIDTH),
        ]
        for held in schema.held.values()
    ]
    if rows:
        sides = {"not taken": "left", "column": "left", "type": "left", "records": "right"}
        output.say("")
        output.table(None, sides | {"first in": "left", "for example": "left"}, rows)


def _why(schema: Any, held: Any) -> str:
    if held.what == "rescued" and held.column in schema.rejected:
        return "rolled back"
    return str(held.what)


def _as_dict(schema: Any) -> dict[str, Any]:
    return {
        "version": schema.version,
        "columns": schema.shape,
        "not_taken": [
            {
                "why": _why(schema, held),
                "column": held.column,
                "type": held.known,
                "seen": held.seen,
                "records": held.records,
                "file": held.first.file,
                "row": held.first.row,
                "example": held.first.example,
            }
            for held in schema.held.values()
        ],
    }
