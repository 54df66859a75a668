"""`freshet status`: where the pipeline stands, how the index fared, and how fresh it is."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from freshet.cli import freshness, output
from freshet.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, settings_of
from freshet.errors import SettingsError
from freshet.units import seconds_of

if TYPE_CHECKING:
    from freshet.monitor import IndexStatus, OptimizerStatus, ProbeStatus, SinkStatus, Status
    from freshet.pipeline import Pipeline

PlotOption = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        dir_okay=False,
        help="Draw how index, optimizer, batches and freshness fared into a PNG, too.",
    ),
]
SinceOption = Annotated[
    str,
    typer.Option("--since", metavar="TIME", help="How far back the picture goes; 30 days at most."),
]
CheckOption = Annotated[
    bool, typer.Option("--check", help="Exit code 1 if a target of the section slo is missed.")
]


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(name="status")(status)


def status(
    config: ConfigOption = DEFAULT_CONFIG,
    plot: PlotOption = None,
    since: SinceOption = "1 day",
    check: CheckOption = False,
    json: JsonOption = False,
) -> None:
    """Show files, events, the index, the optimizer, the last batch and how fresh the index is."""
    from freshet.pipeline import Pipeline  # noqa: PLC0415 - Spark and Lance load slowly

    pipeline = Pipeline(settings_of(config))
    picture = None if plot is None else _draw(pipeline, plot, since)
    found = pipeline.status()
    if json:
        output.as_json(found.as_dict() | ({} if picture is None else {"plot": picture}))
    else:
        output.facts(_facts(found))
        freshness.show(found.freshness)
        if picture is not None:
            output.say(f"picture: {output.clipped(picture, 1_000)}")
    if check and not freshness.check(found.freshness):
        raise typer.Exit(1)


def _draw(pipeline: "Pipeline", file: Path, since: str) -> str:
    from freshet.stores import small_files  # noqa: PLC0415 - Arrow loads slowly

    target = file.absolute()
    if not target.parent.is_dir():
        raise SettingsError(f"there is no folder {target.parent}", where="--plot")
    small_files.replace(str(target), pipeline.monitoring.picture(seconds_of(since)))
    return str(target)


def _facts(found: "Status") -> dict[str, str]:
    n = output.number
    return (
        {
            "pipeline": found.pipeline,
            "files": f"{n(found.files.seen)} seen, {n(found.files.waiting)} waiting "
            f"({output.size(found.files.waiting_bytes)})",
            "bronze": f"{n(found.bronze.rows)} events, {n(found.bronze.errors)} in quarantine; "
            f"understood as {', '.join(found.bronze.envelopes) or 'nothing yet'}",
            "schema": f"version {found.schema.version}, {n(found.schema.columns)} columns, "
            f"{n(found.schema.pending)} changes to accept, {n(found.schema.conflicts)} values "
            "that did not fit",
        }
        | _index(found.index)
        | ({} if found.probe is None else {"search": _probe(found.probe)})
        | _optimizer(found.optimizer)
        | {"last batch": _last_batch(found.last_batch)}
        | freshness.facts(found.freshness)
        | {f"sink {one.name}": _sink(one) for one in found.sinks}
        | ({"held back": _held(found.index.held)} if found.index.held else {})
        | ({"refused": _refused(found.index.refused)} if found.index.refused else {})
        | ({} if found.rebuild is None else {"rebuild": _rebuild(found.rebuild)})
        | ({} if found.short_trigger is None else {"trigger": found.short_trigger.sentence})
    )


def _index(found: "IndexStatus") -> dict[str, str]:
    n = output.number
    parts = f" of {n(found.index_parts)} parts" if found.index_parts else ""
    rows = (
        f"{n(found.keys)} records in {n(found.rows)} rows, version {found.version}, "
        f"{n(found.fragments)} fragments, {n(found.unindexed_rows)} rows not in a vector index"
    )
    if not found.version:
        return {"index": rows}
    room = (
        f"{output.size(found.bytes)}, {n(found.versions)} versions kept, {n(found.deleted_rows)} "
        f"deleted rows, manifest of {output.size(found.manifest_bytes)}"
    )
    return {"index": f"{rows}{parts}", "room": room}


def _probe(found: "ProbeStatus") -> str:
    return (
        f"{found.p50_ms:.1f} ms p50, {found.p95_ms:.1f} ms p95, {found.p99_ms:.1f} ms p99, "
        f"recall@10 {found.recall:.3f} (probe of {_utc(found.at)})"
    )


def _optimizer(found: "OptimizerStatus") -> dict[str, str]:
    """Lines that would say nothing are left out."""
    facts: dict[str, str] = {}
    s = output.seconds
    if found.last is not None:
        facts["optimizer"] = f"{_did(found.last)} in {s(found.last.seconds)}, {_utc(found.last.at)}"
    if found.looked_at is not None:
        facts["last look"] = _utc(found.looked_at)
    if found.times:
        facts["last day"] = "\n".join(
            f"{action}: {output.number(one.count)} times, {s(one.median_s)} (median), "
            f"{s(one.max_s)} at most"
            for action, one in found.times.items()
        )
    if found.lost:
        facts["lost races"] = f"{output.number(found.lost)}, {s(found.wasted_s)} of work in vain"
    if found.failure is not None:
        why = output.clipped(found.failure.error or "", 300)
        facts["failed"] = f"{_did(found.failure)}, {_utc(found.failure.at)}: {why}"
    return facts


def _did(action: Any) -> str:
    return f"{action.action} {output.clipped(action.target, 100)}"


def _utc(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _last_batch(row: object) -> str:
    if not isinstance(row, dict):
        return "none yet"
    line = f"{row['batch_id']} {row['status']} at {_utc(row['finished_at'])}"
    if row["error"]:
        return f"{line}: {output.clipped(row['error'], 200)}"
    return (
        f"{line}: {output.number(row['rows_in'])} events in {output.seconds(row['total_s'])}, "
        f"{output.number(row['rows_embedded'])} embedded, "
        f"{output.number(row['rows_reused'])} reused"
    )


def _sink(found: "SinkStatus") -> str:
    row = found.last_batch
    line = f"{found.kind}, {found.mode}"
    if row is None:
        return f"{line}; nothing on record"
    line = f"{line}; batch {row['batch_id']} {row['status']} at {_utc(row['finished_at'])}"
    if row["error"]:
        return f"{line}: {output.clipped(row['error'], 200)}"
    n = output.number
    return (
        f"{line}: {n(row['rows_in'])} changes in {output.seconds(row['total_s'])}, "
        f"{n(row['rows_upserted'])} written, {n(row['rows_deleted'])} deleted"
    )


def _refused(rows: int) -> str:
    return (
        f"{output.number(rows)} pieces of text are in the index without a vector: "
        "`freshet quarantine list` says why"
    )


def _held(records: int) -> str:
    return f"{output.number(records)} records wait for a value that the tool left out"


def _rebuild(found: Any) -> str:
    state = "under way" if found.is_active else "interrupted: `freshet rebuild` goes on"
    read = f"{output.number(found.events)} of {output.number(found.of_events)} events read"
    return f"{read}, {state}"
