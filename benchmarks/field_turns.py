"""E1 and E2: batches of equal size, back to back, while tables grow.

The rivals take turns, so that what befalls the machine befalls all. Every turn starts the query
again from its checkpoint, in another order; its first batches are in no figure. E1 compacts nothing
(but where the optimizer runs beside a rival). In E2 a thread compacts the table with Lance's own
defaults after every K batches, while the stream goes on, and the next sample says so.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import lance
import numpy as np
from pyspark.sql import SparkSession

from field_rivals import RIVALS, Place, Rival
from field_samples import Sample, label
from field_sizes import Size
from field_stores import Requests, Store
from field_streams import Source, Turn
from freshet.errors import FreshetError
from freshet.stores.lance_tables import LanceTable

Tell = Callable[[str], None]


@dataclass
class Measured:
    """What an experiment gives: samples, and remarks about rivals that did not get to the end."""

    samples: list[Sample] = field(default_factory=list)
    stopped: dict[str, str] = field(default_factory=dict)
    requests: dict[str, Requests] = field(default_factory=dict)
    """Of each rival, if the store counts them."""


@dataclass
class Compacting:
    """Compacts a table after every so many batches, in a thread."""

    uri: str
    every: int
    failures: int = 0
    _is_done: bool = False

    def __post_init__(self) -> None:
        """One compaction at a time."""
        self._thread = ThreadPoolExecutor(1, "compacting")

    def tagged(self, sample: Sample) -> Sample:
        """The sample, with whether a compaction has ended since the one before; begins the next."""
        tagged = replace(sample, optimized_this_batch=self._is_done)
        self._is_done = False
        if sample.batch_id > 0 and sample.batch_id % self.every == 0:
            self._thread.submit(self._compact)
        return tagged

    def _compact(self) -> None:
        try:
            LanceTable.open(self.uri).compact()
        except FreshetError:
            self.failures += 1
            return
        self._is_done = True

    def end(self) -> None:
        """Waits for the last one."""
        self._thread.shutdown()


def warm_up(
    spark: SparkSession, store: Store, size: Size, rivals: Sequence[str], tell: Tell
) -> None:
    """A stream runs for long: lets the JVM compile what it will run, on tables that go again."""
    for name in rivals:
        tell(f"warming up: {name}")
        sample = Sample("warm-up", label("warm-up", name), 0, 0, 0, 0)
        source = Source(size.rows, True, size.partitions)
        place = Place(store.place(name))
        Turn(spark, RIVALS[name], place, source, sample, batches=size.warm_up).run()
    store.clear()


def without_compaction(
    spark: SparkSession, store: Store, size: Size, rivals: Sequence[str], tell: Tell
) -> Measured:
    """E1."""
    measured, source = Measured(), Source(size.rows, True, size.partitions)
    left = [RIVALS[name] for name in rivals]
    for round_ in range(size.rounds):
        for place_, rival in enumerate(_rotated(left, round_)):
            batches = size.batches_of(rival.name)
            tell(f"E1, round {round_ + 1} of {size.rounds}: {rival.name}, {batches} batches "
                 f"({place_ + 1} of {len(left)})")  # fmt: skip
            turn = Turn(
                spark,
                rival,
                Place(store.place(rival.name)),
                source,
                Sample("E1", label("no-optimize", rival.name, round_), 0, 0, 0, 0),
                batches=batches,
                seconds=size.seconds_of(rival.name, tuple(rivals)),
                looks_at_each=store.server is None,
            )
            before = store.asked()
            turn.run()
            told = measured.requests.setdefault(rival.name, Counter())
            told.update(store.asked() - before)
            measured.samples += turn.looked_at()
            if turn.is_out_of_time:
                written = 1 + max((s.batch_id for s in turn.samples), default=-1)
                measured.stopped[rival.name] = f"stopped after {written} batches: out of time"
        left = [rival for rival in left if rival.name not in measured.stopped]
    for name in rivals:
        _check(RIVALS[name], Place(store.place(name)), size.rows, measured.samples)
        store.clear(name)
    return measured


def _rotated(rivals: Sequence[Rival], by: int) -> list[Rival]:
    cut = by % max(len(rivals), 1)
    return [*rivals[cut:], *rivals[:cut]]


def with_compaction(
    spark: SparkSession, store: Store, size: Size, rivals: Sequence[str], tell: Tell
) -> Measured:
    """E2."""
    measured, source = Measured(), Source(size.rows, True, size.partitions)
    for every in size.cadences:
        for name in rivals:
            tell(f"E2, compaction after every {every} batches: {name}")
            place = Place(store.place(f"{name}-{every}"))
            compacting = Compacting(place.table, every)
            run = f"optimize-every-{every}"
            turn = Turn(
                spark,
                RIVALS[name],
                place,
                source,
                Sample("E2", label(run, name, 0), 0, 0, 0, 0),
                batches=size.cadence_batches_of(name),
                seconds=size.cadence_seconds_of(name, tuple(rivals)),
                on_sample=compacting.tagged,
            )
            samples = turn.run()
            compacting.end()
            measured.samples += samples
            if turn.is_out_of_time:
                measured.stopped[f"{name}, {run}"] = f"stopped after {len(samples)} batches"
            if compacting.failures:
                measured.stopped[f"{name}, {run}, compaction"] = f"{compacting.failures} failed"
            _check(RIVALS[name], place, size.rows, samples)
            store.clear(f"{name}-{every}")
    return measured


def _check(rival: Rival, place: Place, rows: int, samples: Sequence[Sample]) -> None:
    """A rival that lost or doubled rows would be fast for nothing."""
    if not rival.has_table:
        return
    seen = [sample for sample in samples if sample.rival == rival.name]
    ids = lance.dataset(place.table).to_table(columns=["id"]).column("id").to_numpy()
    batches, rest = divmod(len(ids), rows)
    # A native batch may have landed in the moment when its turn ended, before it was told of.
    most = len(seen) + (rival.write is None)
    assert rest == 0, f"{rival.name}: {len(ids)} rows are no whole batches"
    assert len(seen) <= batches <= most, f"{rival.name}: {batches} batches, {len(seen)} seen"
    assert len(np.unique(ids)) == len(ids), f"{rival.name}: rows landed twice"
