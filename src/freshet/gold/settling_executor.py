"""Makes of the changes of some records what each record is, on an executor."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from freshet import schemas
from freshet.gold.history import (
    Change,
    Filled,
    State,
    as_changes,
    fields_of,
    in_order,
    record_of,
    settled,
)

FAMILY: Final = "family"
"""The column that says which records lend values to each other."""
GIVEN: Final = pa.schema([*schemas.CHANGES, (FAMILY, pa.string())])
WAITS: Final = "waits"
"""The column that says whether a newer event of the record waits for a value."""
SETTLED: Final = pa.schema([*schemas.CHANGES, (schemas.FILLED, pa.string()), (WAITS, pa.bool_())])

_ROWS_AT_ONCE: Final = 1_000
Row = dict[str, Any]


@dataclass(frozen=True)
class Settling:
    """Makes one row a key of a partition sorted by family. Pickled to the executors.

    What the index knows of the records counts as well, if one is given. Memory is bounded by the
    changes of one family, or of a thousand rows. A row whose `unavailable` is still set is no
    record yet.
    """

    needed: frozenset[str] | None
    """Fields that matter; None: all."""
    uri: str | None = None
    version: int = 0

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Some families at a time."""
        for rows in _slices(row for batch in batches for row in batch.to_pylist()):
            made = list(self._settle(rows))
            yield pa.RecordBatch.from_pylist(made, schema=SETTLED)

    def _settle(self, rows: Sequence[Row]) -> Iterator[Row]:
        changes: dict[str, list[Change]] = {}
        events: dict[tuple[str, str], Row] = {}
        for row in rows:
            change = self._change(row)
            changes.setdefault(row["key"], []).append(change)
            events[row["key"], change.version] = row
        own = set(changes)
        lenders = {one.old_key for some in changes.values() for one in some if one.old_key}
        for key, known in self._known(sorted(own | lenders)):
            changes.setdefault(key, []).extend(known)
        histories = {key: in_order(some) for key, some in changes.items()}
        for key in sorted(own):
            state = settled(key, histories)
            if state is not None:
                event = events.get((key, state.last.version), events_of(events, key))
                yield _row(event, key, state)

    def _change(self, row: Row) -> Change:
        left_out = frozenset(json.loads(row["unavailable"] or "[]"))
        fields = {} if row["is_deleted"] else fields_of(row["record"] or row["raw"])
        return Change(
            version=row["record_version"],
            is_deleted=row["is_deleted"],
            fields={name: text for name, text in fields.items() if name not in left_out},
            unavailable=left_out if self.needed is None else left_out & self.needed,
            old_key=row["old_key"],
        )

    def _known(self, keys: Sequence[str]) -> Iterator[tuple[str, Iterable[Change]]]:
        """What the index has of some keys."""
        from freshet.stores.lance_tables import ROW_ID, LanceTable

        if self.uri is None:
            return
        table = LanceTable.open(self.uri, version=self.version)
        if schemas.IMAGE not in table.schema.names:
            return
        found = table.lookup("key", keys, ["key", "chunk", "record_version"])
        first = found.filter(pa.compute.equal(found.column("chunk"), 0))
        kept = table.take(first.column(ROW_ID).to_pylist(), [schemas.IMAGE, schemas.FILLED])
        columns = [first.column("key"), first.column("record_version"), *kept.columns]
        for key, version, image, filled in zip(*(c.to_pylist() for c in columns), strict=True):
            if image is not None:
                yield key, as_changes(version, fields_of(image), _filled_in(filled))


def events_of(events: Mapping[tuple[str, str], Row], key: str) -> Row:
    """The newest event of a key in the batch, where the index knows a newer one."""
    return events[max(place for place in events if place[0] == key)]


def _slices(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Rows of whole families, about a thousand at a time."""
    held: list[Row] = []
    for _, family in groupby(rows, key=lambda row: row[FAMILY]):
        held += family
        if len(held) >= _ROWS_AT_ONCE:
            yield held
            held = []
    if held:
        yield held


def _filled_in(text: str | None) -> dict[str, Filled]:
    return {name: Filled(*where) for name, where in json.loads(text or "{}").items()}


def _row(event: Row, key: str, state: State) -> Row:
    """The state in the shape of a change."""
    made = {name: event[name] for name in schemas.CHANGES.names} | {
        "key": key,
        "record_version": state.version,
        "is_deleted": state.last.is_deleted,
        "record": None if state.last.is_deleted else record_of(state.fields),
        "raw": None,
        "old_key": None,
        "unavailable": json.dumps(sorted(state.missing)) if state.missing else None,
    }
    filled = json.dumps(state.filled) if state.filled else None
    return made | {schemas.FILLED: filled, WAITS: state.waits}
