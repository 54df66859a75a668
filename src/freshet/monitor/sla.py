"""What freshness can be promised: the feed's cadence, each stage's share, the floor. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import pairwise
from statistics import fmean
from typing import Any, Final

from freshet.monitor.freshness import Freshness, Spread, Timed, percentile, seconds_of
from freshet.monitor.trigger import MARGIN
from freshet.monitor.ways import STEPS, Stage, Way
from freshet.units import duration_of
from freshet.units import seconds_of as duration_s

MARGIN_OF_PROMISE: Final = 1.25
"""So many times what was found is promised: the next day is not like this one."""
_FEWEST: Final = {95: 20, 99: 100}
"""Of fewer files a percentile is one file's figure, and no promise."""
_WORTH_TELLING: Final = 0.25
"""A cause of less than this share of the time is not worth a change."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Rhythm:
    """How often a continuous run looks, by the settings."""

    trigger_s: float
    """Between two looks at the landing zone."""
    bronze_s: float
    """Between two looks at Bronze."""
    settle_s: float
    """For so long a file must be still; none where files cannot be seen half-written."""
    discovery: str


@dataclass(frozen=True)
class Feed:
    """The replication tool's cadence, as it was seen."""

    files: int
    gap: Spread | None
    """Between landings; None of fewer than two files."""
    bytes_p50: int
    bytes_p95: int
    events_per_file: float
    """The mean."""

    @classmethod
    def of(cls, ways: Sequence[Way], events_per_file: float) -> "Feed":
        """Of at least one file."""
        landed = sorted(way.landed_at for way in ways)
        gaps = [(after - before).total_seconds() for before, after in pairwise(landed)]
        sizes = sorted(way.bytes for way in ways)
        return cls(
            files=len(ways),
            gap=Spread.of(gaps),
            bytes_p50=int(percentile(sizes, 50)),
            bytes_p95=int(percentile(sizes, 95)),
            events_per_file=events_per_file,
        )


@dataclass(frozen=True)
class Work:
    """The index's batches, as the ledger has them."""

    batches: int
    events: int
    total: Spread | None
    embedding: float
    """The share of their time that cutting and embedding texts took."""

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Work":
        """Of the rows of batches that landed."""
        total = sum(row["total_s"] for row in rows)
        return cls(
            batches=len(rows),
            events=sum(row["rows_in"] for row in rows),
            total=Spread.of(row["total_s"] for row in rows),
            embedding=sum(row["embed_s"] for row in rows) / total if total else 0.0,
        )


@dataclass(frozen=True)
class Part:
    """What a file cannot do without on its way: between so many seconds."""

    what: str
    least_s: float
    most_s: float


@dataclass(frozen=True)
class Floor:
    """What no file can beat with these settings, and batches that take as long as they did."""

    parts: tuple[Part, ...]
    ingest_s: float
    index_s: float

    @classmethod
    def of(cls, rhythm: Rhythm, ingest_s: float, index_s: float) -> "Floor":
        """Of the rhythm, and of what batches of the two queries take themselves."""
        settle = Part("a file must be still (`landing.settle`)", rhythm.settle_s, rhythm.settle_s)
        parts = (
            Part("until the next look at the landing zone", 0.0, rhythm.trigger_s),
            Part("ingest reads it into Bronze (median, measured)", ingest_s, ingest_s),
            Part("until the next look at Bronze", 0.0, rhythm.bronze_s),
            Part("the index's batch (median, measured)", index_s, index_s),
        )
        return cls((settle, *parts) if rhythm.settle_s else parts, ingest_s, index_s)

    @property
    def least_s(self) -> float:
        """No file is quicker, unless its batches are."""
        return sum(part.least_s for part in self.parts)

    @property
    def most_s(self) -> float:
        """No file needs longer, as long as batches end within the trigger."""
        return sum(part.most_s for part in self.parts)


@dataclass(frozen=True)
class Promise:
    """So many percent of the files are searchable within this time after they landed."""

    percentile: int
    found_s: float
    within: str | None
    """None: there were too few files."""


@dataclass(frozen=True)
class Source:
    """Where figures come from."""

    what: str
    place: str
    extent: str


@dataclass(frozen=True)
class Contract:
    """What can be promised, and what it follows from."""

    feed: Feed
    batch: Spread
    """How long the index's batches took."""
    shares: Mapping[str, float]
    """Of the steps between landing and being found: of the mean, since percentiles do not add."""
    floor: Floor
    promises: tuple[Promise, ...]
    better: tuple[str, ...]
    """What would make it better, the most first."""


@dataclass(frozen=True)
class Record:
    """The decision record: the contract, and the evidence."""

    pipeline: str
    at: datetime
    freshness: Freshness
    rhythm: Rhythm
    work: Work
    sources: tuple[Source, ...]
    contract: Contract | None
    """None if no file was timed."""

    def as_dict(self) -> dict[str, Any]:
        """The form that `--json` prints."""
        told = asdict(self)
        if self.contract is not None:
            floor = self.contract.floor
            told["contract"]["floor"] |= {"least_s": floor.least_s, "most_s": floor.most_s}
        return told


