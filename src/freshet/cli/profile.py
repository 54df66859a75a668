"""`freshet profile`: what the embedding does on your own data, and the settings that fit."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from freshet.cli import advice, output
from freshet.cli.advice import PlotOption, WriteOption
from freshet.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, settings_of

if TYPE_CHECKING:
    from freshet.profiling import Evidence, Profile

RecordsOption = Annotated[
    int, typer.Option("--records", min=1, help="How many records the sample has, about.")
]
SecondsOption = Annotated[
    float,
    typer.Option("--seconds", min=0.01, help="How long the model is timed for one figure, about."),
]
FreshnessOption = Annotated[
    str | None,
    typer.Option(
        "--freshness",
        metavar="TIME",
        help='How soon a change must be found, such as "1 minute". Unset: batches fit the trigger.',
    ),
]


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(name="profile")(profile)


def profile(
    *,
    config: ConfigOption = DEFAULT_CONFIG,
    records: RecordsOption = 2_000,
    seconds: SecondsOption = 4.0,
    freshness: FreshnessOption = None,
    plot: PlotOption = None,
    write: WriteOption = False,
    json: JsonOption = False,
) -> None:
    """Measure the embedding on a sample of your own records, and derive the settings that fit.

    Changes none of the pipeline's tables; report and picture go into the home.
    """
    from freshet import profiling  # noqa: PLC0415 - Spark and Lance load slowly
    from freshet.pipeline import Pipeline  # noqa: PLC0415 - Spark and Lance load slowly

    pipeline = Pipeline(settings_of(config))
    with output.working("starting Spark") as status:
        found = pipeline.profile(
            records=records,
            seconds=seconds,
            freshness=freshness,
            on_progress=lambda text: None if status is None else status.update(text),
        )
        kept = found.keep(pipeline.home, None if plot is None else str(plot.absolute()))
    changes = profiling.write(config, found.derived.advice) if write else []
    if json:
        output.as_json(found.as_dict() | asdict(kept) | advice.written(changes))
        return
    _show(found)
    advice.show_end(found.derived.advice, kept, changes if write else None, config, "profile")


def _show(found: "Profile") -> None:
    evidence = found.evidence
    n = output.number
    where = "Bronze" if evidence.source == "bronze" else "the landing zone"
    output.say(
        f"{n(evidence.records)} records with text, of {n(evidence.events)} sampled from {where}; "
        f"{output.clipped(evidence.model_id, 100)} on {evidence.cores} cores"
    )
    for note in evidence.notes:
        output.say(note)
    output.say("")
    _show_spreads(evidence)
    output.say("")
    _show_rates(evidence)
    output.say("")
    _show_time(found)
    output.say("")
    advice.show(found.derived.advice)


def _show_spreads(evidence: "Evidence") -> None:
    told: dict[str, Any] = evidence.as_dict()
    names = {
        "characters": "characters of a record",
        "tokens": "tokens of a record",
        "texts": "texts to embed of a record",
        "file_records": "records of a file",
        "file_bytes": "bytes of a file",
    }
    rows = [[name, *map(output.number, told[key].values())] for key, name in names.items()]
    sides = dict.fromkeys(("p50", "p90", "p99", "max"), "right")
    output.table(None, {"of the sample": "left"} | sides, rows)


def _show_rates(evidence: "Evidence") -> None:
    rows = [
        [output.number(rate.batch_tokens), f"{rate.one_worker:,.1f}", f"{rate.all_cores:,.1f}"]
        for rate in evidence.rates
    ]
    every = f"texts/s, {evidence.cores} cores"
    sides = {"batch_tokens": "right", "texts/s, one core": "right", every: "right"}
    output.table(None, sides, rows)


def _show_time(found: "Profile") -> None:
    cost, fixed = found.derived.cost, found.evidence.fixed
    rows = found.derived.max_rows_per_batch.new
    known = (
        f"median of {output.number(fixed.batches)} batches on record"
        if fixed.batches
        else "assumed, since no batch is on record"
    )
    output.say(
        f"a batch of {output.number(rows)} new records: "
        f"{output.seconds(rows * cost.record_s)} embedding, "
        f"{output.seconds(fixed.seconds)} all else ({known})"
    )
