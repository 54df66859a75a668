"""Step 3 of the commit protocol for a repair, on an executor: what is there is not believed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from freshet.rows import BuiltRows, CurrentRows, RowBuilder
from freshet.sink.judge import Event, Verdict, take_all
from freshet.sink.prepare_executor import Preparation
from freshet.stores.lance_tables import LanceTable


@dataclass(frozen=True)
class Afresh:
    """A row builder that takes nothing over from the rows that a record has. Pickled."""

    builder: RowBuilder

    @property
    def needs(self) -> tuple[str, ...]:
        """Columns of the current rows; their values are not looked at."""
        return self.builder.needs

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return self.builder.schema

    @property
    def metadata(self) -> Mapping[str, str]:
        """How rows are made."""
        return self.builder.metadata

    @property
    def has_heavy_rows(self) -> bool:
        """Whether `build` may leave rows to `finish`."""
        return self.builder.has_heavy_rows

    def build(
        self,
        records: pa.Table,
        current: CurrentRows,
        at: datetime,
        *,
        is_alone: bool = False,
        tasks: int | None = None,
    ) -> BuiltRows | None:
        """The rows of these records, all vectors made anew."""
        nothing = CurrentRows(current.rows.slice(0, 0), current.take)
        return self.builder.build(records, nothing, at, is_alone=is_alone, tasks=tasks)

    def finish(self, waiting: pa.Table) -> BuiltRows:
        """The rows that `build` left waiting."""
        return self.builder.finish(waiting)


@dataclass(frozen=True)
class Replacement(Preparation):
    """All current rows of a key leave, whatever their versions are. Pickled to the executors."""

    def _judged(self, events: Sequence[Event], table: LanceTable) -> tuple[pa.Table, Verdict]:
        keys = [event.key for event in events]
        return table.lookup(self.key, keys, [self.key, *self.builder.needs]), take_all(events)
