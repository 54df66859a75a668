"""The decision record of freshness as Markdown: every figure is one of the record's. Pure."""

from collections.abc import Iterator

from freshet.monitor.sla import MARGIN_OF_PROMISE, Contract, Promise, Record
from freshet.monitor.ways import STEPS, Stage

_BOUND = {
    Stage.CHANGED_TO_LANDED: "the replication tool",
    Stage.LANDED_TO_DISCOVERED: "`landing.settle`, `pipeline.trigger`, `landing.discovery`",
    Stage.DISCOVERED_TO_BRONZE: "the batch of ingest: files and bytes per trigger",
    Stage.BRONZE_TO_SEARCHABLE: "the looks at Bronze, the index's batches before, and its own",
    Stage.SEARCHABLE_TO_INDEXED: "`optimizer.cadence`, `optimizer.unindexed_rows`",
    Stage.LANDED_TO_SEARCHABLE: "all between",
    Stage.CHANGED_TO_SEARCHABLE: "all of it",
}


def markdown(told: Record) -> str:
    """The whole record."""
    parts = [f"# Freshness of `{told.pipeline}`: what can be promised", *_context(told)]
    if (made := told.contract) is not None:
        parts += [*_feed(made), *_stages(told, made), *_floor(made), *_promises(told, made)]
        parts += _better(made)
    return "\n\n".join([*parts, *_evidence(told)]) + "\n"


def _context(told: Record) -> Iterator[str]:
    found = told.freshness
    yield "## Context"
    yield (
        f"Written {told.at:%Y-%m-%d %H:%M:%S} UTC by `freshet sla`, from what became searchable "
        f"since {found.since:%Y-%m-%d %H:%M:%S} UTC: {found.files:,} change files, "
        f"{told.work.events:,} events in {told.work.batches:,} batches. Left out are "
        f"files that were there before the first run ({found.backfill:,}); {found.waiting.files:,} "
        "wait."
    )
    if told.contract is None:
        yield (
            "**Nothing can be promised: no change file was timed.** Let the pipeline run beside "
            "its feed for some time (`slo.window` says how far back this record looks)."
        )


def _feed(made: Contract) -> Iterator[str]:
    yield "## The feed's cadence"
    feed, gap = made.feed, made.feed.gap
    yield (
        "One file landed: its cadence cannot be told."
        if gap is None
        else f"A file every {_s(gap.p50_s)} (median; 95 % of the gaps are at most {_s(gap.p95_s)}, "
        f"the longest was {_s(gap.max_s)})."
    )
    yield (
        f"{feed.bytes_p50:,} bytes a file (95 %: {feed.bytes_p95:,}), {feed.events_per_file:,.1f} "
        "events a file on average. A change waits at the source until its file is written: no "
        "setting here can make it fresher than this cadence."
    )


def _stages(told: Record, made: Contract) -> Iterator[str]:
    yield "## Where the time goes"
    rows = [
        "| stage | files | p50 | p95 | p99 | share | bounded by |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for stage in Stage:
        one = told.freshness.stages.get(stage)
        if one is None:
            continue
        share = made.shares.get(stage)
        cells = (
            stage.way,
            f"{one.count:,}",
            *(_s(figure) for figure in (one.p50_s, one.p95_s, one.p99_s)),
            "" if share is None else f"{100 * share:.0f} %",
            _BOUND[stage],
        )
        rows.append(f"| {' | '.join(cells)} |")
    yield "\n".join(rows)
    steps = ", ".join(stage.way for stage in STEPS)
    total = made.batch
    yield (
        f"Shares are of the mean of landed → searchable, over its steps ({steps}). The index's "
        f"batches took {_s(total.p50_s)} (p50), {_s(total.p95_s)} (p95) each, "
        f"{100 * told.work.embedding:.0f} % of it embedding. Discovery is by "
        f"{told.rhythm.discovery}, every {_s(told.rhythm.trigger_s)}; Bronze is looked at every "
        f"{_s(told.rhythm.bronze_s)}."
    )


def _floor(made: Contract) -> Iterator[str]:
    floor = made.floor
    yield "## The floor"
    rows = ["| what a file cannot do without | at least | at most |", "|---|--:|--:|"]
    rows += [f"| {part.what} | {_s(part.least_s)} | {_s(part.most_s)} |" for part in floor.parts]
    rows.append(f"| **together** | **{_s(floor.least_s)}** | **{_s(floor.most_s)}** |")
    yield "\n".join(rows)
    yield (
        f"With these settings, and batches that take as long as they did, a file needs "
        f"{_s(floor.least_s)} at least, and {_s(floor.most_s)} at most if it never waits for "
        "another. What is above that is waiting for batches before it."
    )


def _promises(told: Record, made: Contract) -> Iterator[str]:
    yield "## The contract"
    yield "\n".join(f"- {_promised(one)}" for one in made.promises)
    if told.freshness.verdicts:
        yield "Against `[slo]`:\n\n" + "\n".join(
            f"- {one.sentence}" for one in told.freshness.verdicts
        )
    else:
        yield "`[slo]` sets no target; `freshet sla --write` writes the first line above into it."


def _promised(one: Promise) -> str:
    found = f"p{one.percentile} was {_s(one.found_s)}"
    if one.within is None:
        return f"{one.percentile} %: no promise, of so few files ({found})."
    return (
        f"**{one.percentile} % of the change files are searchable within {one.within} of their "
        f"landing** ({found}; {MARGIN_OF_PROMISE} times that, and not below the floor)."
    )


def _better(made: Contract) -> Iterator[str]:
    yield "## What would make it better"
    nothing = "No single cause stands out: the time is the batches' own."
    yield "\n".join(f"- {sentence}" for sentence in made.better) or nothing


def _evidence(told: Record) -> Iterator[str]:
    yield "## Evidence"
    rows = ["| figures | from | extent |", "|---|---|---|"]
    rows += [f"| {one.what} | `{one.place}` | {one.extent} |" for one in told.sources]
    yield "\n".join(rows)


def _s(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
