"""`freshet sla`: the decision record of freshness, written from what was measured."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from freshet.cli import advice, freshness, output
from freshet.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, settings_of
from freshet.errors import SettingsError

if TYPE_CHECKING:
    from freshet.monitor.sla import Record
    from freshet.profiling.write import AnyAdvice
    from freshet.settings import Settings

OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FILE", dir_okay=False, help="Where the record goes. Unset: in the home."
    ),
]
WriteOption = Annotated[
    bool,
    typer.Option("--write", help="Write the promise into the section slo of the settings file."),
]


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(name="sla")(sla)


def sla(
    config: ConfigOption = DEFAULT_CONFIG,
    out: OutOption = None,
    write: WriteOption = False,
    json: JsonOption = False,
) -> None:
    """Write down how fresh the index is kept: cadence, stages, floor, and what can be promised.

    Changes none of the pipeline's tables.
    """
    from freshet import profiling  # noqa: PLC0415 - Spark and Lance load slowly
    from freshet.pipeline import Pipeline  # noqa: PLC0415 - Spark and Lance load slowly
    from freshet.pipeline.sla import decision_record  # noqa: PLC0415 - Spark loads slowly

    settings = settings_of(config)
    pipeline = Pipeline(settings)
    found = decision_record(settings, pipeline.timing)
    kept = _keep(found, pipeline.home.report("sla", found.at), out)
    changes = profiling.write(config, _advice(found, settings)) if write else []
    if json:
        output.as_json(found.as_dict() | {"record": kept} | advice.written(changes))
        return
    _show(found)
    output.say(f"record: {output.clipped(kept, 1_000)}")
    for change in changes:
        output.say(f"wrote {change.name} = {change.new}")


def _keep(found: "Record", place: str, out: Path | None) -> str:
    from freshet.monitor.sla_text import markdown  # noqa: PLC0415 - Arrow loads slowly
    from freshet.stores import small_files  # noqa: PLC0415 - Arrow loads slowly

    target = f"{place}.md" if out is None else str(out.absolute())
    if out is not None and not out.absolute().parent.is_dir():
        raise SettingsError(f"there is no folder {out.absolute().parent}", where="--out")
    small_files.replace(target, markdown(found).encode())
    return target


def _advice(found: "Record", settings: "Settings") -> "list[AnyAdvice]":
    from freshet.profiling.derive import Advice  # noqa: PLC0415 - Spark loads slowly

    promises = () if found.contract is None else found.contract.promises
    agreed = [one for one in promises if one.percentile == settings.slo.percentile and one.within]
    if not agreed:
        return []
    [promise] = agreed
    old = settings.slo.landed_to_searchable or "unset"
    reason = f"p{promise.percentile} was {output.seconds(promise.found_s)}"
    return [Advice(("slo", "landed_to_searchable"), old, str(promise.within), reason)]


def _show(found: "Record") -> None:
    facts: dict[str, Any] = {"pipeline": found.pipeline} | freshness.facts(found.freshness)
    made = found.contract
    if made is not None and made.feed.gap is not None:
        facts["feed"] = f"a file every {output.seconds(made.feed.gap.p50_s)} (median)"
    if made is not None:
        low, high = made.floor.least_s, made.floor.most_s
        facts["floor"] = f"{output.seconds(low)} to {output.seconds(high)} after landing"
    for promise in () if made is None else made.promises:
        within = promise.within and f"searchable within {promise.within}"
        facts[f"{promise.percentile} %"] = within or "no promise, of so few files"
    output.facts(facts)
    freshness.show(found.freshness)
    for sentence in () if made is None else made.better:
        output.say(f"- {output.clipped(sentence, 1_000)}")
