"""The values that a plan is made of."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """What an action does."""

    BUILD = "build"
    """An index that is wanted and not there."""
    EXTEND = "extend"
    """A further part of an index, for new rows."""
    MERGE = "merge"
    """The newest parts of an index become one."""
    RETRAIN = "retrain"
    """A vector index made anew."""
    COMPACT = "compact"
    """Neighbouring fragments become one, without deleted rows."""
    CLEAN = "clean"
    """Old versions, and the files that only they name."""
    SWEEP = "sweep"
    """Files that a kill left behind and no version names."""
    TIDY = "tidy"
    """The small tables beside the index."""

    @property
    def needs_room(self) -> bool:
        """Whether it writes files about as large as what it reads."""
        return self in {Kind.BUILD, Kind.EXTEND, Kind.MERGE, Kind.RETRAIN, Kind.COMPACT}


@dataclass(frozen=True)
class Action:
    """One bounded step."""

    kind: Kind
    target: str
    """The index, or what else it is about."""
    reasons: tuple[str, ...]
    rows: int = 0
    """How many rows it reads."""
    bytes: int = 0
    """About how many bytes it writes before others can go."""
    details: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What it needs to know, such as fragments and versions."""

    @property
    def sentence(self) -> str:
        """What it does, and why."""
        return f"{self.kind} {self.target}: {', '.join(self.reasons)}"

    def as_dict(self) -> dict[str, Any]:
        """The form that `--json` prints."""
        return asdict(self)


@dataclass(frozen=True)
class Refusal:
    """An action that should be done, and the limit that forbids it."""

    action: Action
    why: str


@dataclass(frozen=True)
class Plan:
    """Actions in the order in which they are to be done."""

    actions: tuple[Action, ...] = ()
    refusals: tuple[Refusal, ...] = ()
