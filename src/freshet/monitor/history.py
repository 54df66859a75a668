"""What was on record at some time of how an index fared, of its optimizer and of its batches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self

from freshet.monitor.ways import Stage, Way

Row = Mapping[str, Any]


@dataclass(frozen=True)
class History:
    """Rows as the tables have them (`schemas`), oldest first."""

    since: datetime
    until: datetime
    looks: Sequence[Row] = ()
    """Of the health table."""
    actions: Sequence[Row] = ()
    """Of the optimizer's table."""
    batches: Sequence[Row] = ()
    """Of the ledger."""
    ways: Sequence[Row] = ()
    """Change files by when they became searchable (`at`), with the seconds of each stage."""
    target_s: float | None = None
    """How long they may take from landing to being searchable, if that is set."""

    def with_ways(self, ways: Sequence[Way], target_s: float | None) -> Self:
        """And how long change files took."""
        rows = [
            {"at": way.searchable_at} | {str(stage): way.seconds(stage) for stage in Stage}
            for way in sorted(ways, key=lambda way: way.searchable_at)
        ]
        return replace(self, ways=rows, target_s=target_s)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is on record."""
        return not (self.looks or self.actions or self.batches)
