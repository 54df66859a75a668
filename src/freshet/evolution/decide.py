"""What the records of a batch mean for the schema. Decides and does nothing."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from freshet.evolution.schema import Entry, Event, Schema
from freshet.evolution.types import (
    Change,
    Kind,
    Shape,
    What,
    merged,
    parent_of,
    parsed,
    takes,
)

MOST_FIELDS: Final = 1_000
"""An object with more fields is a map, whose keys are no columns: further ones are not tracked."""
_TAKEN: Final = (Event.ADDED, Event.WIDENED)


class Mode(StrEnum):
    """What happens to a new column, and to a new type of one."""

    EVOLVE = "evolve"
    RESCUE = "rescue"
    FAIL = "fail"


@dataclass(frozen=True)
class Seen:
    """Records of a batch that look the same."""

    schema: str
    """What Spark's `schema_of_variant` says of them."""
    records: int
    file: str
    """Of the first of them."""
    seq: int
    row: int
    last_seq: int
    """The newest file that has some."""
    mark: int = 0
    """A hash of the schema."""


@dataclass(frozen=True)
class Decision:
    """What to write to the history, and whether to stop."""

    entries: tuple[Entry, ...] = ()
    """Without version and time; those of one decision share them."""
    stops: tuple[Entry, ...] = ()
    """What nobody has accepted: nothing of the batch may be written."""
    too_wide: tuple[str, ...] = ()
    """Objects whose new fields are not tracked."""


def decide(schema: Schema, seen: Sequence[Seen], mode: Mode, batch_id: int) -> Decision:
    """Which changes are taken, held back, or must stop the pipeline.

    The first schema is taken as it is. Later, `evolve` takes new columns and wider types, except
    of columns that were rolled back. `fail` stops at what the history does not know.
    """
    in_order = sorted(seen, key=lambda one: (one.seq, one.row))
    found, too_wide = _found(schema, in_order, mode)
    tally = _tally(in_order) if found else {}
    entries = [_entry(change, event, tally, batch_id) for change, event in found.items()]
    stops = [entry for entry in entries if entry.what is Event.PENDING]
    if stops:
        known = {key for key, held in schema.held.items() if held.what is Event.PENDING}
        new = [entry for entry in stops if (entry.column, entry.to_type) not in known]
        return Decision(tuple(new), tuple(stops), too_wide)
    return Decision(tuple(_not_on_record(schema, entries)), (), too_wide)


def _found(
    schema: Schema, seen: Sequence[Seen], mode: Mode
) -> tuple[dict[Change, Event], tuple[str, ...]]:
    """Every change once, with what becomes of it, in the order of the records."""
    shape = schema.shape
    found: dict[Change, Event] = {}
    room = _Room(shape)
    for one in seen:
        for change in merged(shape, parsed(one.schema))[1]:
            if change.what is What.ADDED and not (change in found or room.has(change.column)):
                continue
            event = _event(change, schema, mode)
            if event in _TAKEN:
                shape[change.column] = change.seen
            found.setdefault(change, event)
    return _joined(found, schema), tuple(room.full)


class _Room:
    """Which objects can have further fields."""

    def __init__(self, shape: Shape) -> None:
        self._fields = Counter(parent_of(path) for path in shape)
        self._left_out: set[str] = set()
        self.full: dict[str, None] = {}

    def has(self, path: str) -> bool:
        """Whether a new field has room; counts it if so. What is inside goes with it."""
        parent = parent_of(path)
        if parent in self._left_out or self._fields[parent] >= MOST_FIELDS:
            self._left_out.add(path)
            if parent not in self._left_out:
                self.full[parent] = None
            return False
        self._fields[parent] += 1
        return True


def _event(change: Change, schema: Schema, mode: Mode) -> Event:
    is_first = schema.version == 0
    held = schema.held.get((change.column, change.seen))
    # What was rescued or rolled back, or is a known conflict, has been looked at.
    is_known = held is not None and held.what is not Event.PENDING
    is_rejected = any(path in schema.rejected for path in _lineage(change.column))
    if mode is Mode.FAIL and not (is_first or is_known or is_rejected):
        return Event.PENDING
    if change.what is What.CONFLICT:
        return Event.CONFLICT
    if is_first or (mode is Mode.EVOLVE and not is_rejected):
        return Event(change.what.value)
    return Event.RESCUED


def _lineage(path: str) -> Iterator[str]:
    """The path, and all that it is inside of."""
    while path:
        yield path
        path = parent_of(path)


def _joined(found: Mapping[Change, Event], schema: Schema) -> dict[Change, Event]:
    """A column that came and was widened in one batch came with the wider type."""
    last = {change.column: change.seen for change, event in found.items() if event in _TAKEN}
    joined: dict[Change, Event] = {}
    for change, event in found.items():
        if event in _TAKEN:
            column = schema.columns.get(change.column)
            known = column.kind if column is not None and column.is_taken else None
            what = What.ADDED if known is None else What.WIDENED
            joined[Change(what, change.column, known, last[change.column])] = Event(what.value)
        else:
            joined[change] = event
    return joined


@dataclass
class _Count:
    first: Seen
    records: int = 0
    last_seq: int = -1


_Tally = Mapping[str, Mapping[Kind, _Count]]


def _tally(seen: Sequence[Seen]) -> _Tally:
    """In how many records each path has each type, and where that was first and last."""
    tally: dict[str, dict[Kind, _Count]] = {}
    for one in seen:
        for node in parsed(one.schema):
            count = tally.setdefault(node.path, {}).setdefault(node.kind, _Count(one))
            count.records += one.records
            count.last_seq = max(count.last_seq, one.last_seq)
    return tally


def _entry(change: Change, event: Event, tally: _Tally, batch_id: int) -> Entry:
    counts = [
        count
        for kind, count in tally[change.column].items()
        if (_is_news(change, kind) if event in _TAKEN else kind is change.seen)
    ]
    first = min((count.first for count in counts), key=lambda one: (one.seq, one.row))
    return Entry(
        event,
        change.column,
        change.known,
        change.seen,
        file=first.file,
        seq=first.seq,
        row=first.row,
        last_seq=max(count.last_seq for count in counts),
        batch_id=batch_id,
        records=sum(count.records for count in counts),
    )


def _is_news(change: Change, kind: Kind) -> bool:
    is_old = change.known is not None and takes(change.known, kind)
    return takes(change.seen, kind) and not is_old


def _not_on_record(schema: Schema, entries: Sequence[Entry]) -> Iterator[Entry]:
    """A batch that is run again tells nothing new of what was held back."""
    for entry in entries:
        held = None if entry.to_type is None else schema.held.get((entry.column, entry.to_type))
        is_told = (
            held is not None
            and held.what is entry.what
            and held.batch_id == entry.batch_id
            and held.batch_records == entry.records
            and held.last_seq >= (entry.last_seq or 0)
        )
        if not is_told:
            yield entry
