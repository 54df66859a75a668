"""`freshet quarantine`: records that could not be understood, and how they get another chance."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any

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
    refused = [one for one in pipeline.refused() if reason is None or reason in one.error]
    if json:
        both = chain(map(asdict, found), map(asdict, refused))
        output.as_json(list(islice(both, limit)))
        return
    kinds = reasons(pipeline.quarantined())
    _show_records(list(islice(found, limit)), kinds)
    _show_refused(refused, limit)
    if kinds:
        output.say(
            f"{output.number(kinds.total())} records. Mend the files or the settings, then "
            "`freshet quarantine retry`"
        )
    elif not refused:
        output.say("nothing is in quarantine")


def _show_records(records: Sequence[Any], kinds: Counter[str]) -> None:
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


def _show_refused(refused: Sequence[Any], limit: int) -> None:
    if not refused:
        return
    output.table(
        None,
        {"key": "left", "piece": "right", "reason": "left", "text": "left"},
        [
            [
                output.clipped(one.key, 40),
                output.number(one.chunk),
                output.clipped(one.error, 60),
                output.clipped(one.text, 40),
            ]
            for one in refused[:limit]
        ],
    )
    output.say(
        f"{output.number(len(refused))} pieces of text are in the index without a vector, as the "
        "model does not take them. Mend its settings, then `freshet quarantine retry`"
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

    The next batch reads them. Their records keep their place in the order of arrival. Without files
    named, texts that the model did not take are given to it once more, at once.
    """
    from freshet.pipeline import Pipeline  # noqa: PLC0415 - Spark and Lance load slowly

    pipeline = Pipeline(settings_of(config))
    asked = pipeline.retry(str(file.absolute()) for file in files or ())
    embedded = 0 if files else pipeline.retry_refused()
    if json:
        output.as_json(asked)
        return
    if embedded:
        left = sum(1 for _ in pipeline.refused())
        output.say(
            f"{output.number(embedded)} records were embedded anew; {output.number(left)} pieces "
            "are still refused"
        )
    for path in asked:
        output.say(output.clipped_left(path, 200))
    output.say(
        f"{output.number(len(asked))} files will be read again by the next batch: "
        "`freshet run` does it"
        if asked
        else "no file in quarantine is there to be read again"
        if not embedded
        else "`freshet quarantine list` shows what is left"
    )
