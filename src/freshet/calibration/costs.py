"""What rows, parts and fragments cost, as lines through what was measured. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log
from statistics import median
from typing import Final, Self

from freshet.calibration.evidence import Evidence
from freshet.optimizer import Kind
from freshet.tiers import FAN_IN

PAUSE: Final = 1.5
"""The pause between two runs is so many times as long as a run, at least."""


@dataclass(frozen=True)
class Line:
    """So much in any case, and so much for each."""

    fixed: float
    each: float

    @classmethod
    def of(cls, points: Sequence[tuple[float, float]]) -> Self:
        """The line nearest to some points, which neither falls nor begins below zero."""
        count = len(points)
        mean_x, mean_y = (sum(figures) / count for figures in zip(*points, strict=True))
        spread = sum((x - mean_x) ** 2 for x, _ in points)
        slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
        if slope <= 0:
            return cls(mean_y, 0.0)
        if mean_y < slope * mean_x:
            return cls(0.0, sum(x * y for x, y in points) / sum(x * x for x, _ in points))
        return cls(mean_y - slope * mean_x, slope)

    def at(self, count: float) -> float:
        """What so many cost."""
        return self.fixed + self.each * count

    def within(self, cost: float) -> float:
        """How many can be had for that; endless if they cost nothing."""
        left = cost - self.fixed
        if left < 0:
            return 0.0
        return left / self.each if self.each else inf


@dataclass(frozen=True)
class Costs:
    """What searches and runs of the optimizer cost."""

    indexed_ms: float
    """p95 with everything indexed, in one part."""
    scan: Line
    """p95 by unindexed rows of one fragment; a few cost more than none, being scanned beside."""
    fragment_ms: float
    """What each further fragment of them adds."""
    rows: Line
    """p95 by unindexed rows as they come, a fragment with each batch."""
    part_ms: float
    """What each further part of the index adds."""
    run: Line
    """Seconds of a run by the rows that it indexes, merges and compaction with their share."""

    @classmethod
    def of(cls, evidence: Evidence) -> Self:
        """The lines through what was measured."""
        # One p95 swings far more than one median, so all of them tell how far p95 lies above it.
        tail = median(one.p95_ms / one.p50_ms for one in evidence.latencies)
        found = {one.shape: tail * one.p50_ms for one in evidence.latencies}
        by_parts = {shape.parts: p95 for shape, p95 in found.items() if not shape.unindexed_rows}
        scanned = {shape: p95 for shape, p95 in found.items() if shape.unindexed_rows}
        by_rows = [(s.unindexed_rows, p95) for s, p95 in scanned.items() if s.fragments == 1]
        cut = next(shape for shape in scanned if shape.fragments > 1)
        by_fragments = [
            (s.fragments, p95)
            for s, p95 in scanned.items()
            if s.unindexed_rows == cut.unindexed_rows
        ]
        scan, fragment_ms = Line.of(by_rows), Line.of(by_fragments).each
        few_ms = max(scan.fixed, by_parts[1])
        return cls(
            indexed_ms=by_parts[1],
            scan=Line(few_ms, scan.each),
            fragment_ms=fragment_ms,
            rows=Line(few_ms, scan.each + fragment_ms / evidence.growth.rows_per_batch),
            part_ms=Line.of(list(by_parts.items())).each,
            run=_run(evidence),
        )

    def p95_ms(self, rows: float, parts: int) -> float:
        """Of searches with so many unindexed rows and parts of the index."""
        return self.rows.at(rows) + (parts - 1) * self.part_ms

    def rows_within(self, p95_ms: float, parts: int) -> float:
        """The most unindexed rows that keep p95 within that."""
        return self.rows.within(p95_ms - (parts - 1) * self.part_ms)

    def shortest_pause_s(self, rows_per_hour: float) -> float:
        """So long that a run over the rows that come meanwhile fits; endless if none is."""
        left = 1 - PAUSE * self.run.each * rows_per_hour / 3_600
        return PAUSE * self.run.fixed / left if left > 0 else inf

    def period_s(self, pause_s: float, rows_per_hour: float) -> float:
        """From the end of a run to the end of the next one, which indexes what came meanwhile."""
        return pause_s + self.run.at(rows_per_hour * pause_s / 3_600)

    def pause_within(self, period_s: float, rows_per_hour: float) -> float:
        """The pause that makes a period so long; 0 or less if a run alone takes longer."""
        return (period_s - self.run.fixed) / (1 + self.run.each * rows_per_hour / 3_600)

    def rows_per_hour_within(self, pause_s: float) -> float:
        """The growth with which runs keep up that have so long a pause between them."""
        return self.run.within(pause_s / PAUSE) * 3_600 / pause_s


def _run(evidence: Evidence) -> Line:
    """A row is indexed once, and read again each time that what it lies in has grown fourfold."""
    extend, merge, compact = (
        Line.of(evidence.times(kind)) for kind in (Kind.EXTEND, Kind.MERGE, Kind.COMPACT)
    )
    least = min(rows for rows, _ in evidence.times(Kind.EXTEND))
    again = max(1.0, log(evidence.rows / least, FAN_IN))
    cleaned_s = sum(seconds for _, seconds in evidence.times(Kind.CLEAN))
    return Line(
        extend.fixed + (merge.fixed + compact.fixed) / FAN_IN + cleaned_s,
        extend.each + again * (merge.each + compact.each),
    )
