"""What step 3 of the commit protocol hands to the steps that follow."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from freshet.sink.stamps import Counts
from freshet.stores.lance_tables import LanceTable


@dataclass(frozen=True)
class Prepared:
    """What the executors made of a batch."""

    fragments: Sequence[str] = ()
    gone: Sequence[Any] = ()
    """Keys whose current rows leave the table."""
    places: Sequence[int] = ()
    """The addresses of those rows in the version that was prepared for."""
    deleted: Mapping[Any, str] = field(default_factory=dict)
    """Deleted keys with the versions that deleted them."""
    floor: str = ""
    """The version below which everything is deleted from now on."""
    where: str | None = None
    """A condition by which rows leave, instead of their addresses."""
    unsettled: Sequence[Any] = ()
    """Keys whose stale events may have a better value for what the table has."""
    counts: Counts = field(default_factory=Counts)
    embed_s: float = 0.0
    write_s: float = 0.0
    schema: pa.Schema | None = None
    """The columns, where the batch is the whole table."""

    @property
    def changes_table(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self.fragments or self.gone or self.schema or self.where)


Prepare = Callable[[LanceTable, datetime], Prepared]
"""Step 3: looks things up in a table at its version, and writes data files, as of a moment."""
