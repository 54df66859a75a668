"""Which output modes each kind of sink takes, and what it then promises; no pair is left open."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from freshet.errors import SettingsError
from freshet.sink.target import Mode


class Kind(StrEnum):
    """What batches can be written to."""

    LANCE = "lance"
    """`LanceSink`, in `foreachBatch`."""
    NATIVE_LANCE = "native_lance"
    """`format("lance")`."""
    DELTA = "delta"
    """`DeltaSink`, in `foreachBatch`."""
    POSTGRES = "postgres"
    """`PostgresSink`, in `foreachBatch`."""
    PARQUET = "parquet"
    JSON = "json"
    CSV = "csv"
    ORC = "orc"
    CONSOLE = "console"
    MEMORY = "memory"
    KAFKA = "kafka"


FILES: Final = (Kind.PARQUET, Kind.JSON, Kind.CSV, Kind.ORC)


@dataclass(frozen=True)
class Allowed:
    """A pair that can be written."""

    guarantee: str


@dataclass(frozen=True)
class Refused:
    """A pair that cannot be written."""

    reason: str
    instead: str
    """What to use."""

    @property
    def sentence(self) -> str:
        """Why not, and what to use."""
        return f"{self.reason}: {self.instead}"


Pair = tuple[Kind, Mode]

_KEYED: Final = (
    "Exactly once: each row replaces the row of its key, and an older version never undoes a "
    "newer one."
)
_ADDED: Final = "Exactly once: every row of a batch is added, and no batch twice."
_WHOLE: Final = "Exactly once: the batch is the whole table, and readers see the old or the new."

_FILES: Final[Mapping[Mode, Allowed | Refused]] = {
    Mode.APPEND: Allowed(
        "Exactly once for readers that go by the folder's log `_spark_metadata`, as Spark does; "
        "others may meet files of a failed try."
    ),
    Mode.UPDATE: Refused(
        "files are only ever added",
        "write a Delta table with DeltaSink, or use append with a watermark",
    ),
    Mode.COMPLETE: Refused(
        "files are only ever added, so none can be replaced by the next result",
        'write a Delta table with DeltaSink(mode="complete")',
    ),
}

_OF_KIND: Final[Mapping[Kind, Mapping[Mode, Allowed | Refused]]] = {
    Kind.LANCE: {
        Mode.APPEND: Allowed(_ADDED),
        Mode.UPDATE: Allowed(_KEYED),
        Mode.COMPLETE: Allowed(_WHOLE),
    },
    Kind.NATIVE_LANCE: {
        Mode.APPEND: Allowed(_ADDED),
        Mode.UPDATE: Refused(
            "Spark lets no source that is written in Python take part in update mode",
            "use LanceSink in foreachBatch",
        ),
        Mode.COMPLETE: Allowed(_WHOLE),
    },
    Kind.DELTA: {
        Mode.APPEND: Allowed(_ADDED),
        Mode.UPDATE: Allowed(_KEYED),
        Mode.COMPLETE: Allowed(_WHOLE),
    },
    Kind.POSTGRES: {
        Mode.APPEND: Allowed(_ADDED),
        Mode.UPDATE: Allowed(_KEYED),
        Mode.COMPLETE: Allowed(_WHOLE),
    },
    **dict.fromkeys(FILES, _FILES),
    Kind.CONSOLE: {
        Mode.APPEND: Allowed("None: rows are printed where the driver runs, and not kept."),
        Mode.UPDATE: Allowed("None: changed rows are printed where the driver runs, and not kept."),
        Mode.COMPLETE: Allowed(
            "None: the whole result is printed where the driver runs, and not kept."
        ),
    },
    Kind.MEMORY: {
        Mode.APPEND: Allowed(
            "None: rows are held by the driver, gone with it, and the query cannot be restarted."
        ),
        Mode.UPDATE: Allowed(
            "None: as in append, and every change of a row is a further row of the table."
        ),
        Mode.COMPLETE: Allowed(
            "The newest result is held by the driver; a restart with the checkpoint makes it "
            "anew with its next batch."
        ),
    },
    Kind.KAFKA: {
        Mode.APPEND: Allowed(
            "At least once: a batch that is run again is sent again, so readers must know a "
            "record by what it says."
        ),
        Mode.UPDATE: Allowed(
            "At least once: every change of a row is a further record of its key, and the last "
            "one holds; a compacted topic keeps that one."
        ),
        Mode.COMPLETE: Allowed(
            "At least once: every batch sends the whole result again; of each key the last "
            "record holds."
        ),
    },
}

PAIRS: Final[Mapping[Pair, Allowed | Refused]] = MappingProxyType(
    {(kind, mode): _OF_KIND[kind][mode] for kind in Kind for mode in Mode}
)
"""Every sink with every mode."""


def check(kind: str, mode: str) -> tuple[Kind, Mode]:
    """The sink and the mode of these names; raises if they do not go together."""
    if kind not in list(Kind):
        raise SettingsError(f"there is no sink {kind}: there are {', '.join(Kind)}")
    if mode not in list(Mode):
        raise SettingsError(f"there is no output mode {mode}: there are {', '.join(Mode)}")
    pair = Kind(kind), Mode(mode)
    found = PAIRS[pair]
    if isinstance(found, Refused):
        raise SettingsError(f"{kind} does not take the mode {mode}: {found.sentence}")
    return pair


def allowed(kind: Kind) -> tuple[Mode, ...]:
    """The modes that a sink takes."""
    return tuple(mode for mode in Mode if isinstance(PAIRS[kind, mode], Allowed))
