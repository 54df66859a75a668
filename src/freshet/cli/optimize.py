"""`freshet optimize`: keeps the index fast, once or again and again."""

from dataclasses import asdict
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import typer

from freshet.cli import output
from freshet.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, settings_of

if TYPE_CHECKING:
    from freshet.optimizer import Action, Done, Plan, RunReport

WatchOption = Annotated[
    bool, typer.Option("--watch", help="Go on, at the settings' cadence, until Ctrl-C.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say what is due and why, and do nothing.")
]


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(name="optimize")(optimize)


def optimize(
    config: ConfigOption = DEFAULT_CONFIG,
    watch: WatchOption = False,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Index new rows, fold small files and remove old versions, where that is due.

    Safe beside a run, which goes on as if it were not there.
    """
    from freshet.pipeline.optimizing import Optimizing  # noqa: PLC0415 - Lance loads slowly

    optimizing = Optimizing(settings_of(config))
    if dry_run:
        _show_plan(optimizing.optimizer().plan(), as_json=json)
        return
    if watch:
        try:
            optimizing.watch(Event(), lambda report: _show(report, as_json=json, is_quiet=True))
        except KeyboardInterrupt:
            output.say("stopped; whatever was under way is done by the next one")
        return
    with output.working("looking") as status:

        def tell(action: "Action", done: "Done | None") -> None:
            if status is not None:
                status.update(action.sentence)
            if done is not None and not json:
                output.say(_line(done))

        report = optimizing.run(tell)
    _show(report, as_json=json, is_quiet=False)
    if report.is_failed:
        raise typer.Exit(1)


def _show_plan(plan: "Plan", *, as_json: bool) -> None:
    if as_json:
        output.as_json(asdict(plan))
        return
    for action in plan.actions:
        rows = f", {output.number(action.rows)} rows" if action.rows else ""
        output.say(f"{action.sentence}{rows}")
    for refusal in plan.refusals:
        output.say(f"[bold yellow]not done:[/] {refusal.action.sentence}; {refusal.why}")
    if not plan.actions and not plan.refusals:
        output.say("nothing is due")


def _show(report: "RunReport", *, as_json: bool, is_quiet: bool) -> None:
    if as_json:
        output.as_json(asdict(report))
        return
    if report.busy is not None:
        output.say(f"nothing done: {report.busy} is at it")
        return
    if is_quiet:
        for done in report.done:
            output.say(_line(done))
    for refusal in report.refusals:
        output.say(f"[bold yellow]not done:[/] {refusal.action.sentence}; {refusal.why}")
    for action in report.waiting:
        output.say(f"[bold yellow]tried again later:[/] {action.sentence}")
    if not is_quiet and not (report.done or report.refusals or report.waiting):
        output.say("nothing is due")


def _line(done: Any) -> str:
    rows = f", {output.number(done.rows)} rows" if done.rows else ""
    line = f"{done.action} {done.target}{rows} in {output.seconds(done.seconds)}: {done.reasons}"
    if done.status == "done":
        return line
    colour = "yellow" if done.status == "lost" else "red"
    return f"[bold {colour}]{done.status}[/] {line}; {output.clipped(done.error or '', 300)}"
