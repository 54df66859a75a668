"""How settings that were derived from measurements are shown, and what was written of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from freshet.cli import output
from freshet.settings import override_of

if TYPE_CHECKING:
    from freshet.profiling.report import Kept
    from freshet.profiling.write import AnyAdvice

PlotOption = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Where the picture goes. Unset: in the home."),
]
WriteOption = Annotated[
    bool, typer.Option("--write", help="Write the settings that fit into the settings file.")
]


def show(advice: "Sequence[AnyAdvice]") -> None:
    """Each setting with its reason."""
    for one in advice:
        value = f"{one.old} → {one.new}" if one.is_change else f"{one.new} as it is"
        output.say(f"[bold]{one.name}[/]: {value}\n  {one.reason}")


def show_end(
    advice: "Sequence[AnyAdvice]",
    kept: "Kept",
    written: "Sequence[AnyAdvice] | None",
    config: Path,
    command: str,
) -> None:
    """Where the report lies, and what was written, or how it can be if that was not asked for."""
    output.say(f"report: {output.clipped(kept.report, 1_000)}")
    output.say(f"picture: {output.clipped(kept.plot, 1_000)}")
    if written is not None:
        _show_written(written, str(config))
    elif any(one.is_change for one in advice):
        output.say(f"`freshet {command} --write` writes these into the settings file")


def written(changes: "Sequence[AnyAdvice]") -> dict[str, Any]:
    """The form that `--json` prints."""
    return {"written": [one.name for one in changes], "hidden": _hidden(changes)}


def _show_written(changes: "Sequence[AnyAdvice]", file: str) -> None:
    if not changes:
        output.say("all settings fit already: nothing was written")
        return
    told = ", ".join(f"{one.name} {one.old} → {one.new}" for one in changes)
    output.say(f"wrote {output.clipped(file, 1_000)}: {told}")
    for name, variable in _hidden(changes).items():
        output.say(f"[bold yellow]{variable}[/] is set, and hides what was written of {name}")


def _hidden(changes: "Sequence[AnyAdvice]") -> dict[str, str]:
    """Settings whose written value an environment variable hides."""
    found = {one.name: override_of(one.path) for one in changes}
    return {name: variable for name, variable in found.items() if variable is not None}
