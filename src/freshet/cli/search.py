"""`freshet search`: the records nearest to a question."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from freshet.cli import output
from freshet.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, settings_of


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(name="search")(search)


def search(
    question: Annotated[str, typer.Argument(help="What to look for.")],
    *,
    config: ConfigOption = DEFAULT_CONFIG,
    k: Annotated[int | None, typer.Option("--k", min=1, help="How many results.")] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="SQL", help='A condition on attributes: "price < 10".'),
    ] = None,
    vector: Annotated[
        str | None,
        typer.Option("--vector", metavar="NAME", help="One of `gold.vectors` to search by."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Find the records nearest to a question, as the index is now."""
    from freshet.pipeline import Pipeline  # noqa: PLC0415 - Spark and Lance load slowly

    with output.working("searching"):
        hits = Pipeline(settings_of(config)).search(question, k=k, where=where, vector=vector)
    if json:
        output.as_json([hit.as_dict() for hit in hits])
    elif hits:
        show_hits(hits)
    else:
        output.say("nothing found")


def show_hits(hits: Sequence[Any], width: int = 88) -> None:
    """Results for people."""
    attributes = list(hits[0].attributes)
    headings = {"score": "right", "key": "left"} | dict.fromkeys(attributes, "left")
    output.table(
        None,
        headings | {"text": "left"},
        [
            [
                f"{hit.score:.3f}",
                output.clipped(hit.key, 48),
                *(output.clipped(str(hit.attributes[name]), 24) for name in attributes),
                output.clipped(hit.text, width),
            ]
            for hit in hits
        ],
    )
