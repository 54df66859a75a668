"""`freshet verify`: the proof that the index equals the source."""

from typing import Any

import typer

from freshet.cli import output
from freshet.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, settings_of

_MEANINGS = {
    "missing": "in Gold, not in the index",
    "orphan": "in the index, deleted or never in Gold",
    "stale": "another version or other attributes than Gold's",
    "wrong_text": "other text than Gold's, or a piece missing",
    "duplicate": "a piece that stands twice",
}


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(name="verify")(verify)


def verify(config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """Recompute Gold from Bronze and compare it with the index, key by key.

    Exits with 0 only if they are equal.
    """
    from freshet.pipeline import Pipeline  # noqa: PLC0415 - Spark and Lance load slowly

    with output.working("comparing the index with Bronze"):
        verdict = Pipeline(settings_of(config)).verify()
    if json:
        output.as_json(verdict.as_dict())
    else:
        show(verdict)
    if not verdict.ok:
        raise typer.Exit(1)


def show(verdict: Any) -> None:
    """The verdict for people."""
    found = verdict.as_dict()
    rows = [
        [name, output.number(found[name]), meaning, ", ".join(verdict.examples.get(name, ()))]
        for name, meaning in _MEANINGS.items()
    ]
    output.table(
        None, {"keys": "left", "": "right", "meaning": "left", "for example": "left"}, rows
    )
    n = output.number
    keys = f"{n(verdict.gold)} records in Gold, {n(verdict.index)} in the index"
    if verdict.ok:
        output.say(f"[bold green]ok[/]: {keys}, equal key by key")
        return
    output.say(f"[bold red]not equal[/]: {keys}. If files wait, `freshet run --once` first")
