"""The tables that Debezium's events lead to, found with neither Spark nor Freshet."""

import json
from collections.abc import Iterable
from typing import Any, Final

Event = dict[str, Any]
Row = dict[str, Any]

UNAVAILABLE: Final = "__debezium_unavailable_value"
_OLD_KEY: Final = "__debezium.oldkey"


def version_of(event: Event) -> tuple[int, int, int, int]:
    """Orders the events of a table: commit, place in the log, place in the transaction, arrival."""
    value = event["value"]
    commit, place = json.loads(value["source"]["sequence"])
    order = (value["transaction"] or {"total_order": 0})["total_order"]
    return int(commit or 0), int(place), order, event["seq"]


def replayed(events: Iterable[Event]) -> dict[str, Row]:
    """What the table holds after these events, in whatever order they come: key → row."""
    rows: dict[str, Row] = {}
    latest: dict[str, Row] = {}  # deleted ones too: a new key takes large values from the old one
    for event in sorted((event for event in events if event["value"]), key=version_of):
        key, value = key_text(event["key"]), event["value"]
        if value["op"] == "t":
            rows.clear()
        elif value["op"] == "d":
            rows.pop(key, None)
        else:
            before = latest.get(key_text(old_key(event) or event["key"]), {})
            rows[key] = latest[key] = {
                name: before[name] if is_unavailable(field) else field
                for name, field in value["after"].items()
            }
    return rows


def is_unavailable(field: Any) -> bool:
    """Whether Debezium left the value out, since it is large and did not change."""
    return field in (UNAVAILABLE, [UNAVAILABLE])


def key_text(key: Any) -> str:
    """A key as one text."""
    return json.dumps(key, sort_keys=True)


def old_key(event: Event) -> Any:
    """What the row was called before this event gave it its key; null if it did not."""
    named = {header["key"]: header["value"] for header in event["headers"]}
    return named.get(_OLD_KEY)
