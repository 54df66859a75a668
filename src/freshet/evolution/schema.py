"""The schema of the records as its history tells it: a fold over entries. Pure.

What a column takes depends on the file that a value came in. A column takes a type from a file on,
and up to a file if the type was rolled back; so what the index holds of a record is decided by the
record and the history alone, whenever it is computed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import reduce

from freshet.evolution.types import Kind, takes, widened


class Event(StrEnum):
    """What an entry of the history tells."""

    ADDED = "added"
    """A new column is taken."""
    WIDENED = "widened"
    """A wider type is taken."""
    RESCUED = "rescued"
    """A new column or a wider type was seen and is not taken; Bronze has the values."""
    CONFLICT = "conflict"
    """Values of a type that does not go with the column's."""
    PENDING = "pending"
    """The pipeline stopped at it."""
    ACCEPTED = "accepted"
    """Somebody took what was pending or rescued."""
    ROLLED_BACK = "rolled_back"
    """Somebody gave up what had been taken; it is not taken again by itself."""

    @property
    def changes_schema(self) -> bool:
        """Whether it makes a new version; the others tell what is not taken."""
        return self in (Event.ADDED, Event.WIDENED, Event.ACCEPTED, Event.ROLLED_BACK)


@dataclass(frozen=True)
class Entry:
    """One change of one column; the columns of the history table."""

    what: Event
    column: str
    from_type: Kind | None
    to_type: Kind | None
    version: int = 0
    place: int = 0
    """Its number in the history, which is in the order of these."""
    at: datetime | None = None
    file: str | None = None
    seq: int | None = None
    row: int | None = None
    last_seq: int | None = None
    batch_id: int | None = None
    records: int | None = None
    example: str | None = None


@dataclass(frozen=True)
class Span:
    """A type that a column takes, in files from one number up to another."""

    kind: Kind
    from_seq: int = 0
    to_seq: int | None = None
    """None: for ever."""


@dataclass(frozen=True)
class Column:
    """What a column took in which files."""

    spans: tuple[Span, ...]
    since: int | None
    """The first file whose values it holds; None once it was rolled back."""

    @property
    def is_taken(self) -> bool:
        """Whether it is part of the schema now."""
        return self.since is not None

    @property
    def kind(self) -> Kind:
        """The type that it takes now; the last one if it was rolled back."""
        taken = [span for span in self.spans if span.to_seq is None] or self.spans
        return taken[-1].kind

    @property
    def widest(self) -> Kind:
        """The type that holds all values that it has, also those of a type that was given up."""
        since = self.since or 0
        kinds = [s.kind for s in self.spans if s.to_seq is None or s.to_seq >= since]
        return reduce(lambda wide, kind: widened(wide, kind) or wide, kinds)


@dataclass(frozen=True)
class Held:
    """A type of a column that was seen and is not taken."""

    what: Event
    """Pending, rescued or conflict."""
    column: str
    known: Kind | None
    """The column's own type then; None if it was not taken at all."""
    seen: Kind
    first: Entry
    """The entry that first told of it."""
    records: int = 0
    """Of all batches that were written."""
    last_seq: int = -1
    """The newest file whose values were not taken."""
    batch_id: int | None = None
    batch_records: int = 0


@dataclass(frozen=True)
class Schema:
    """The records' schema at one version."""

    version: int = 0
    length: int = 0
    """How many entries have told of it."""
    columns: Mapping[str, Column] = field(default_factory=dict)
    held: Mapping[tuple[str, Kind], Held] = field(default_factory=dict)
    rejected: frozenset[str] = frozenset()
    """Columns of which something was rolled back; they change only when somebody accepts it."""

    @property
    def shape(self) -> dict[str, Kind]:
        """The columns that are taken now, with their types."""
        return {path: column.kind for path, column in self.columns.items() if column.is_taken}

    def after(self, entries: Iterable[Entry]) -> "Schema":
        """The schema when these, too, have happened, in this order."""
        state = _State(
            self.version, self.length, dict(self.columns), dict(self.held), set(self.rejected)
        )
        for entry in entries:
            state.apply(entry)
        return Schema(
            state.version, state.length, state.columns, state.held, frozenset(state.rejected)
        )


