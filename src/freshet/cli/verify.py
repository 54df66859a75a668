"""`freshet verify`: the proof that the index equals the source, and the way back if it does not."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from freshet.cli import output
from freshet.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, settings_of

if TYPE_CHECKING:
    from freshet.pipeline.audit import Audit, Repair

_MEANINGS = {
    "missing": "in Gold, not in the index",
    "orphan": "in the index, deleted or never in Gold",
    "stale": "another version or other attributes than Gold's",
    "wrong_text": "other text than Gold's, or a piece missing",
    "duplicate": "a piece that stands twice",
}

SampleOption = Annotated[
    float | None,
    typer.Option(
        "--sample",
        metavar="SHARE|KEYS",
        help="Look at a share of the keys (0.01), or at about so many of them (10000).",
    ),
]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Choose the same sample again.")]
RepairOption = Annotated[
    bool, typer.Option("--repair", help="Write what differs anew from Bronze.")
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Repair even if a run may be active; the run then ends.")
]
ReportOption = Annotated[
    bool, typer.Option("--report/--no-report", help="Keep a report in the home.")
]


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(name="verify")(verify)


def verify(
    *,
    config: ConfigOption = DEFAULT_CONFIG,
    sample: SampleOption = None,
    seed: SeedOption = None,
    repair: RepairOption = False,
    force: ForceOption = False,
    report: ReportOption = True,
    json: JsonOption = False,
) -> None:
    """Recompute Gold from Bronze and compare it with the index, key by key.

    Exits with 0 only if they are equal; after a repair, only if they are equal now.
    """
    from freshet.pipeline import Pipeline  # noqa: PLC0415 - Spark and Lance load slowly

    if force and not repair:
        raise typer.BadParameter("--force goes with --repair")
    pipeline = Pipeline(settings_of(config))
    with output.working("looking at the index") as status:
        audit = pipeline.audit(
            sample=sample,
            seed=seed,
            repairs=repair,
            force=force,
            on_progress=lambda text: None if status is None else status.update(text),
        )
    place = audit.keep(pipeline.home) if report else None
    if json:
        output.as_json(audit.as_dict() | ({} if place is None else {"report": place}))
    else:
        _show_audit(audit, place)
    if not audit.verdict.ok:
        raise typer.Exit(1)


def _show_audit(audit: "Audit", place: str | None) -> None:
    if audit.repair is not None:
        _show_repair(audit.repair)
    show(audit.verdict)
    if not audit.verdict.ok and audit.repair is None:
        output.say("`freshet verify --repair` writes what differs anew from Bronze")
    if place is not None:
        output.say(f"report: {output.clipped(place, 1_000)}")


def _show_repair(done: "Repair") -> None:
    n = output.number
    if done.before is not None:
        _show_examples(done.before)
    output.say(
        f"repaired {n(done.keys)} records in {n(done.rounds)} rounds: {n(done.written)} "
        f"written, {n(done.deleted)} deleted, {n(done.embedded)} texts embedded"
    )


def show(verdict: Any) -> None:
    """The verdict for people."""
    found = verdict.as_dict()
    rows = [[name, output.number(found[name]), meaning] for name, meaning in _MEANINGS.items()]
    output.table(None, {"keys": "left", "": "right", "meaning": "left"}, rows)
    if verdict.held:
        output.say(
            f"{output.number(verdict.held)} records are held: an event of theirs waits for a value "
            "that the tool left out. That is no difference"
        )
    _show_examples(verdict)
    output.say(_sentence(verdict))


def _show_examples(verdict: Any) -> None:
    for problem, some in verdict.examples.items():
        for one in some:
            key, gold, index = (output.clipped(t, 250) for t in (one.key, one.expected, one.actual))
            output.say(f"{problem} [bold]{key}[/]: Gold says {gold}; the index has {index}")


def _sentence(verdict: Any) -> str:
    n, sample = output.number, verdict.sample
    keys = f"{n(verdict.gold)} records in Gold, {n(verdict.index)} in the index"
    looked = "" if sample is None else f" of a sample (seed {sample.seed})"
    if verdict.is_empty:
        return f"[bold red]nothing shown[/]: no key is in the sample (seed {sample.seed}): ask more"
    if not verdict.ok:
        return f"[bold red]not equal[/]: {keys}{looked}. If files wait, `freshet run --once` first"
    if sample is None:
        return f"[bold green]ok[/]: {keys}, equal key by key"
    return (
        f"[bold green]ok[/]: {keys}{looked}, equal key by key. With {n(verdict.keys)} of about "
        f"{n(sample.of_keys)} keys looked at and none wrong, fewer than "
        f"{100 * sample.proves(verdict.keys):.2g} % of all keys are wrong, with 95 % confidence"
    )
