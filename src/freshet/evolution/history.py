"""The history of the records' schema: a small table that the pipeline and people append to."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final

from freshet import schemas
from freshet.clock import utc_now
from freshet.errors import StoreError
from freshet.evolution.schema import Entry, Event, Schema
from freshet.evolution.types import Kind, column_name
from freshet.stores import delta_facts
from freshet.stores.delta_logs import SharedTable

_MAX_CONFLICTS: Final = 20


class History:
    """The entries of one pipeline, and the schema that follows from them.

    Guarantee: entries are appended only on top of the ones that they were decided by, whoever else
    appends, so versions are numbered without gaps or twins and all readers fold them alike. A crash
    leaves all entries of a change or none.
    """

    def __init__(self, uri: str, clock: Callable[[], datetime] = utc_now) -> None:
        self._table = SharedTable(uri, schemas.SCHEMA_HISTORY)
        self._clock = clock
        self._version: int | None = None
        self._schema = Schema()

    def schema(self) -> Schema:
        """The schema as it is now; reads the table only if it has changed."""
        if self._table.newest() != self._version:
            self._version, rows = self._table.snapshot()
            self._schema = Schema().after(_entries(rows))
        return self._schema

    def entries(self) -> list[Entry]:
        """All entries, oldest first."""
        return _entries(self._table.snapshot()[1])

    def append(self, decide: Callable[[Schema], Sequence[Entry]]) -> tuple[Entry, ...]:
        """Appends what `decide` makes of the schema as it is; asks again if somebody was faster."""
        for _ in range(_MAX_CONFLICTS):
            schema = self.schema()
            entries = tuple(self._numbered(schema, decide(schema)))
            if not entries:
                return ()
            version = self._table.append_after(self._version, [asdict(one) for one in entries])
            if version is not None:
                self._version, self._schema = version, schema.after(entries)
                return entries
        raise StoreError("append to", self._table.uri, f"{_MAX_CONFLICTS} conflicts in a row")

    def _numbered(self, schema: Schema, entries: Sequence[Entry]) -> Iterator[Entry]:
        """What is only seen, and not taken, makes no new version."""
        at, is_new = self._clock(), any(entry.what.changes_schema for entry in entries)
        for place, entry in enumerate(entries, schema.length):
            yield replace(entry, version=schema.version + is_new, place=place, at=at)


@dataclass(frozen=True)
class Summary:
    """Where the schema stands, in numbers."""

    version: int
    columns: int
    """Columns that are taken; not what is inside of them."""
    pending: int
    """Changes that the pipeline stopped at."""
    conflicts: int
    """Records with a value that does not go with its column's type."""


def summary(uri: str) -> Summary:
    """The numbers of a history; needs no Spark, and makes nothing."""
    schema = History(uri).schema()
    held = schema.held.values()
    return Summary(
        version=schema.version,
        columns=sum(column_name(path) is not None for path in schema.shape),
        pending=sum(one.what is Event.PENDING for one in held),
        conflicts=sum(one.records for one in held if one.what is Event.CONFLICT),
    )


def newest_file(uri: str) -> int:
    """The greatest number in the files table; 0 if there is none.

    Every event that has been indexed came in a file of this number or a smaller one.
    """
    return delta_facts.greatest(uri, "seq") or 0


def _entries(rows: Sequence[dict[str, Any]]) -> list[Entry]:
    return sorted(map(_entry, rows), key=lambda entry: entry.place)


def _entry(row: dict[str, Any]) -> Entry:
    kinds = {name: row[name] and Kind(row[name]) for name in ("from_type", "to_type")}
    return Entry(**(row | kinds | {"what": Event(row["what"])}))
