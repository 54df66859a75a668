"""What follows from samples: percentiles, growth, slopes, and whether what is asked holds. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from field_samples import Sample, counted

HUNDRED = 100
LEAST_FOR_SLOPE = 100
"""Fewer batches would tell more of the noise than of what they write to."""
LEAST_RATE_SHARE = 0.95
"""A trigger that takes in less of the rate than this falls behind."""


@dataclass(frozen=True)
class Spread:
    """Milliseconds of some batches."""

    batches: int
    p50: float
    p90: float
    p99: float
    most: float

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> "Spread":
        """Of all that are given; nothing is left out here."""
        values = [sample.batch_duration_ms for sample in samples]
        if not values:
            return cls(0, *[float("nan")] * 4)
        p50, p90, p99 = (float(value) for value in np.percentile(values, (50, 90, 99)))
        return cls(len(values), p50, p90, p99, float(max(values)))


@dataclass(frozen=True)
class Growth:
    """E1 of one rival: how dear batches are at the start and at the end."""

    rival: str
    batches: int
    """All that were written, those without figures too."""
    window: int
    """How many batches the parts below are of: a hundred, or a quarter of a short run."""
    whole: Spread
    first: Spread
    second: Spread
    """The hundred after it, where nothing is cold any more."""
    last: Spread
    ms_per_1000_fragments: float
    ms_per_1000_batches: float
    fragments: int
    versions: int
    manifest_bytes: int

    @classmethod
    def of(cls, rival: str, samples: Sequence[Sample]) -> "Growth":
        """Batches are told apart by their numbers, so turns do not matter."""
        kept, end = counted(samples), samples[-1]
        window = HUNDRED if len(samples) >= 3 * HUNDRED else max(len(samples) // 4, 1)
        first_id = next((sample.batch_id for sample in samples if sample.input_rows), 0)

        def part(start: int, stop: int) -> Spread:
            return Spread.of([s for s in kept if start <= s.batch_id - first_id < stop])

        length = end.batch_id - first_id + 1
        return cls(
            rival=rival,
            batches=sum(sample.input_rows > 0 for sample in samples),
            window=window,
            whole=Spread.of(kept),
            first=part(0, window),
            second=part(window, 2 * window),
            last=part(length - window, length),
            ms_per_1000_fragments=1_000 * _fragment_slope(kept),
            ms_per_1000_batches=1_000 * slope(kept, "batch_id")[0],
            fragments=end.fragment_count,
            versions=end.lance_version,
            manifest_bytes=end.manifest_bytes,
        )

    @property
    def p50_ratio(self) -> float:
        """The last hundred beside the second."""
        return self.last.p50 / self.second.p50

    @property
    def p99_ratio(self) -> float:
        """The last hundred beside the second."""
        return self.last.p99 / self.second.p99


def slope(samples: Sequence[Sample], over: str) -> tuple[float, float]:
    """Milliseconds a unit more, and at none, by least squares; nan if few batches tell."""
    places = np.array([getattr(sample, over) for sample in samples], float)
    if len(places) < LEAST_FOR_SLOPE or places.min() < 0 or np.ptp(places) == 0:
        return float("nan"), float("nan")
    values = np.array([sample.batch_duration_ms for sample in samples], float)
    found, at_none = np.polyfit(places, values, 1)
    return float(found), float(at_none)


def _fragment_slope(samples: Sequence[Sample]) -> float:
    """Nan where fragments are folded: what grows then is not their number."""
    numbers = [sample.fragment_count for sample in samples]
    is_folded = any(after < before for before, after in pairwise(numbers))
    return float("nan") if is_folded else slope(samples, "fragment_count")[0]


@dataclass(frozen=True)
class Held:
    """E4 of one rival: whether a trigger was kept."""

    trigger_s: float
    spread: Spread
    rows_per_s: float
    is_held: bool

    @classmethod
    def of(cls, samples: Sequence[Sample], rate: float) -> "Held":
        """p99 within the trigger, and all rows that came were taken: no backlog grows.

        Rows are counted from the first batch with rows on, without that one, whose rows came
        before. The `rate` source tells whole seconds only.
        """
        trigger_s = trigger_of(samples[0].run)
        spread = Spread.of(counted(samples))
        filled = [sample for sample in samples if sample.input_rows > 0]
        seconds = (filled[-1].batch_ts_ms - filled[0].batch_ts_ms) / 1_000 if filled else 0.0
        rows = sum(sample.input_rows for sample in filled[1:])
        rows_per_s = rows / seconds if seconds else float("nan")
        is_held = spread.p99 < 1_000 * trigger_s and rows_per_s >= LEAST_RATE_SHARE * rate
        return cls(trigger_s, spread, rows_per_s, bool(is_held))


def trigger_of(run: str) -> float:
    """`trigger=15 seconds` in seconds."""
    return float(run.removeprefix("trigger=").split()[0])


@dataclass(frozen=True)
class Looks:
    """E3: what it took to find out, after a crash, whether a batch has landed; some trials."""

    rival: str
    run: str
    """`recover`, or `lookback=…`."""
    versions: int
    """Of the table, when the first trial began."""
    visited: int
    mean_ms: float
    p50_ms: float
    trials: int


def looks_of(samples: Sequence[Sample]) -> list[Looks]:
    """Trials taken together: those of a rival, of what it did, and of how large the table was.

    A crash of ours leaves a version more, so trials that follow each other belong together.
    """
    groups: dict[tuple[str, str, int], list[Sample]] = {}
    start = 0
    for sample in samples:
        parts = dict(part.partition("=")[::2] for part in sample.run_label.split(";"))
        if parts["trial"] == "0":
            start = sample.lance_version
        run = sample.run_label.partition(";trial=")[0]
        groups.setdefault((sample.rival, run, start), []).append(sample)
    return [_looks(*key, trials) for key, trials in groups.items()]


def _looks(rival: str, run: str, versions: int, trials: Sequence[Sample]) -> Looks:
    taken = [sample.batch_duration_ms for sample in trials]
    visited = trials[0].batch_id
    return Looks(
        rival, run, versions, visited, float(np.mean(taken)), float(np.median(taken)), len(trials)
    )


@dataclass(frozen=True)
class Rate:
    """The most rows a second that a trigger takes in, as far as it was looked for."""

    rival: str
    rows: str
    """What a row is."""
    trigger_s: float
    held_rows_per_s: float
    """Every batch of this rate ended within the trigger; 0 if none was found."""
    batch_ms: float
    """The longest of them."""
    too_much_rows_per_s: float
    """A batch of this rate did not; nan if none was found."""

    def as_row(self) -> dict[str, Any]:
        """A row of the CSV file."""
        return vars(self)