@dataclass
class _State:
    version: int
    length: int
    columns: dict[str, Column]
    held: dict[tuple[str, Kind], Held]
    rejected: set[str]

    def apply(self, entry: Entry) -> None:
        self.version = max(self.version, entry.version)
        self.length += 1
        match entry.what:
            case Event.ADDED | Event.WIDENED:
                self._take(entry)
            case Event.ACCEPTED:
                self._accept(entry)
            case Event.ROLLED_BACK:
                self._give_up(entry)
            case _:
                self._hold(entry)

    def _take(self, entry: Entry) -> None:
        path, kind = entry.column, _kind(entry)
        column = self.columns.get(path)
        held = {seen: one.last_seq for (name, seen), one in self.held.items() if name == path}
        # Files up to the last one were written without these values.
        if column is not None and column.is_taken:
            last = max((seq for seen, seq in held.items() if takes(kind, seen)), default=-1)
            start = max(1 + last, column.since or 0)
            self.columns[path] = replace(column, spans=(*column.spans, Span(kind, start)))
        else:
            old = () if column is None else column.spans
            start = 1 + max([-1, *held.values(), *(span.to_seq or 0 for span in old)])
            self.columns[path] = Column((*old, Span(kind, start)), start)
        for seen in held:
            if takes(kind, seen):
                del self.held[path, seen]
        self.rejected.discard(path)

    def _accept(self, entry: Entry) -> None:
        path, kind = entry.column, _kind(entry)
        column = self.columns.get(path)
        if column is None or not column.is_taken or widened(column.kind, kind) is kind:
            self._take(entry)
        elif (path, kind) in self.held:
            # It can never be the column's type; accepted is that such values come.
            self.held[path, kind] = replace(self.held[path, kind], what=Event.CONFLICT)

    def _hold(self, entry: Entry) -> None:
        path, kind = entry.column, _kind(entry)
        fresh = Held(entry.what, path, entry.from_type, kind, entry)
        old = self.held.get((path, kind), fresh)
        if entry.what is Event.PENDING:
            self.held[path, kind] = replace(old, what=entry.what)
            return
        now = entry.records or 0
        # A batch that is run again counts once.
        again = old.batch_records if old.batch_id == entry.batch_id else 0
        last = old.last_seq if entry.last_seq is None else max(old.last_seq, entry.last_seq)
        self.held[path, kind] = replace(
            old,
            what=entry.what,
            known=entry.from_type,
            records=old.records - again + now,
            last_seq=last,
            batch_id=entry.batch_id,
            batch_records=now,
        )

    def _give_up(self, entry: Entry) -> None:
        path, kept, bound = entry.column, entry.to_type, entry.last_seq or 0
        column = self.columns.get(path)
        if column is None:
            return
        spans = _given_up(column.spans, kept, bound)
        if spans:
            self.columns[path] = Column(spans, None if kept is None else column.since)
        else:
            del self.columns[path]
        gone = entry.from_type or column.kind
        self.held[path, gone] = Held(Event.RESCUED, path, kept, gone, entry, last_seq=bound)
        self.rejected.add(path)


def _given_up(spans: tuple[Span, ...], kept: Kind | None, bound: int) -> tuple[Span, ...]:
    """What is left of spans when a type narrower than theirs, or none, is kept."""
    ended = [
        span if kept is not None and takes(kept, span.kind) else _ended(span, bound)
        for span in spans
    ]
    left = [span for span in ended if span is not None]
    if kept is not None and all(span.to_seq is not None for span in left):
        start = min(span.from_seq for span in spans if span.to_seq is None)
        left.append(Span(kept, start))
    return tuple(left)


def _ended(span: Span, bound: int) -> Span | None:
    """The span up to a file; None if no file of it can have been read."""
    if span.to_seq is not None:
        return span
    return replace(span, to_seq=bound) if span.from_seq <= bound else None


def _kind(entry: Entry) -> Kind:
    if entry.to_type is None:
        raise ValueError(f"the entry {entry.what} of {entry.column} names no type")
    return entry.to_type
