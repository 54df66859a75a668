"""What a calibration has measured: plain figures, of which the settings are derived."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from freshet.optimizer import Kind


@dataclass(frozen=True)
class Growth:
    """How many rows come, by the newest batches of the ledger or as told."""

    rows_per_hour: float
    """New and changed rows of the index: each has to be indexed."""
    batches_per_hour: float
    """Each leaves a small fragment."""
    batches: int = 0
    """On record; 0: it was told."""
    span_s: float = 0.0
    """From the start of the first of them to the end of the last."""
    steps: tuple[tuple[float, float], ...] = ()
    """Hours since the first one, and the rows until then."""

    @property
    def rows_per_batch(self) -> float:
        """They come at once."""
        return self.rows_per_hour / self.batches_per_hour

    def rows_in(self, seconds: float) -> float:
        """Rows that may come in some time: at least a batch."""
        return max(self.rows_per_batch, self.rows_per_hour * seconds / 3_600)

    def seconds_for(self, rows: float) -> float:
        """How long it takes until so many have come."""
        return 3_600 * rows / self.rows_per_hour


@dataclass(frozen=True)
class Shape:
    """What makes a search slower: rows that no index covers, parts of it, and new fragments."""

    unindexed_rows: int = 0
    parts: int = 1
    fragments: int = 0
    """Those of the unindexed rows."""


@dataclass(frozen=True)
class Latency:
    """How long searches take of one shape; medians of several turns."""

    shape: Shape
    p50_ms: float
    p95_ms: float
    p99_ms: float
    questions: int
    """How many were timed, in all turns."""
    swing: float = 0.0
    """How far p95 of the turns lie apart, as a share of their median."""


@dataclass(frozen=True)
class Took:
    """How long one action took, for all indexes together; the median of up to three tries."""

    action: Kind
    rows: int
    pieces: int
    """Parts that were merged, fragments folded, or versions removed."""
    seconds: float


@dataclass(frozen=True)
class Evidence:
    """All figures of one calibration."""

    rows: int
    """Of the index."""
    copied: int
    """Of the copy, on which everything was measured."""
    dimension: int
    indexes: tuple[str, ...]
    asked: str
    """How questions were asked."""
    growth: Growth
    latencies: tuple[Latency, ...]
    actions: tuple[Took, ...]
    notes: tuple[str, ...] = field(default=())
    """What a reader of the figures should know."""

    def times(self, action: Kind) -> list[tuple[float, float]]:
        """Rows and seconds of one kind of action."""
        return [(took.rows, took.seconds) for took in self.actions if took.action is action]

    @property
    def most_unindexed(self) -> int:
        """No more unindexed rows were tried."""
        return max(one.shape.unindexed_rows for one in self.latencies)

    @property
    def most_parts(self) -> int:
        """No more parts were tried."""
        return max(one.shape.parts for one in self.latencies)

    def as_dict(self) -> dict[str, Any]:
        """The form that `--json` prints."""
        growth = asdict(self.growth)
        growth.pop("steps")
        return {
            "rows": self.rows,
            "copied": self.copied,
            "dimension": self.dimension,
            "indexes": list(self.indexes),
            "asked": self.asked,
            "growth": _rounded(growth),
            "latencies": [
                asdict(one.shape) | _rounded(dict(_figures(one))) for one in self.latencies
            ],
            "actions": [_rounded(asdict(took)) for took in self.actions],
            "notes": list(self.notes),
        }


def _figures(latency: Latency) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in asdict(latency).items() if name != "shape")


def _rounded(figures: dict[str, Any]) -> dict[str, Any]:
    return {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in figures.items()
    }
