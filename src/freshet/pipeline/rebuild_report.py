"""What a rebuild tells: while it works, and at its end."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class RebuildStep(StrEnum):
    """The steps of a rebuild, in order."""

    HOLD = "hold"
    FILL = "fill"
    FENCE = "fence"
    DRAIN = "drain"
    BURY = "bury"
    COPY = "copy"
    SWITCH = "switch"
    CLEAR = "clear"


@dataclass(frozen=True)
class Progress:
    """How far a rebuild has come; told when a step begins, and after every batch."""

    step: RebuildStep
    events: int
    of_events: int


@dataclass(frozen=True)
class RebuildReport:
    """What a rebuild did."""

    rebuild_id: str
    rows: int
    """Of the new index."""
    version: int
    """Of the index, when it was switched."""
    events: int = 0
    embedded: int = 0
    reused: int = 0
    seconds: float = 0.0
    fenced_s: float = 0.0
    """How long no run could write."""
    is_continued: bool = False
    """Whether it went on from where an earlier one had ended."""
    old_version: int | None = None
    old_name: str | None = None
    """The name by which the index before the switch can still be opened; None if it is not kept."""

    def as_dict(self) -> dict[str, Any]:
        """The form that `--json` prints."""
        return asdict(self)
