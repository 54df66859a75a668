"""Which events of a batch count, given what the table and the tombstones know. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from freshet.ordering import is_filled_from_before


class Event(NamedTuple):
    """What an event says of its key."""

    key: str | int
    version: str
    is_deleted: bool


@dataclass(frozen=True)
class Verdict:
    """Positions of the events that count, and how many do not, and why."""

    upserts: tuple[int, ...]
    deletes: tuple[int, ...]
    stale: int
    """Older than what the table or a tombstone has."""
    unchanged: int
    """The very version that the table has."""
    unsettled: tuple[int, ...] = ()
    """Positions of stale events that may have a better value for what their record has."""


def newest(events: Sequence[Event]) -> list[int]:
    """Positions of the newest event of each key: greatest version, a delete on a full tie.

    The same choice as `ordering.latest` makes, for events that are at hand already.
    """
    best: dict[str | int, int] = {}
    for position, event in enumerate(events):
        held = best.setdefault(event.key, position)
        if (event.version, event.is_deleted) > (events[held].version, events[held].is_deleted):
            best[event.key] = position
    return list(best.values())


def judge(
    events: Sequence[Event],
    current: Mapping[str | int, str],
    tombstones: Mapping[str, str],
    floor: str = "",
) -> Verdict:
    """Sorts the events of a batch, one a key, against the versions that are known of their keys.

    An upsert must be newer than the tombstone of its key, and than the floor, which is one for all
    keys. A delete that equals the tombstone still deletes: it may be the replay of a batch that
    crashed after its tombstones were written.
    """
    upserts, deletes, stale, unchanged, unsettled = [], [], 0, 0, []
    for position, event in enumerate(events):
        have = current.get(event.key, "")
        buried = max(tombstones.get(str(event.key), ""), floor)
        is_stale = event.version < max(have, buried)
        if event.is_deleted and not is_stale:
            deletes.append(position)
        elif is_stale or event.version == buried:
            stale += 1
            if event.version > buried and is_filled_from_before(have, event.version):
                unsettled.append(position)
        elif event.version == have:
            unchanged += 1
        else:
            upserts.append(position)
    return Verdict(tuple(upserts), tuple(deletes), stale, unchanged, tuple(unsettled))


def take_all(events: Sequence[Event]) -> Verdict:
    """Without versions every event counts: the batch is newer than everything before it."""
    upserts = tuple(place for place, event in enumerate(events) if not event.is_deleted)
    deletes = tuple(place for place, event in enumerate(events) if event.is_deleted)
    return Verdict(upserts, deletes, 0, 0)
