"""`freshet search`: the records that answer a question best."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from freshet.cli import output
from freshet.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, settings_of
from freshet.clock import utc_now

Question = Annotated[str, typer.Argument(help="What to look for.")]
KOption = Annotated[int | None, typer.Option("--k", min=1, help="How many results.")]
WhereOption = Annotated[
    str | None,
    typer.Option("--where", metavar="SQL", help='A condition on attributes: "price < 10".'),
]
VectorOption = Annotated[
    str | None,
    typer.Option("--vector", metavar="NAME", help="One of `gold.vectors` to search by."),
]
ModeOption = Annotated[
    str | None,
    typer.Option("--mode", metavar="MODE", help="`vector`, `text` (words) or `hybrid` (both)."),
]
AsOfOption = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="WHEN",
        help='As the index was: a version, "2026-11-16 07:00" (UTC) or "10 minutes ago".',
    ),
]
ChunksOption = Annotated[
    bool, typer.Option("--chunks", help="Every piece of a record counts, not its best one alone.")
]
NprobesOption = Annotated[
    int | None, typer.Option("--nprobes", min=1, help="As the setting `search.nprobes`.")
]
EfOption = Annotated[int | None, typer.Option("--ef", min=1, help="As the setting `search.ef`.")]
RefineOption = Annotated[
    int | None, typer.Option("--refine", min=0, help="As the setting `search.refine`.")
]


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(name="search")(search)


def search(
    question: Question,
    *,
    config: ConfigOption = DEFAULT_CONFIG,
    k: KOption = None,
    where: WhereOption = None,
    vector: VectorOption = None,
    mode: ModeOption = None,
    as_of: AsOfOption = None,
    chunks: ChunksOption = False,
    nprobes: NprobesOption = None,
    ef: EfOption = None,
    refine: RefineOption = None,
    json: JsonOption = False,
) -> None:
    """Find the records that answer a question best, as the index is now or as it was then."""
    asked = {"k": k, "where": where, "vector": vector, "mode": mode, "per_record": not chunks}
    knobs = {"nprobes": nprobes, "ef": ef, "refine": refine}
    with output.working("searching"):
        hits = _found(config, question, as_of, asked | knobs)
    if json:
        output.as_json([hit.as_dict() for hit in hits])
    elif hits:
        show_hits(hits)
    else:
        output.say("nothing found")


def _found(config: Path, question: str, as_of: str | None, asked: dict[str, Any]) -> Sequence[Any]:
    from freshet.pipeline import Pipeline  # noqa: PLC0415 - Spark and Lance load slowly
    from freshet.search import as_of_from  # noqa: PLC0415

    pipeline = Pipeline(settings_of(config))
    then = None if as_of is None else as_of_from(as_of, utc_now())
    return pipeline.search(question, as_of=then, **asked)


def show_hits(hits: Sequence[Any], width: int = 88) -> None:
    """Results for people."""
    attributes = list(hits[0].attributes)
    headings = {"score": "right", "key": "left"} | dict.fromkeys(attributes, "left")
    output.table(
        None,
        headings | {"text": "left"},
        [
            [
                f"{hit.score:.4f}",
                output.clipped(hit.key, 48),
                *(output.clipped(str(hit.attributes[name]), 24) for name in attributes),
                output.clipped(hit.text, width),
            ]
            for hit in hits
        ],
    )
