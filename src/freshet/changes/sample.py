"""A look at the first records, before anything is made: do the settings fit the data at all?"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from freshet.changes.normalise import AUTO, ENVELOPES
from freshet.changes.plain import PLAIN
from freshet.errors import SettingsError

_DEEPEST: Final = 3
_NAMES_SHOWN: Final = 12
_MAY_LOOK_PLAIN: Final = ("dms", "debezium-flat")
"""A full load of DMS, and flattened events that no metadata was added to, bear no marks."""


def check_sample(
    records: Sequence[str], *, key: Sequence[str], text: Sequence[str], envelope: str = AUTO
) -> None:
    """Raises `SettingsError` if the records are of another envelope, or lack what is named.

    That is: if no record has a key column, or none has any text column. Lenient on purpose: a
    column counts as there if it stands in the record or in an object inside it, wherever an
    envelope may keep the row. Records that are not JSON objects are passed over.
    """
    problem = wrong_envelope(records, envelope)
    if problem is not None:
        raise SettingsError(problem)
    objects = _objects_among(records)
    if not objects:
        return
    seen = {name for found in objects for inner in _objects_in(found) for name in inner}
    for name in key:
        if name not in seen:
            raise SettingsError(_absent("changes.key", [name], objects))
    if text and not seen.intersection(text):
        raise SettingsError(_absent("gold.text", text, objects))


def wrong_envelope(records: Sequence[str], envelope: str) -> str | None:
    """Why these records are not of the chosen envelope; None if they may be.

    They are not if more than half of them bear the marks of another one, or if none bears the marks
    of the chosen one. Records that are not JSON objects are passed over.
    """
    objects = _objects_among(records)
    if envelope == AUTO or envelope not in ENVELOPES or not objects:
        return None
    looks = [_look(found, envelope) for found in objects]
    likeliest, count = Counter(looks).most_common(1)[0]
    if likeliest not in (envelope, PLAIN.name) and count * 2 > len(objects):
        return _mistaken(envelope, likeliest, objects[looks.index(likeliest)], len(objects))
    needs_marks = envelope != PLAIN.name and envelope not in _MAY_LOOK_PLAIN
    if needs_marks and envelope not in looks:
        return _unmarked(envelope, objects)
    return None


def _look(record: dict[str, Any], chosen: str) -> str:
    """The envelope whose marks a record bears; the chosen one, if it bears those as well."""
    marked = [name for name in ENVELOPES if name != PLAIN.name]
    if chosen in marked:
        marked = [chosen, *(name for name in marked if name != chosen)]
    found = (name for name in marked if ENVELOPES[name].marks.in_record(record))
    return next(found, PLAIN.name)


def _mistaken(envelope: str, likeliest: str, record: dict[str, Any], count: int) -> str:
    names = ", ".join(_marks_in(record, likeliest))
    danger = ", and read as plain rows their deletes would be missed" * (envelope == PLAIN.name)
    return (
        f'changes.envelope is "{envelope}", but the first {count} records look like {likeliest} '
        f'(they have {names}){danger}: set envelope = "{likeliest}"'
    )


def _unmarked(envelope: str, objects: Sequence[dict[str, Any]]) -> str:
    ways = ENVELOPES[envelope].marks.alternatives
    wanted = " or ".join(" with ".join(map(".".join, way)) for way in ways)
    return (
        f'changes.envelope is "{envelope}", but none of the first {len(objects)} records has '
        f"{wanted}; the first one has {_names_of(objects[0])}: choose the envelope of the tool "
        f'that wrote them, or "{PLAIN.name}" for plain rows'
    )


def _marks_in(record: dict[str, Any], envelope: str) -> list[str]:
    marks = ENVELOPES[envelope].marks
    found = (way for way in marks.alternatives if type(marks)((way,)).in_record(record))
    return [".".join(path) for path in next(found, ())]


def _objects_among(records: Sequence[str]) -> list[dict[str, Any]]:
    return [found for found in map(_parsed, records) if isinstance(found, dict)]


def _parsed(record: str) -> Any:
    try:
        return json.loads(record)
    except (ValueError, RecursionError):
        return None


def _objects_in(value: dict[str, Any], depth: int = 0) -> Iterator[dict[str, Any]]:
    yield value
    if depth < _DEEPEST:
        for inner in value.values():
            # Some tools hold the row as text.
            opened = _parsed(inner) if isinstance(inner, str) and inner.startswith("{") else inner
            if isinstance(opened, dict):
                yield from _objects_in(opened, depth + 1)


def _absent(setting: str, names: Iterable[str], objects: Sequence[dict[str, Any]]) -> str:
    return (
        f"{setting} names {', '.join(names)}, but none of the first {len(objects)} records has "
        f"that; the first one has {_names_of(objects[0])}"
    )


def _names_of(record: dict[str, Any]) -> str:
    there = list(record)
    return ", ".join(there[:_NAMES_SHOWN]) + (", …" if len(there) > _NAMES_SHOWN else "")
