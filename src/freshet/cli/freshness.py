"""How freshness is shown: percentiles of each stage, and targets."""

from typing import TYPE_CHECKING

from freshet.cli import output

if TYPE_CHECKING:
    from freshet.monitor import Freshness


def facts(found: "Freshness | None") -> dict[str, str]:
    """What was timed, what waits, and whether targets are met."""
    if found is None:
        return {}
    targets = "\n".join(verdict.sentence for verdict in found.verdicts)
    return {"freshness": _timed(found)} | ({"targets": targets} if targets else {})


def show(found: "Freshness | None") -> None:
    """The stages, if any is known."""
    if found is None or not found.stages:
        return
    from freshet.monitor.ways import Stage  # noqa: PLC0415 - Arrow loads slowly

    s = output.seconds
    rows = [
        [
            stage.way,
            output.number(one.count),
            *(s(figure) for figure in (one.p50_s, one.p95_s, one.p99_s, one.max_s)),
        ]
        for stage in Stage
        if (one := found.stages.get(stage)) is not None
    ]
    sides = dict.fromkeys(("files", "p50", "p95", "p99", "max"), "right")
    output.say("")
    output.table(None, {"of a change file": "left"} | sides, rows)


def check(found: "Freshness | None") -> bool:
    """Says which targets are missed, and whether all are met."""
    judged = () if found is None else found.verdicts
    if not judged:
        output.complain("no target is set: see [slo] in docs/settings.md")
    missed = [verdict for verdict in judged if verdict.is_missed]
    for verdict in missed:
        output.complain(verdict.sentence)
    return not missed


def _timed(found: "Freshness") -> str:
    n = output.number
    files = f"{n(found.files)} files became searchable" if found.files else "no file was timed"
    told = [f"{files} since {found.since:%Y-%m-%d %H:%M:%S} UTC"]
    if found.backfill:
        told.append(f"{n(found.backfill)} more were there before the first run")
    if found.waiting.files:
        told.append(f"{n(found.waiting.files)} wait{_for(found)}")
    return "; ".join(told)


def _for(found: "Freshness") -> str:
    since = found.waiting.landed_at
    if since is None:
        return ""
    waited_s = max(0.0, (found.until - since).total_seconds())
    return f", the oldest for {output.seconds(waited_s)}"
