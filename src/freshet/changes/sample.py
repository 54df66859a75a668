"""A look at the first records, before anything is made: do the settings fit the data at all?"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from freshet.errors import SettingsError

_DEEPEST: Final = 3
_NAMES_SHOWN: Final = 12


def check_sample(records: Sequence[str], *, key: Sequence[str], text: Sequence[str]) -> None:
    """Raises `SettingsError` if no record has a key column, or none has any text column.

    Lenient on purpose: a column counts as there if it stands in the record or in an object inside
    it, wherever an envelope may keep the row. Records that are not JSON objects are passed over.
    """
    objects = [found for found in map(_parsed, records) if isinstance(found, dict)]
    if not objects:
        return
    seen = {name for found in objects for inner in _objects_in(found) for name in inner}
    for name in key:
        if name not in seen:
            raise SettingsError(_absent("changes.key", [name], objects))
    if text and not seen.intersection(text):
        raise SettingsError(_absent("gold.text", text, objects))


def _parsed(record: str) -> Any:
    try:
        return json.loads(record)
    except (ValueError, RecursionError):
        return None


def _objects_in(value: dict[str, Any], depth: int = 0) -> Iterator[dict[str, Any]]:
    yield value
    if depth < _DEEPEST:
        for inner in value.values():
            if isinstance(inner, dict):
                yield from _objects_in(inner, depth + 1)


def _absent(setting: str, names: Iterable[str], objects: Sequence[dict[str, Any]]) -> str:
    there = list(objects[0])
    shown = ", ".join(there[:_NAMES_SHOWN]) + (", …" if len(there) > _NAMES_SHOWN else "")
    return (
        f"{setting} names {', '.join(names)}, but none of the first {len(objects)} records has "
        f"that; the first one has {shown}"
    )
