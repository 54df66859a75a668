"""How much an action may take, and when it is due. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from freshet.optimizer.actions import Kind
from freshet.settings import OptimizerSettings
from freshet.units import bytes_of, seconds_of

_GRAPHS: Final[Mapping[str, int]] = {"m": 16, "ef_construction": 80}
"""Edges of a row, and how many candidates are looked at for them. Lance's own 20 and 150 took twice
as long to build and to merge, and found no more neighbours (0.960 against 0.965 of 100,000 x 384).
"""

SPEEDS: Final[Mapping[Kind, float]] = {
    Kind.BUILD: 5_000,
    Kind.RETRAIN: 5_000,
    Kind.MERGE: 5_000,
    Kind.EXTEND: 8_000,
    Kind.COMPACT: 100_000,
}
"""Rows a second, before anything was measured; of vectors with 384 dimensions on one core."""
_SPEED_WITHOUT_VECTORS: Final = 100_000.0

_FLOAT_COPIES: Final = 2
_GRAPH_BYTES: Final = 600
"""What a row of a vector index takes on disk while it is built: its vector twice, its code, and its
edges in the graph."""

_LEAST_MEMORY: Final = 128 << 20
_ROW_MEMORY: Final = 300
"""What a vector index takes in memory while it is trained: this at least, and for each row its code
and this. Measured with 384 dimensions: 163 MiB for 100,000 rows, 707 MiB for 1,000,000. A merge,
which trains nothing, took 55 MiB for 100,000."""

ANY: Final = ""
Speeds = Mapping[tuple[Kind, str], float]
"""Rows a second, by kind of action and index; of all compactions together, `ANY`."""


def graph_of(kind: str) -> Mapping[str, int]:
    """How the graphs of a vector index are made; nothing if it has none."""
    return _GRAPHS if "HNSW" in kind else {}


def index_bytes(rows: int, dimension: int) -> int:
    """About how much of the disk it takes to index so many vectors at once."""
    return rows * (_FLOAT_COPIES * 4 * dimension + dimension + _GRAPH_BYTES)


def memory_for(rows: int, dimension: int) -> int:
    """About how much memory it takes to train an index of so many vectors."""
    return _LEAST_MEMORY + rows * (dimension + _ROW_MEMORY)


@dataclass(frozen=True)
class Limits:
    """When something is due, and how large one action may be."""

    unindexed_rows: int = 1_000
    """So many rows that an index does not cover are indexed."""
    parts: int = 8
    """An index has about this many parts at most."""
    fragments: int = 16
    """So many small fragments are folded."""
    fragment_rows: int = 131_072
    """A fragment of so many rows is large enough, and stays unless rows of it are deleted."""
    deleted_share: float = 0.2
    dead_share: float = 0.5
    """A vector index is made anew when more of its rows are dead."""
    partition_drift: float = 4.0
    """… or when it should have so many times its partitions."""
    least_recall: float = 0.9
    """… or when a probe finds less."""
    retention: timedelta = timedelta(hours=1)
    orphan_age: timedelta = timedelta(days=1)
    memory_bytes: int = 1_000_000_000
    seconds: float = 60.0

    @classmethod
    def of(cls, settings: OptimizerSettings) -> "Limits":
        """The limits that the settings ask for."""
        return cls(
            unindexed_rows=settings.unindexed_rows,
            parts=settings.index_parts,
            fragments=settings.small_fragments,
            fragment_rows=settings.fragment_rows,
            deleted_share=settings.deleted_share,
            least_recall=settings.least_recall,
            retention=timedelta(seconds=seconds_of(settings.retention)),
            orphan_age=timedelta(seconds=seconds_of(settings.orphan_age)),
            memory_bytes=bytes_of(settings.memory),
            seconds=seconds_of(settings.action_time),
        )

    def rows_to_merge(self, index: str, dimension: int, speeds: Speeds) -> int:
        """The rows of an index that one merge may read, by time, and by memory for vectors."""
        by_default = SPEEDS[Kind.MERGE] if dimension else _SPEED_WITHOUT_VECTORS
        by_time = int(self.seconds * speeds.get((Kind.MERGE, index), by_default))
        if not dimension:
            return by_time
        return min(by_time, self.memory_bytes // (dimension + _ROW_MEMORY))

    def rows_to_fold(self, lost_rows: int | None, speeds: Speeds) -> int:
        """The rows that one compaction may read: half as many as one that a writer beat."""
        by_time = int(self.seconds * speeds.get((Kind.COMPACT, ANY), SPEEDS[Kind.COMPACT]))
        most = min(by_time, 2 * self.fragment_rows)
        return max(most if lost_rows is None else min(most, lost_rows // 2), 1_024)
