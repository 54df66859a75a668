"""Settings that follow from what was measured, each with its reason. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Final, Generic, TypeVar

from freshet.monitor.trigger import MARGIN
from freshet.profiling.evidence import Evidence, Rate
from freshet.settings import Settings
from freshet.units import duration_of, round_down, seconds_of

_ALIKE: Final = 0.97
"""A rate of so much of the best one is as good: smaller batches take less memory."""
_LEAST_ROWS: Final = 8
_CHARACTERS_A_TASK: Final = 256_000_000
"""A task holds its share of a batch, so this is what it may take of memory, about."""
_TRIGGERS_UNTIL_FRESH: Final = 2 + 1 / MARGIN
"""Until a change can be found: ingest's next look, the index's next look, and the batch."""

Value = TypeVar("Value", int, str)


@dataclass(frozen=True)
class Advice(Generic[Value]):
    """One setting: what it is, what it should be, and why."""

    path: tuple[str, ...]
    old: Value
    new: Value
    reason: str

    @property
    def name(self) -> str:
        """The setting as people name it."""
        return ".".join(self.path)

    @property
    def is_change(self) -> bool:
        """Whether there is anything to set."""
        return self.old != self.new

    def as_dict(self) -> dict[str, Any]:
        """The form that `--json` prints."""
        return {"setting": self.name, "old": self.old, "new": self.new, "reason": self.reason}


@dataclass(frozen=True)
class Cost:
    """How long a batch takes: so much for each new record, and so much in any case."""

    record_s: float
    fixed_s: float

    def batch_s(self, records: float) -> float:
        """What a batch of so many new records takes."""
        return records * self.record_s + self.fixed_s

    def records_within(self, seconds: float) -> float:
        """How many new records a batch can have that ends in time."""
        return max(0.0, seconds - self.fixed_s) / self.record_s


@dataclass(frozen=True)
class Derived:
    """What fits the data and the machine."""

    cost: Cost
    batch_tokens: Advice[int]
    max_rows_per_batch: Advice[int]
    trigger: Advice[str]
    max_files_per_trigger: Advice[int]
    partitions: Advice[str]

    @property
    def advice(self) -> tuple[Advice[int] | Advice[str], ...]:
        """All of it, in the order in which one follows from the other."""
        return (
            self.batch_tokens,
            self.max_rows_per_batch,
            self.trigger,
            self.max_files_per_trigger,
            self.partitions,
        )

    def as_dict(self) -> dict[str, Any]:
        """The form that `--json` prints."""
        rows = self.max_rows_per_batch.new
        return {
            "record_s": round(self.cost.record_s, 6),
            "embed_s": round(rows * self.cost.record_s, 3),
            "batch_s": round(self.cost.batch_s(rows), 3),
            "settings": [one.as_dict() for one in self.advice],
        }


def derive(evidence: Evidence, settings: Settings, freshness: str | None = None) -> Derived:
    """The settings for this evidence; with a `freshness`, so that changes are found within it.

    Without one, batches are to fit the trigger as it is set. Every record counts as new: what keeps
    its vectors only makes batches shorter.
    """
    rate = best_rate(evidence.rates)
    cost = Cost(evidence.lengths.texts_per_record / rate.all_cores, evidence.fixed.seconds)
    target = _target(settings, freshness)
    rows = _rows(cost, settings, target.new)
    trigger = _trigger(cost, rows.new, target)
    return Derived(
        cost=cost,
        batch_tokens=_tokens(evidence.rates, rate, settings),
        max_rows_per_batch=rows,
        trigger=trigger,
        max_files_per_trigger=_files(evidence, settings, rows.new),
        partitions=_partitions(evidence, rows.new),
    )


def best_rate(rates: Sequence[Rate]) -> Rate:
    """The one with the fewest tokens of those that are about as fast as the fastest."""
    fastest = max(rate.all_cores for rate in rates)
    good = (rate for rate in rates if rate.all_cores >= _ALIKE * fastest)
    return min(good, key=lambda rate: rate.batch_tokens)


def _tokens(rates: Sequence[Rate], best: Rate, settings: Settings) -> Advice[int]:
    fastest = max(rates, key=lambda rate: rate.all_cores)
    why = (
        "the best of those measured"
        if fastest == best
        else f"within 3 % of the best ({fastest.batch_tokens}: {fastest.all_cores:,.0f})"
    )
    reason = f"{best.all_cores:,.0f} texts/s on all cores, {why}"
    old = settings.embedding.batch_tokens
    return Advice(("embedding", "batch_tokens"), old, best.batch_tokens, reason)


def _target(settings: Settings, freshness: str | None) -> Advice[str]:
    """The trigger that batches should fit."""
    old = settings.pipeline.trigger
    path = ("pipeline", "trigger")
    if freshness is None:
        return Advice(path, old, old, f"{old} as it is set leaves room for that")
    most = max(1, int(seconds_of(freshness) / _TRIGGERS_UNTIL_FRESH))
    new = f"{most} second" if most == 1 else f"{most} seconds"
    reason = f"two triggers and a batch are within the freshness of {freshness}"
    return Advice(path, old, new, reason)


def _rows(cost: Cost, settings: Settings, trigger: str) -> Advice[int]:
    """As it is set if such a batch ends in time, else what does, but no tiny batches.

    A batch embeds for at least as long as it takes in any case, or most of the time would be lost.
    """
    old, room_s = settings.pipeline.max_rows_per_batch, seconds_of(trigger) / MARGIN
    path, room = ("pipeline", "max_rows_per_batch"), f"within {room_s:.1f} s ({trigger} / {MARGIN})"
    reason = f"a batch of {old:,} new records takes {cost.batch_s(old):.1f} s"
    if cost.batch_s(old) <= room_s:
        return Advice(path, old, old, f"{reason}, {room}")
    wanted = max(cost.records_within(room_s), cost.fixed_s / cost.record_s)
    new = min(old, max(_LEAST_ROWS, round_down(wanted)))
    fits = (
        room
        if cost.batch_s(new) <= room_s
        else f"not {room}, but smaller ones would embed for less than half of their time"
    )
    takes = f"one of {new:,} takes {cost.batch_s(new):.1f} s"
    return Advice(path, old, new, f"{reason}; {takes}, {fits}")


def _trigger(cost: Cost, rows: int, target: Advice[str]) -> Advice[str]:
    needed_s = MARGIN * cost.batch_s(rows)
    takes = f"{MARGIN} times the {cost.batch_s(rows):.1f} s of a full batch is {needed_s:.1f} s"
    if needed_s <= seconds_of(target.new):
        return replace(target, reason=f"{takes}; {target.reason}")
    reason = f"{takes}, more than {target.new}: rounded up"
    return replace(target, new=duration_of(needed_s), reason=reason)


def _files(evidence: Evidence, settings: Settings, rows: int) -> Advice[int]:
    return Advice(
        ("landing", "max_files_per_trigger"),
        settings.landing.max_files_per_trigger,
        max(1, round_down(rows / evidence.records_per_file)),
        f"the index takes {rows:,} records a trigger, and a file holds "
        f"{evidence.records_per_file:,.1f} on average",
    )


def _partitions(evidence: Evidence, rows: int) -> Advice[str]:
    """One a core, since a batch's texts are dealt out evenly; more if a share would be large."""
    characters = rows / evidence.cores * evidence.lengths.characters_per_record
    rounds = max(1, ceil(characters / _CHARACTERS_A_TASK))
    records = rows / evidence.cores / rounds
    share = f"{records:,.0f} records with {characters / rounds:,.0f} characters"
    reason = f"{rounds} for each of {evidence.cores} cores, {share} each in a full batch"
    path = ("spark", "conf", "spark.default.parallelism")
    return Advice(path, str(evidence.partitions), str(evidence.cores * rounds), reason)
