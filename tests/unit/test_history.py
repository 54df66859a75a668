"""Records whose events leave values out: the same state whatever the order, split or repetition."""

import json
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from freshet.gold.history import (
    Change,
    Histories,
    State,
    as_changes,
    fields_of,
    in_order,
    record_of,
    settled,
)

KEYS = ("a", "b", "c")
NAMES = ("title", "body", "tags")


def value(text: str) -> str:
    return json.dumps(text)


@st.composite
def sources(draw: st.DrawFn) -> tuple[list[tuple[str, Change]], dict[str, dict[str, str]]]:
    """What a source does, as the events that a tool tells of it, and the table at its end."""
    table: dict[str, dict[str, str]] = {}
    events: list[tuple[str, Change]] = []
    for number in range(draw(st.integers(1, 25))):
        version = f"P{number:03d}"
        key = draw(st.sampled_from(KEYS))
        action = draw(st.sampled_from(["write", "write", "write", "delete", "move"]))
        if key not in table or (action == "write" and draw(st.booleans())):
            table[key] = {name: value(f"{name} {number}") for name in NAMES}
            events.append((key, Change(version, fields=dict(table[key]))))
        elif action == "write":
            kept = draw(st.sets(st.sampled_from(NAMES[1:])))
            table[key] |= {name: value(f"{name} {number}") for name in NAMES if name not in kept}
            events.append((key, left_out(version, table[key], kept)))
        elif action == "delete":
            del table[key]
            events.append((key, Change(version, is_deleted=True)))
        else:
            new = draw(st.sampled_from([other for other in KEYS if other != key]))
            if new in table:
                continue
            kept = draw(st.sets(st.sampled_from(NAMES[1:])))
            table[new] = table.pop(key)
            table[new] |= {name: value(f"{name} {number}") for name in NAMES if name not in kept}
            events.append((key, Change(f"{version} 0", is_deleted=True)))
            events.append((new, left_out(f"{version} 1", table[new], kept, key)))
    return events, table


def left_out(version: str, row: dict[str, str], kept: set[str], old: str | None = None) -> Change:
    known = {name: text for name, text in row.items() if name not in kept}
    return Change(version, fields=known, unavailable=frozenset(kept), old_key=old)


def histories_of(events: list[tuple[str, Change]]) -> Histories:
    return {key: in_order(one for owner, one in events if owner == key) for key in KEYS}


def states(histories: Histories) -> dict[str, State]:
    found = ((key, settled(key, histories)) for key in KEYS)
    return {key: state for key, state in found if state is not None}


@settings(max_examples=300, deadline=None)
@given(sources(), st.randoms(use_true_random=False))
def test_all_events_in_any_order_give_the_table(
    made: tuple[list[tuple[str, Change]], dict[str, dict[str, str]]], chooser: random.Random
) -> None:
    events, table = made
    again = events + chooser.choices(events, k=len(events) // 3)
    chooser.shuffle(again)
    alive = {
        key: state.fields
        for key, state in states(histories_of(again)).items()
        if not state.last.is_deleted
    }
    assert alive == table


@settings(max_examples=300, deadline=None)
@given(sources(), st.randoms(use_true_random=False))
def test_a_state_is_as_good_as_its_events(
    made: tuple[list[tuple[str, Change]], dict[str, dict[str, str]]], chooser: random.Random
) -> None:
    """A key's state and events that come later, in any order, lead where all its events lead.

    Keys that lent values, and records that wait, are not left to their states.
    """
    events, _ = made
    own = [(key, one) for key, one in events if one.old_key is None]
    chooser.shuffle(own)
    cut = chooser.randrange(len(own) + 1)
    whole = states(histories_of(own))
    kept: list[tuple[str, Change]] = []
    for key, state in states(histories_of(own[:cut])).items():
        if state.waits or state.last.is_deleted:
            kept += [(owner, one) for owner, one in own[:cut] if owner == key]
        else:
            kept += [(key, one) for one in as_changes(state.version, state.fields, state.filled)]
    after = states(histories_of(kept + own[cut:]))
    for key, state in whole.items():
        if not state.waits:
            assert after[key].fields == state.fields
            assert after[key].version == state.version


@settings(max_examples=200, deadline=None)
@given(sources(), st.randoms(use_true_random=False))
def test_more_events_never_make_a_version_smaller(
    made: tuple[list[tuple[str, Change]], dict[str, dict[str, str]]], chooser: random.Random
) -> None:
    events, _ = made
    chooser.shuffle(events)
    newest: dict[str, str] = {}
    for count in range(1, len(events) + 1):
        for key, state in states(histories_of(events[:count])).items():
            if not state.missing:
                assert state.version >= newest.get(key, "")
                newest[key] = state.version


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON_VALUES), st.sampled_from([None, 2]), st.booleans())
def test_records_are_taken_apart_and_put_together_without_loss(
    record: dict[str, object], indent: int | None, is_ascii: bool
) -> None:
    text = json.dumps(record, indent=indent, ensure_ascii=is_ascii)
    assert json.loads(record_of(fields_of(text))) == record


def test_numbers_keep_every_digit() -> None:
    text = '{"price": 12345678901234567890.10, "body": "x"}'
    assert fields_of(text)["price"] == "12345678901234567890.10"
