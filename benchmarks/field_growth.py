"""E1 as tables, with what is asked of it and who is faster."""

import math
from collections.abc import Iterable, Sequence

from field_cells import Table, count, fine, ms, times
from field_figures import HUNDRED, Growth, Spread
from field_rivals import FRESHET, OPTIMIZED, PULL_399, RIVALS, UPDATE
from field_samples import REFERENCE, Sample, by_rival, counted, reference

MOST_RATIO = 1.3
"""The last hundred batches beside the second hundred, with the optimizer on: as is asked."""


def growths(samples: Sequence[Sample]) -> dict[str, Growth]:
    """E1 of every rival, and of #399's own file."""
    found = {name: Growth.of(name, own) for name, own in by_rival(samples).items()}
    return found | {REFERENCE: Growth.of(REFERENCE, reference("E1"))}


def growth_tables(samples: Sequence[Sample], stopped: dict[str, str]) -> list[Table]:
    """E1: how long batches take, and what they grow by."""
    found = growths(samples)
    windows = {growth.window for name, growth in found.items() if name != REFERENCE}
    each = " or ".join(map(str, sorted(windows, reverse=True)))
    notes = (
        f"A window is of {each} batches (of 100 in the reference).",
        *(f"{name}: {why}." for name, why in stopped.items()),
        *_growth_verdicts(found, by_rival(samples)),
    )
    columns = ("rival", "batches", "p50", "p90", "p99", "first window p50 / p99",
               "second window", "last window", "last / second")  # fmt: skip
    title = "E1: ms of a batch, back to back, nothing is compacted"
    taken = Table(title, columns, tuple(map(_time_row, found.values())), notes)
    columns = ("rival", "ms more per 1,000 fragments", "per 1,000 batches", "fragments",
               "version", "manifest bytes")  # fmt: skip
    grown = Table("E1: what it grows by", columns, tuple(map(_growth_row, found.values())))
    return [taken, grown]


def _time_row(growth: Growth) -> tuple[str, ...]:
    whole, parts = growth.whole, (growth.first, growth.second, growth.last)
    return (
        growth.rival,
        count(growth.batches),
        *(ms(value) for value in (whole.p50, whole.p90, whole.p99)),
        *(f"{ms(part.p50)} / {ms(part.p99)}" for part in parts),
        f"{times(growth.p50_ratio)} / {times(growth.p99_ratio)}",
    )


def _growth_row(growth: Growth) -> tuple[str, ...]:
    return (
        growth.rival,
        fine(growth.ms_per_1000_fragments),
        fine(growth.ms_per_1000_batches),
        count(growth.fragments),
        count(growth.versions),
        count(growth.manifest_bytes),
    )


def _growth_verdicts(found: dict[str, Growth], given: dict[str, list[Sample]]) -> Iterable[str]:
    kept = found.get(OPTIMIZED)
    if kept is not None and kept.window == HUNDRED:
        is_met = max(kept.p50_ratio, kept.p99_ratio) <= MOST_RATIO
        yield (
            f"With the optimizer on, the last {kept.window} batches of {kept.batches:,} take "
            f"{times(kept.p50_ratio)} (p50) and {times(kept.p99_ratio)} (p99) of the second "
            f"{kept.window} (asked: at most {MOST_RATIO}): {'met' if is_met else 'NOT met'}."
        )
    for name in (FRESHET, UPDATE):
        if name in given:
            yield from _faster(name, given)
    ours = found.get(FRESHET)
    if ours is not None and not math.isnan(ours.ms_per_1000_fragments):
        yield _slopes(ours, found.get(PULL_399), found[REFERENCE])


def _faster(name: str, given: dict[str, list[Sample]]) -> Iterable[str]:
    """Who is ahead of us, among those that do the same: over the batches that both wrote."""
    for other, rival in RIVALS.items():
        is_alike = rival.has_table and rival.is_keyed == RIVALS[name].is_keyed
        if other not in given or other.startswith(FRESHET) or not is_alike:
            continue
        batches = 1 + min(given[name][-1].batch_id, given[other][-1].batch_id)
        ours, theirs = (_p50(given[one], batches) for one in (name, other))
        told = "is faster" if theirs < ours else "is not faster"
        yield (
            f"Over their first {batches:,} batches, `{other}` {told} than `{name}`: p50 "
            f"{ms(theirs)} and {ms(ours)} ms."
        )


def _p50(samples: Sequence[Sample], batches: int) -> float:
    return Spread.of([one for one in counted(samples) if one.batch_id < batches]).p50


def _slopes(ours: Growth, theirs: Growth | None, published: Growth) -> str:
    told = [
        f"`{growth.rival}` {fine(growth.ms_per_1000_fragments)} ms"
        for growth in (ours, theirs)
        if growth is not None
    ]
    return (
        f"Without it, 1,000 fragments more cost a batch of {' and one of '.join(told)}; in #399's "
        f"own file {fine(published.ms_per_1000_fragments)} ms."
    )
