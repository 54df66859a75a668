"""Measures searches and actions on a copy of the index.

The shapes that searches are timed on are made first, each a version of the copy. So every one has
its turn before the first has its second, and what else the machine does meanwhile favours none.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

import numpy as np

from freshet.calibration.asking import Questions
from freshet.calibration.bench import Bench
from freshet.calibration.evidence import Latency, Shape, Took
from freshet.optimizer import Kind
from freshet.tiers import FAN_IN

LEAST_ROWS: Final = 2_000
"""A table with fewer tells too little."""
_SIZES: Final = (500, 1_000, 5_000, 20_000)
"""Rows that are left unindexed, and then indexed; not more than half of the table."""
_PARTS: Final = (1, 4, 8)
_PART_ROWS: Final = (500, 5_000)
_FRAGMENTS: Final = 16
_MOST_FRAGMENTS: Final = 64
_MOST_PARTS: Final = 16
_TURNS: Final = 5
_TRIES: Final = 3

OnProgress = Callable[[str], None]


@dataclass(frozen=True)
class Measured:
    """What was found."""

    latencies: tuple[Latency, ...]
    actions: tuple[Took, ...]


@dataclass(frozen=True)
class Measuring:
    """Tries everything on one copy; each figure takes about `seconds`."""

    bench: Bench
    questions: Questions
    seconds: float
    parts: int
    """As it is set; so many are tried, too."""
    fragments: int
    """As it is set; so many are tried."""
    on_progress: OnProgress

    def run(self) -> Measured:
        """Builds the indexes of the copy, and measures."""
        built = self._built()
        base = self.bench.version
        shapes = self._shapes(base)
        latencies = tuple(self._latencies(shapes))
        actions = [*self._extends(shapes), *self._merges(base), *self._folds(base)]
        return Measured(latencies, (built, *actions, self._cleaned()))

    # --- shapes ----------------------------------------------------------------------------------

    @property
    def _sizes(self) -> list[int]:
        return [size for size in _SIZES if 2 * size <= self.bench.rows]

    @property
    def _part_rows(self) -> tuple[int, int]:
        """Of small and of large parts; eight small ones are half of the table at most."""
        small, large = _PART_ROWS
        return min(small, self.bench.rows // 16), min(large, self.bench.rows // 8)

    @property
    def _pieces(self) -> int:
        return min(max(self.fragments, _FRAGMENTS), _MOST_FRAGMENTS)

    def _shapes(self, base: int) -> Mapping[Shape, int]:
        """The version of each."""
        self.on_progress("changing rows of the copy")
        shapes = {Shape(): base}
        for size in self._sizes:
            shapes[Shape(size, fragments=1)] = self._changed(base, size)
        cut = self._sizes[1]
        shapes[Shape(cut, fragments=self._pieces)] = self._changed(base, cut, self._pieces)
        wanted = {*_PARTS, min(self.parts, _MOST_PARTS)}
        for parts in self._growing(base, max(wanted), self._part_rows[0]):
            if parts in wanted:
                shapes[Shape(parts=parts)] = self.bench.version
        return shapes

    def _changed(self, base: int, rows: int, batches: int = 1) -> int:
        self.bench.restore(base)
        return self.bench.change(rows, batches)

    def _growing(self, base: int, parts: int, rows: int) -> Iterator[int]:
        """Adds parts of so many rows, one after the other, and tells how many there are."""
        self.bench.restore(base)
        for count in range(2, parts + 1):
            self.on_progress(f"giving the indexes {count} parts")
            self.bench.change(rows)
            self.bench.extend()
            yield count

    # --- searches --------------------------------------------------------------------------------

    def _latencies(self, shapes: Mapping[Shape, int]) -> Iterator[Latency]:
        times: dict[Shape, list[list[float]]] = {shape: [] for shape in shapes}
        for turn in range(_TURNS):
            for shape, version in shapes.items():
                self.on_progress(f"searching with {_told(shape)} (turn {turn + 1} of {_TURNS})")
                if not turn:
                    self.questions.warm_up(version)
                times[shape].append(self.questions.times_ms(version, self.seconds / _TURNS))
        return (_latency(shape, turns) for shape, turns in times.items())

    # --- actions ---------------------------------------------------------------------------------

    def _built(self) -> Took:
        self.on_progress(f"indexing {self.bench.rows:,} rows of the copy")
        started = time.perf_counter()
        self.bench.build()
        return Took(Kind.BUILD, self.bench.rows, 1, time.perf_counter() - started)

    def _extends(self, shapes: Mapping[Shape, int]) -> Iterator[Took]:
        for shape, version in shapes.items():
            if shape.fragments == 1:
                rows = shape.unindexed_rows
                yield self._took(Kind.EXTEND, rows, 1, version, self.bench.extend)

    def _merges(self, base: int) -> Iterator[Took]:
        for rows in self._part_rows:
            *_, parts = self._growing(base, 1 + FAN_IN, rows)
            version = self.bench.version
            yield self._took(
                Kind.MERGE, FAN_IN * rows, parts - 1, version, lambda: self.bench.merge(FAN_IN)
            )

    def _folds(self, base: int) -> Iterator[Took]:
        for rows in (self._sizes[0], self._sizes[-1]):
            version = self._changed(base, rows, self._pieces)
            yield self._took(
                Kind.COMPACT, rows, self._pieces, version, lambda: self.bench.fold(base)
            )

    def _took(
        self, kind: Kind, rows: int, pieces: int, version: int, act: Callable[[], object]
    ) -> Took:
        """The median of a few tries, each on the same version; of one if that takes long."""
        self.on_progress(f"timing {kind} of {rows:,} rows")
        times = list[float]()
        while not times or (len(times) < _TRIES and sum(times) < self.seconds):
            self.bench.restore(version)
            started = time.perf_counter()
            act()
            times.append(time.perf_counter() - started)
        return Took(kind, rows, pieces, median(times))

    def _cleaned(self) -> Took:
        """Comes last: it takes the way back."""
        self.on_progress("removing versions")
        started = time.perf_counter()
        versions = self.bench.clean()
        return Took(Kind.CLEAN, 0, versions, time.perf_counter() - started)


def _latency(shape: Shape, turns: Sequence[Sequence[float]]) -> Latency:
    p50, p95, p99 = (
        [float(np.percentile(times, share)) for times in turns] for share in (50, 95, 99)
    )
    swing = (max(p95) - min(p95)) / median(p95)
    return Latency(shape, median(p50), median(p95), median(p99), sum(map(len, turns)), swing)


def _told(shape: Shape) -> str:
    if not shape.unindexed_rows:
        return f"{shape.parts} parts" if shape.parts > 1 else "everything indexed"
    cut = f" in {shape.fragments} fragments" if shape.fragments > 1 else ""
    return f"{shape.unindexed_rows:,} rows not indexed{cut}"
