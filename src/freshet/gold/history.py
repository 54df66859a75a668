"""What a record is after all its events, though tools leave out large values that did not change.

An event that leaves a value out says: it is what it was. So the value is that of the record's
newest earlier event that has it. An event that gave the record its key says under which key it was
before, and there the search goes on. `settled` is pure, and depends on the set of events only: not
on their order, not on how often each comes, and not on how they are cut into batches.

The state of a record is as good as its events: `as_changes` gives it back as the few events that
made it what it is.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from freshet.ordering import filled_version, version_of_event

Fields = Mapping[str, str]
"""The fields of a record, each as JSON text, so that nothing is lost on the way."""

_DECODER: Final = json.JSONDecoder()
_SPACE: Final = " \t\r\n"


@dataclass(frozen=True)
class Change:
    """One event of a key, or what is left of some in a state."""

    version: str
    is_deleted: bool = False
    fields: Fields = field(default_factory=dict)
    """Only those whose values are known."""
    unavailable: frozenset[str] = frozenset()
    """Fields whose values were left out."""
    old_key: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    """Versions of the events that values come from, where that is not this one."""
    is_remnant: bool = False
    """Whether it is no event of its own, but what a state keeps of one."""

    @property
    def order(self) -> tuple[str, bool, bool]:
        """A delete comes last on a full tie; a remnant stands for the event of its version."""
        return (self.version, self.is_deleted, self.is_remnant)


class Filled(NamedTuple):
    """Where the value of a field comes from that the newest event left out."""

    at: str
    """The version at which the key has it; that of the event which brought it from an old key."""
    source: str
    """The version of the event that has the value."""


@dataclass(frozen=True)
class State:
    """What a record is."""

    version: str
    """With the versions that left-out values come from, so that a better one counts as newer."""
    last: Change
    """The newest event."""
    fields: Fields = field(default_factory=dict)
    filled: Mapping[str, Filled] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    """Fields whose values no event has: the record cannot be made."""
    waits: bool = False
    """Whether a newer event waits for a value."""
    lenders: frozenset[str] = frozenset()
    """Old keys that were asked for values."""


Histories = Mapping[str, Sequence[Change]]
"""The changes of each key, in the order of `Change.order`."""


def in_order(changes: Iterable[Change]) -> list[Change]:
    """A key's changes, each once, oldest first."""
    return sorted({change.order: change for change in changes}.values(), key=lambda one: one.order)


def settled(key: str, histories: Histories) -> State | None:
    """What the record of a key is; None if it has no events.

    That is what its newest event says for which all values are there. One that must wait counts as
    if it had not come yet.
    """
    waits = False
    newest = None
    for change in reversed(histories.get(key, ())):
        if change.is_remnant:
            continue
        state = _after(change, key, histories)
        if not state.missing:
            return replace(state, waits=waits)
        newest, waits = newest or state, True
    return newest and replace(newest, waits=True)


def _after(event: Change, key: str, histories: Histories) -> State:
    """What a record is after an event, and which of its values no event has."""
    if event.is_deleted:
        return State(event.version, event)
    lenders: set[str] = set()
    fields, filled, missing = dict(event.fields), dict[str, Filled](), set[str]()
    for name in sorted(event.unavailable):
        found = _found(name, key, lambda version: version <= event.version, histories, lenders)
        if found is None:
            missing.add(name)
        else:
            fields[name], filled[name] = found
    version = filled_version(event.version, [one.source for one in filled.values()])
    return State(version, event, fields, filled, frozenset(missing), lenders=frozenset(lenders))


def _found(
    name: str,
    key: str,
    is_early: Callable[[str], bool],
    histories: Histories,
    lenders: set[str],
) -> tuple[str, Filled] | None:
    """The value that a field has under a key, by the changes whose versions are early enough."""
    for change in reversed(histories.get(key, ())):
        if change.is_deleted or not is_early(change.version):
            continue
        if name in change.fields:
            source = change.sources.get(name, change.version)
            return change.fields[name], Filled(change.version, source)
        if change.old_key is not None and name in change.unavailable:
            # What the key had before this event was another record's.
            lenders.add(change.old_key)
            return _lent(name, change, histories, lenders)
    return None


def _lent(
    name: str, move: Change, histories: Histories, lenders: set[str]
) -> tuple[str, Filled] | None:
    """The value that a field had under its record's old key, before the record moved."""
    old_key = move.old_key or ""
    found = _found(name, old_key, lambda version: version < move.version, histories, lenders)
    return None if found is None else (found[0], Filled(move.version, found[1].source))


def as_changes(version: str, fields: Fields, filled: Mapping[str, Filled]) -> Iterator[Change]:
    """A record's state as changes that lead to it, and to whatever further events make of it."""
    known = {name: value for name, value in fields.items() if name not in filled}
    yield Change(version_of_event(version), fields=known, unavailable=frozenset(filled))
    for at in {where.at for where in filled.values()}:
        sources = {name: where.source for name, where in filled.items() if where.at == at}
        kept = {name: fields[name] for name in sources}
        yield Change(at, fields=kept, sources=sources, is_remnant=True)


# --- text ----------------------------------------------------------------------------------------


def fields_of(record: str) -> dict[str, str]:
    """The fields of a JSON object, each as the very text that it has there."""
    place, fields = _skip(record, record.index("{") + 1), dict[str, str]()
    while record[place] != "}":
        name, place = _DECODER.raw_decode(record, place)
        start = _skip(record, _skip(record, place) + 1)  # behind the colon
        _, place = _DECODER.raw_decode(record, start)
        fields[name] = record[start:place]
        place = _skip(record, place)
        if record[place] == ",":
            place = _skip(record, place + 1)
    return fields


def record_of(fields: Fields) -> str:
    """The JSON object of some fields."""
    return "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in fields.items()) + "}"


def _skip(text: str, place: int) -> int:
    while text[place] in _SPACE:
        place += 1
    return place
