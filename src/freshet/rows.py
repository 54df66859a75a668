"""How records become rows of a table: the seam between the sink and the embedding.

The sink knows keys, versions and commits; what a row holds is the builder's business. Both sides
ship to the executors, so everything here is picklable and imports little.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

import pyarrow as pa

MODEL_KEY: Final = "freshet.model"
"""Where a table's metadata names the model that made its vectors."""


@dataclass(frozen=True)
class BuiltRows:
    """Rows ready to be written, rows that wait for more, and what it took to make them."""

    rows: pa.Table
    reused: int = 0
    embedded: int = 0
    embed_s: float = 0.0
    waiting: Mapping[int, pa.Table] = field(default_factory=dict)
    """Rows that are to be finished elsewhere, by the number of the task that does it."""


@dataclass(frozen=True)
class CurrentRows:
    """What the table holds now for the keys of a batch, at one pinned version."""

    rows: pa.Table
    """The key, the version, the builder's `needs`, `_rowid` and `_rowaddr`."""
    take: Callable[[Sequence[int], Sequence[str]], pa.Table]
    """Reads further columns of some of these rows: `take(row_ids, columns)`, in that order."""


class RowBuilder(Protocol):
    """Makes the rows of upserted records. Instances are pickled to the executors."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Columns of a key's current rows that `build` looks at."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table that the rows go to."""
        ...

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the table must remember of how its rows were made; checked at every start."""
        ...

    @property
    def has_heavy_rows(self) -> bool:
        """Whether `build` may leave rows to `finish`, because they take long."""
        ...

    def build(
        self,
        records: pa.Table,
        current: CurrentRows,
        at: datetime,
        *,
        is_alone: bool = False,
        tasks: int | None = None,
    ) -> BuiltRows | None:
        """The rows of these records as of a moment; several rows of one key stand together.

        With a number of `tasks`, heavy rows wait, dealt out to so many tasks by what they weigh.
        None, and nothing done, if one task alone would take much longer than several.
        """
        ...

    def finish(self, waiting: pa.Table) -> BuiltRows:
        """The rows that `build` left waiting."""
        ...
