"""`freshet quarantine`: records that could not be understood, and how they get another chance."""

from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from freshet.cli import output
from freshet.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, settings_of

quarantine = typer.Typer(
    help="Records that could not be understood: kept, with the reason.", no_args_is_help=True
)


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(quarantine, name="quarantine")


@quarantine.command(name="list")
def list_(
    config: ConfigOption = DEFAULT_CONFIG,
    reason: Annotated[
        str | None, typer.Option("--reason", help="Only reasons that hold this text.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most records to show.")] = 50,
    json: JsonOption = False,
) -> None:
    """Show the records in quarantine with their reasons, and how many there are of each kind."""
    from freshet.bronze import reasons  # noqa: PLC0415 - Spark and Lance load slowly
    from freshet.pipeline import Pipeline  # noqa: PLC0415

    pipeline = Pipeline(settings_of(config))
    found = (
        record for record in pipeline.quarantined() if reason is None or reason in record.error
    )
    if json:
        output.as_json([asdict(record) for record in islice(found, limit)])
        return
    records = list(islice(found, limit))
    kinds = reasons(pipeline.quarantined())
    output.table(
        None,
        {"records": "right", "kind of reason": "left"},
        [[output.number(count), output.clipped(kind, 90)] for kind, count in kinds.most_common()],
    )
    output.table(
        None,
        {"file": "left", "row": "right", "reason": "left", "record": "left"},
        [
            [
                output.clipped_left(record.file, 40),
                output.number(record.row),
                output.clipped(record.error, 60),
                output.clipped(record.raw or "", 40),
            ]
            for record in records
        ],
    )
    output.say(
        f"{output.number(kinds.total())} records. Mend the files or the settings, then "
        "`freshet quarantine retry`"
        if kinds
        else "nothing is in quarantine"
    )


@quarantine.command()
def retry(
    files: Annotated[
        list[Path] | None, typer.Argument(help="The files to read again; all if none is named.")
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    json: JsonOption = False,
) -> None:
    """Read files again that have records in quarantine, once they or the settings are mended.

    The next batch reads them. Their records keep their place in the order of arrival.
    """
    from freshet.pipeline import Pipeline  # noqa: PLC0415 - Spark and Lance load slowly

    asked = Pipeline(settings_of(config)).retry(str(file.absolute()) for file in files or ())
    if json:
        output.as_json(asked)
        return
    for path in asked:
        output.say(output.clipped_left(path, 200))
    output.say(
        f"{output.number(len(asked))} files will be read again by the next batch: "
        "`freshet run` does it"
        if asked
        else "no file in quarantine is there to be read again"
    )
