"""What batches are written to, and what they do to it."""

from dataclasses import dataclass
from enum import StrEnum

from freshet.errors import SinkError


class Mode(StrEnum):
    """What a batch does to its table; named as Spark names its output modes."""

    UPDATE = "update"
    """Rows replace the rows of their keys, or delete them."""
    APPEND = "append"
    """Rows are added."""
    COMPLETE = "complete"
    """The batch is the whole table from now on."""


def mode_named(name: str) -> Mode:
    """The mode of a name; raises if there is none."""
    if name not in list(Mode):
        raise SinkError(f"mode is {name}: it can be {', '.join(Mode)}")
    return Mode(name)


@dataclass(frozen=True)
class Target:
    """The table that batches go to, and on whose behalf."""

    uri: str
    pipeline: str
    sink: str
    mode: Mode = Mode.UPDATE
    key: str | None = "key"
    """The column that `update` goes by; None in the other modes."""
    takes_over: bool = False
    """Whether the checkpoint was used with another sink before, so that its past is unknown."""
