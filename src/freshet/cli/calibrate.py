"""`freshet calibrate`: how often the optimizer should work, and on how much, for a latency."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from freshet.cli import advice, output
from freshet.cli.advice import PlotOption, WriteOption
from freshet.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, settings_of

if TYPE_CHECKING:
    from freshet.calibration import Calibration, Evidence
    from freshet.calibration.evidence import Growth

LatencyOption = Annotated[
    str | None,
    typer.Option(
        "--latency",
        metavar="TIME",
        help='What p95 of searches is to be kept within, such as "50 ms". Unset: 1.5 times the '
        "least that can be kept.",
    ),
]
GrowthOption = Annotated[
    float | None,
    typer.Option(
        "--rows-per-hour",
        min=1,
        help="New and changed rows of the index an hour. Unset: as the ledger tells.",
    ),
]
MaxRowsOption = Annotated[
    int, typer.Option("--max-rows", min=2_000, help="Of a larger index, so many rows are copied.")
]
SecondsOption = Annotated[
    float,
    typer.Option("--seconds", min=0.01, help="How long searches are timed for one figure, about."),
]
ScratchOption = Annotated[
    Path | None,
    typer.Option("--scratch", metavar="FOLDER", help="Where the copy goes. Unset: in the home."),
]


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(name="calibrate")(calibrate)


def calibrate(
    *,
    config: ConfigOption = DEFAULT_CONFIG,
    latency: LatencyOption = None,
    rows_per_hour: GrowthOption = None,
    max_rows: MaxRowsOption = 200_000,
    seconds: SecondsOption = 3.0,
    scratch: ScratchOption = None,
    plot: PlotOption = None,
    write: WriteOption = False,
    json: JsonOption = False,
) -> None:
    """Measure growth, actions and searches on a copy of the index, and derive what keeps it fast.

    The index itself is only read. Report and picture go into the home, and the copy is removed.
    """
    from freshet import profiling  # noqa: PLC0415 - Lance loads slowly
    from freshet.pipeline import Pipeline  # noqa: PLC0415 - Lance loads slowly

    pipeline = Pipeline(settings_of(config))
    with output.working("looking at the index") as status:
        calibrating = pipeline.calibrating(
            lambda text: None if status is None else status.update(text)
        )
        found = calibrating.run(
            latency=latency,
            rows_per_hour=rows_per_hour,
            max_rows=max_rows,
            seconds=seconds,
            scratch=None if scratch is None else str(scratch.absolute()),
        )
        kept = found.keep(pipeline.home, None if plot is None else str(plot.absolute()))
    changes = profiling.write(config, found.derived.advice) if write else []
    if json:
        output.as_json(found.as_dict() | asdict(kept) | advice.written(changes))
        return
    _show(found)
    advice.show_end(found.derived.advice, kept, changes if write else None, config, "calibrate")


def _show(found: "Calibration") -> None:
    evidence, derived = found.evidence, found.derived
    n = output.number
    output.say(
        f"{n(evidence.copied)} of {n(evidence.rows)} rows copied, {evidence.dimension} dimensions; "
        f"{', '.join(evidence.indexes)}"
    )
    output.say(_growth(evidence.growth))
    for note in evidence.notes:
        output.say(note)
    output.say("")
    _show_searches(evidence)
    output.say("")
    _show_actions(evidence)
    output.say("")
    colour = "yellow" if derived.target.is_missed else "green"
    output.say(f"p95 within [bold {colour}]{derived.target.p95_ms:.1f} ms[/]")
    output.say(f"  {derived.target.reason}")
    advice.show(derived.advice)


def _growth(growth: "Growth") -> str:
    told = f"{growth.rows_per_hour:,.0f} rows/h in {growth.batches_per_hour:,.1f} batches/h"
    if not growth.batches:
        return f"{told}, as told"
    return f"{told}, by the last {growth.batches:,} batches in {growth.span_s / 3_600:,.1f} hours"


def _show_searches(evidence: "Evidence") -> None:
    rows = [
        [
            output.number(one.shape.unindexed_rows),
            output.number(one.shape.fragments),
            output.number(one.shape.parts),
            *(f"{figure:.1f}" for figure in (one.p50_ms, one.p95_ms, one.p99_ms)),
        ]
        for one in evidence.latencies
    ]
    names = ("rows not indexed", "their fragments", "index parts", "p50 ms", "p95 ms", "p99 ms")
    output.say(f"searches ({evidence.asked})")
    output.table(None, dict.fromkeys(names, "right"), rows)


def _show_actions(evidence: "Evidence") -> None:
    rows = [
        [
            str(took.action),
            output.number(took.rows) if took.rows else "-",
            output.number(took.pieces),
            output.seconds(took.seconds),
        ]
        for took in evidence.actions
    ]
    sides = {"action": "left", "rows": "right", "pieces": "right", "time": "right"}
    output.table(None, sides, rows)
