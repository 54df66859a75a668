"""How many partitions a vector index has, and how many of them a question looks into. Pure."""

from math import ceil, sqrt
from typing import Final

_ROWS: Final = 4_096
"""Of a partition. As soon as rows were deleted, Lance looks up every row of the partitions that it
visits, so small ones cost a table that has lived least."""
_SHARE: Final = 2.0
_LEAST: Final = 8


def partitions_for(rows: int) -> int:
    """How many partitions a vector index of so many rows should have."""
    return max(1, round(rows / _ROWS))


def probes_for(rows: int) -> int:
    """How many of them a question should look into.

    Of real texts, twice the square root of the partitions find 0.95 of the ten nearest, whether
    there are 16 or 62 of them.
    """
    return max(_LEAST, ceil(_SHARE * sqrt(partitions_for(rows))))