def contract(
    timed: Timed, freshness: Freshness, rhythm: Rhythm, work: Work, share: int
) -> Contract | None:
    """What follows from what was timed; `share` is the percentile that people have agreed on.

    None if no file was timed.
    """
    live = timed.live
    if not live or work.total is None:
        return None
    ingest_s = freshness.stages[Stage.DISCOVERED_TO_BRONZE].p50_s
    floor = Floor.of(rhythm, ingest_s, work.total.p50_s)
    return Contract(
        feed=Feed.of(live, work.events / len(live)),
        batch=work.total,
        shares=_shares(live),
        floor=floor,
        promises=tuple(_promises(live, floor, share)),
        better=tuple(_better(freshness, rhythm, floor, work.embedding * work.total.p50_s)),
    )


def _shares(ways: Sequence[Way]) -> dict[str, float]:
    means = {str(stage): fmean(seconds_of(ways, stage)) for stage in STEPS}
    whole = sum(means.values())
    return {stage: mean / whole if whole else 0.0 for stage, mean in means.items()}


def _promises(ways: Sequence[Way], floor: Floor, share: int) -> Sequence[Promise]:
    ordered = sorted(seconds_of(ways, Stage.LANDED_TO_SEARCHABLE))
    found = {one: percentile(ordered, one) for one in sorted({share, 99})}
    return [
        Promise(
            percentile=one,
            found_s=seconds,
            within=duration_of(max(MARGIN_OF_PROMISE * seconds, floor.most_s))
            if len(ordered) >= _fewest(one)
            else None,
        )
        for one, seconds in found.items()
    ]


def _fewest(share: int) -> int:
    return max((count for one, count in _FEWEST.items() if share >= one), default=10)


def _better(
    freshness: Freshness, rhythm: Rhythm, floor: Floor, embedding_s: float
) -> Sequence[str]:
    """Causes by how many seconds of a typical file's way they are, with what to do about them."""
    stages, whole = freshness.stages, freshness.stages[Stage.LANDED_TO_SEARCHABLE].p50_s
    late_s = stages[Stage.LANDED_TO_DISCOVERED].p50_s - rhythm.settle_s - rhythm.trigger_s
    behind_s = stages[Stage.BRONZE_TO_SEARCHABLE].p50_s - rhythm.bronze_s - floor.index_s
    source = stages.get(Stage.CHANGED_TO_LANDED)
    shorter = duration_of(MARGIN * max(floor.ingest_s, floor.index_s))
    quicker = Floor.of(_with_trigger(rhythm, shorter), floor.ingest_s, floor.index_s)
    causes = [
        (late_s, _SELDOM.format(late_s)),
        (behind_s, _BEHIND.format(behind_s)),
        (floor.most_s - quicker.most_s, _TRIGGER.format(shorter, quicker.most_s, floor.most_s)),
        (embedding_s, _EMBEDDING.format(embedding_s)),
        (rhythm.settle_s, _SETTLE),
        (0.0 if source is None else source.p50_s, _SOURCE),
    ]
    telling = sorted((one for one in causes if one[0] > _WORTH_TELLING * whole), reverse=True)
    return [sentence for _, sentence in telling]


def _with_trigger(rhythm: Rhythm, trigger: str) -> Rhythm:
    trigger_s = duration_s(trigger)
    shortened = trigger_s / rhythm.trigger_s
    return replace(rhythm, trigger_s=trigger_s, bronze_s=rhythm.bronze_s * shortened)


_TRIGGER: Final = (
    '`pipeline.trigger = "{}"`: batches leave room for it, and the floor ends at {:.1f} s instead '
    "of {:.1f} s."
)
_EMBEDDING: Final = (
    "Embedding takes {:.1f} s of a batch: more cores, or a smaller model; `freshet profile` "
    "measures what fits."
)
_SELDOM: Final = (
    "Files lie {:.1f} s longer than settling and the trigger explain before they are "
    "discovered: nothing runs all the time, or batches of ingest outlast the trigger. Run "
    "`freshet run` without `--once`, or start it more often."
)
_BEHIND: Final = (
    "Events lie {:.1f} s longer in Bronze than a look and a batch explain: nothing runs all the "
    "time, or the index's batches are behind (`freshet status` tells whether the trigger is too "
    "short for them)."
)
_SETTLE: Final = (
    '`landing.settle = "0 seconds"`, if the tool writes files under another name and renames them: '
    "they then need not be waited for."
)
_SOURCE: Final = (
    "Most of the time passes before a file lands: let the replication tool write smaller files "
    "more often."
)
