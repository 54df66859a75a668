"""What was on record at some time of how an index fared, of its optimizer and of its batches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

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

    @property
    def is_empty(self) -> bool:
        """Whether nothing is on record."""
        return not (self.looks or self.actions or self.batches)
