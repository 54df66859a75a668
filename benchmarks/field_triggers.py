"""E4: triggers at a fixed rate, and the highest rate that a trigger takes in.

A trigger is held if p99 of its batches is within it and all rows that come are taken. The highest
rate is looked for with batches of equal size at the real trigger: larger ones until a batch takes
longer than the trigger, and then between the two.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from field_figures import Rate
from field_rivals import DIMENSION, FRESHET, NOOP, RIVALS, Place
from field_samples import Sample, label
from field_sizes import Size
from field_stores import Store
from field_streams import Source, Turn
from field_turns import Measured, Tell

NEAR = 1.25
"""A rate that is held and one that is not, so near to each other, are near enough."""
MOST_PROBES = 7
FIRST_RATE, FIRST_VECTOR_RATE = 200_000, 4_000
PROBE_BATCHES = 3
"""Of which the first, with the start of everything, does not count."""
SMALL_ROWS, VECTOR_ROWS = "id, value", f"id, value, vector of {DIMENSION} floats"


def run_of(trigger_s: int) -> str:
    """As #399 names it."""
    return f"trigger={_interval(trigger_s)}"


def _interval(trigger_s: int) -> str:
    return f"{trigger_s} second" + ("" if trigger_s == 1 else "s")


def triggers(
    spark: SparkSession, store: Store, size: Size, rivals: Sequence[str], tell: Tell
) -> Measured:
    """E4."""
    measured = Measured()
    source = Source(size.rate, False, size.partitions)
    for trigger_s in size.triggers_s:
        for name in rivals:
            window_s = size.window_of(name, trigger_s)
            tell(f"E4, {size.rate:,} rows/s every {_interval(trigger_s)}: {name}, {window_s:.0f} s")
            place = f"{name}-{trigger_s}"
            sample = Sample("E4", label(run_of(trigger_s), name, 0), 0, 0, 0, 0)
            turn = Turn(
                spark,
                RIVALS[name],
                Place(store.place(place)),
                source,
                sample,
                seconds=window_s,
                trigger=_interval(trigger_s),
            )
            measured.samples += turn.run()
            store.clear(place)
    return measured


# --- the highest rate ----------------------------------------------------------------------------


@dataclass
class Search:
    """Looks for the highest rate that is held; knows how long batches took. Pure but for `probe`.

    `probe` is given a rate and tells the longest batch, in ms.
    """

    probe: Callable[[float], float]
    trigger_ms: float
    held: float = 0.0
    held_ms: float = float("nan")
    too_much: float = float("nan")

    def run(self, rate: float) -> "Search":
        """Begins with a rate; twice as much at most, or half as much, with each step."""
        for _ in range(MOST_PROBES):
            took_ms = self.probe(rate)
            if took_ms < self.trigger_ms:
                self.held, self.held_ms = rate, took_ms
            else:
                self.too_much = rate
            if self.held and self.too_much / self.held <= NEAR:
                break
            rate = self._next(rate, took_ms)
        return self

    def _next(self, rate: float, took_ms: float) -> float:
        if self.held and self.too_much > 0:
            return float((self.held * self.too_much) ** 0.5)
        guess = rate * self.trigger_ms / took_ms
        return max(2 * rate, min(guess, 8 * rate)) if self.held else max(guess, rate / 8) * 0.9


@dataclass(frozen=True)
class Prober:
    """Runs a rival at a rate, with a table of its own that is gone afterwards."""

    spark: SparkSession
    store: Store
    partitions: int | None
    tell: Tell
    rival: str = FRESHET
    trigger_s: int = 1
    dimension: int = 0

    def __call__(self, rate: float) -> float:
        """The longest batch, in ms, after the first."""
        rows = "vectors" if self.dimension else "rows"
        every = _interval(self.trigger_s)
        self.tell(f"E4, highest rate every {every}: {self.rival}, {rate:,.0f} {rows}/s")
        place = f"probe-{self.rival}-{self.trigger_s}-{self.dimension}-{rate:.0f}"
        turn = Turn(
            self.spark,
            RIVALS[self.rival],
            Place(self.store.place(place), self.dimension),
            Source(round(rate * self.trigger_s), True, self.partitions, self.dimension),
            Sample("rate", "", 0, 0, 0, 0),
            batches=PROBE_BATCHES,
            trigger=every,
        )
        try:
            taken = [sample.batch_duration_ms for sample in turn.run()]
        finally:
            self.store.clear(place)
        return float(max(taken[1:]))


def highest_rates(prober: Prober, size: Size, rivals: Sequence[str], ends: float) -> list[Rate]:
    """For `freshet`, and for Spark's floor with the shortest trigger; begins none after the end."""
    asked = [
        *((FRESHET, trigger, 0) for trigger in size.rate_triggers_s),
        *((NOOP, trigger, 0) for trigger in size.rate_triggers_s[:1]),
        *((FRESHET, trigger, DIMENSION) for trigger in size.vector_triggers_s),
    ]
    found: list[Rate] = []
    for name, trigger_s, dimension in sorted(asked, key=lambda one: one[1]):
        if name not in rivals or time.monotonic() > ends:
            continue
        rows = VECTOR_ROWS if dimension else SMALL_ROWS
        known = [rate.held_rows_per_s for rate in found if (rate.rival, rate.rows) == (name, rows)]
        first = max(known, default=0) or (FIRST_VECTOR_RATE if dimension else FIRST_RATE)
        probe = replace(prober, rival=name, trigger_s=trigger_s, dimension=dimension)
        search = Search(probe, 1_000.0 * trigger_s).run(first)
        found.append(
            Rate(name, rows, float(trigger_s), search.held, search.held_ms, search.too_much)
        )
    return found
