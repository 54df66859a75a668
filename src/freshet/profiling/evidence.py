"""What a profile has measured: plain figures, of which the settings are derived."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import ceil
from typing import Any, Self


@dataclass(frozen=True)
class Spread:
    """How some figures are spread."""

    p50: int
    p90: int
    p99: int
    max: int

    @classmethod
    def of(cls, figures: Sequence[int]) -> Self:
        """Of at least one figure; each is one that is there, and not a mean of two."""
        ordered = sorted(figures)
        places = (ceil(share * len(ordered)) - 1 for share in (0.5, 0.9, 0.99, 1))
        return cls(*(ordered[place] for place in places))


@dataclass(frozen=True)
class FileFacts:
    """One file of the sample."""

    path: str
    bytes: int
    records: int
    """At least so many, if it was not read to its end."""
    is_whole: bool = True


@dataclass(frozen=True)
class Lengths:
    """How long the sampled records are, one figure a record that has text."""

    characters: tuple[int, ...]
    tokens: tuple[int, ...]
    texts: tuple[int, ...]
    """Texts that the model runs on: pieces, and one for each further vector."""

    @property
    def characters_per_record(self) -> float:
        """The mean."""
        return sum(self.characters) / len(self.characters)

    @property
    def texts_per_record(self) -> float:
        """What a new record costs, in texts."""
        return sum(self.texts) / len(self.texts)


@dataclass(frozen=True)
class Rate:
    """Texts a second at one number of `batch_tokens`: medians of several measurements."""

    batch_tokens: int
    one_worker: float
    all_cores: float
    swing: float = 0.0
    """How far the measurements on all cores lie apart, as a share of their median."""


@dataclass(frozen=True)
class FixedTime:
    """What a batch takes besides embedding."""

    seconds: float
    batches: int
    """Batches of the ledger that this is the median of; 0: it is assumed."""


@dataclass(frozen=True)
class Evidence:
    """All figures of one profile."""

    source: str
    """Where the sample is from: `bronze` or `landing`."""
    events: int
    """Records that were looked at, deletes and those without text among them."""
    files: tuple[FileFacts, ...]
    lengths: Lengths
    rates: tuple[Rate, ...]
    cores: int
    """Tasks that Spark runs at once."""
    partitions: int
    """Tasks that Spark cuts a batch into, as it is set."""
    fixed: FixedTime
    model_id: str
    notes: tuple[str, ...] = field(default=())
    """What a reader of the figures should know."""

    @property
    def records(self) -> int:
        """Sampled records that have text."""
        return len(self.lengths.texts)

    @property
    def records_per_file(self) -> float:
        """The mean: it tells how many files hold a number of records."""
        return sum(file.records for file in self.files) / len(self.files)

    def as_dict(self) -> dict[str, Any]:
        """The form that `--json` prints: spreads instead of single figures."""
        return {
            "source": self.source,
            "model": self.model_id,
            "events": self.events,
            "records": self.records,
            "characters": asdict(Spread.of(self.lengths.characters)),
            "tokens": asdict(Spread.of(self.lengths.tokens)),
            "texts": asdict(Spread.of(self.lengths.texts)),
            "texts_per_record": round(self.lengths.texts_per_record, 3),
            "files": len(self.files),
            "file_bytes": asdict(Spread.of([file.bytes for file in self.files])),
            "file_records": asdict(Spread.of([file.records for file in self.files])),
            "records_per_file": round(self.records_per_file, 2),
            "cores": self.cores,
            "partitions": self.partitions,
            "rates": [
                {name: round(figure, 2) for name, figure in asdict(rate).items()}
                for rate in self.rates
            ],
            "fixed_s": round(self.fixed.seconds, 3),
            "fixed_of_batches": self.fixed.batches,
            "notes": list(self.notes),
        }
