"""How many partitions a vector index has, and how hard a question looks into them. Pure."""

from math import ceil, sqrt
from typing import Final

_ROWS: Final = 4_096
"""Of a partition. With 16,384 a question had to look into all of a table of 100,000 rows to find
0.95 of the ten nearest of real texts; a search takes about as long with either."""
_PER_ROOT: Final = 2
_LEAST: Final = 8
_ROOTS_PER_CANDIDATE: Final = 5
_LEAST_CANDIDATES: Final = 64


def partitions_for(rows: int) -> int:
    """How many partitions a vector index of so many rows should have."""
    return max(1, round(rows / _ROWS))


def probes_for(rows: int) -> int:
    """How many of them a question should look into.

    Of real texts, twice the square root of the partitions find 0.95 of the ten nearest, whether
    there are 16 or 62 of them.
    """
    return max(_LEAST, ceil(_PER_ROOT * sqrt(partitions_for(rows))))


def candidates_for(rows: int) -> int:
    """How many candidates a search keeps on the way through the graph of a partition.

    Of vectors that lie close around 200 centres, 64 find 0.96 of the ten nearest among 100,000, but
    0.80 among a million, of which each has ten times as many neighbours that are about as near.
    """
    return max(_LEAST_CANDIDATES, ceil(sqrt(rows) / _ROOTS_PER_CANDIDATE))
