"""E2, E3 and E4 as tables."""

from collections.abc import Mapping, Sequence

from field_cells import Table, count, fine, ms, times
from field_figures import Held, Looks, Rate, Spread, looks_of
from field_rivals import FRESHET, PULL_399
from field_samples import REFERENCE, Sample, by_rival, counted, reference
from field_stores import KINDS

# --- E1 on S3 ------------------------------------------------------------------------------------


def request_tables(
    samples: Sequence[Sample], requests: Mapping[str, Mapping[str, int]]
) -> list[Table]:
    """What a batch asks of the store, by kind; none where that was not counted."""
    batches = {name: len(own) for name, own in by_rival(samples).items()}
    rows = [
        (name, *(fine(asked.get(kind, 0) / batches[name]) for kind in KINDS),
         fine(sum(asked.values()) / batches[name]))
        for name, asked in requests.items()
        if batches.get(name)
    ]  # fmt: skip
    title = "E1: requests of a batch, those of the query's start and end dealt out to all"
    return [Table(title, ("rival", *KINDS, "all"), tuple(rows))] if rows else []


# --- E2 ------------------------------------------------------------------------------------------


def cadence_table(
    samples: Sequence[Sample], without: Sequence[Sample], stopped: dict[str, str]
) -> Table:
    """E2; beside it E1's first batches, as many, since that is what compaction is compared with."""
    rows = []
    for run in dict.fromkeys(sample.run for sample in [*samples, *reference("E2")]):
        for given in (samples, reference("E2")):
            own = [sample for sample in given if sample.run == run]
            rows += [_cadence_row(run, name, one) for name, one in by_rival(own).items()]
    batches = max((sample.batch_id for sample in samples), default=0) + 1
    shown = {sample.rival for sample in samples} | {REFERENCE}
    for given in (without, reference("E1")):
        first = [sample for sample in given if sample.batch_id < batches and sample.rival in shown]
        rows += [_cadence_row("not compacted (E1)", *one) for one in by_rival(first).items()]
    columns = (
        "ms of a batch", "rival", "batches", "p50", "p90", "p99", "most", "compactions",
        "most fragments", "manifest bytes, most",
    )  # fmt: skip
    notes = tuple(f"{name}: {why}." for name, why in stopped.items())
    return Table("E2: compacted after every K batches", columns, tuple(rows), notes)


def _cadence_row(run: str, rival: str, samples: Sequence[Sample]) -> tuple[str, ...]:
    spread = Spread.of(counted(samples))
    return (
        run,
        rival,
        count(len(samples)),
        *(ms(value) for value in (spread.p50, spread.p90, spread.p99, spread.most)),
        count(sum(sample.optimized_this_batch for sample in samples)),
        count(max(sample.fragment_count for sample in samples)),
        count(max(sample.manifest_bytes for sample in samples)),
    )


# --- E3 ------------------------------------------------------------------------------------------


def recovery_table(samples: Sequence[Sample]) -> Table:
    """E3."""
    found = looks_of(samples) + looks_of(reference("E3"))
    versions = sorted({look.versions for look in found})
    by_place: dict[tuple[str, str], dict[int, Looks]] = {}
    for look in found:
        by_place.setdefault((look.rival, look.run), {})[look.versions] = look
    rows = [
        (f"{rival}: {run}", *(_look_cell(looks.get(version)) for version in versions))
        for (rival, run), looks in by_place.items()
    ]
    columns = ("ms (versions opened)", *(f"{version:,} versions" for version in versions))
    ours = by_place.get((FRESHET, "recover"), {})
    notes = ()
    if len(ours) > 1:
        least, most = ours[min(ours)], ours[max(ours)]
        theirs = by_place.get((PULL_399, "lookback=100"), {})
        compacted = by_place.get((FRESHET, "recover-compacted"), {})
        notes = (
            f"From {least.versions:,} to {most.versions:,} versions, the recovery of `freshet` "
            f"takes {times(_grown(ours))} as long, {times(_grown(compacted))} where the fragments "
            f"were compacted, and #399's look through 100 versions {times(_grown(theirs))}.",
        )
    return Table("E3: mean ms to recover after a crash", columns, tuple(rows), notes)


def _grown(looks: dict[int, Looks]) -> float:
    """The most versions beside the least; nan if that took no time at all."""
    if not looks or not looks[min(looks)].mean_ms:
        return float("nan")
    return looks[max(looks)].mean_ms / looks[min(looks)].mean_ms


def _look_cell(look: Looks | None) -> str:
    return "-" if look is None else f"{fine(look.mean_ms)} ({look.visited:,})"


# --- E4 ------------------------------------------------------------------------------------------


def trigger_table(samples: Sequence[Sample], rate: int) -> Table:
    """E4."""
    rows = []
    for run in dict.fromkeys(sample.run for sample in [*samples, *reference("E4")]):
        for given in (samples, reference("E4")):
            own = [sample for sample in given if sample.run == run]
            rows += [
                _trigger_row(run, name, Held.of(one, rate)) for name, one in by_rival(own).items()
            ]
    columns = ("", "rival", "batches", "p50 ms", "p90 ms", "p99 ms", "rows/s", "held")
    return Table(f"E4: triggers at {rate:,} rows/s", columns, tuple(rows))


def _trigger_row(run: str, rival: str, held: Held) -> tuple[str, ...]:
    spread = held.spread
    return (
        run,
        rival,
        count(spread.batches),
        *(ms(value) for value in (spread.p50, spread.p90, spread.p99)),
        ms(held.rows_per_s),
        "yes" if held.is_held else "no",
    )


def rate_table(rates: Sequence[Rate]) -> Table:
    """The highest rates."""
    rows = [
        (
            rate.rival,
            rate.rows,
            f"{rate.trigger_s:g} s",
            ms(rate.held_rows_per_s),
            ms(rate.batch_ms),
            ms(rate.too_much_rows_per_s),
        )
        for rate in rates
    ]
    columns = ("rival", "a row", "trigger", "held, rows/s", "longest batch, ms", "too much, rows/s")
    return Table("E4: the highest rate that a trigger takes in", columns, tuple(rows))
