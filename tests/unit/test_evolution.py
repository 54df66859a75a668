"""The records' schema: types, what a batch means for it, and the history that it is folded from."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshet import evolution
from freshet.errors import SchemaChangedError, SchemaError
from freshet.evolution import Entry, Event, History, Kind, Schema, Span
from freshet.evolution.decide import MOST_FIELDS, Mode, Seen, decide
from freshet.evolution.surface import is_fit, surfaced
from freshet.evolution.types import (
    Node,
    What,
    column_name,
    merged,
    names_of,
    parent_of,
    parsed,
    path_of,
    takes,
)
from freshet.settings import GoldSettings

AT = datetime(2026, 1, 1, tzinfo=UTC)


# --- what Spark says of a record -----------------------------------------------------------------


def kinds(schema: str) -> dict[str, str]:
    return {node.path: node.kind.value for node in parsed(schema)}


def test_a_schema_of_spark_is_read_with_all_that_is_inside() -> None:
    schema = (
        "OBJECT<a: BIGINT, b: ARRAY<OBJECT<x: DECIMAL(3,1), y: ARRAY<STRING>>>, c: VOID, "
        "d: OBJECT<>, e: ARRAY<VOID>, f: ARRAY<VARIANT>, g: DOUBLE, h: BOOLEAN>"
    )
    assert kinds(schema) == {
        "a": "long",
        "b": "array",
        "b[]": "struct",
        "b[].x": "decimal",
        "b[].y": "array",
        "b[].y[]": "string",
        "d": "struct",
        "e": "array",
        "f": "array",
        "f[]": "mixed",
        "g": "double",
        "h": "boolean",
    }


def test_names_of_any_characters_are_read_right() -> None:
    schema = (
        "OBJECT<``: BIGINT, `c,d:e<f>`: BOOLEAN, `q``t`: STRING, `x y`: OBJECT<`a.b`: BIGINT>, "
        "OBJECT: STRING, `[]`: BIGINT, `\n`: BIGINT, `é`: BIGINT, `a>: ARRAY<`: STRING>"
    )
    found = parsed(schema)
    assert [names_of(node.path) for node in found] == [
        [""],
        ["c,d:e<f>"],
        ["q`t"],
        ["x y"],
        ["x y", "a.b"],
        ["OBJECT"],
        ["[]"],
        ["\n"],
        ["é"],
        ["a>: ARRAY<"],
    ]
    assert [node.parent for node in found if node.parent] == ["`x y`"]


def test_what_is_deep_does_not_exhaust_the_stack() -> None:
    schema = "OBJECT<a: " * 2_000 + "BIGINT" + ">" * 2_000
    assert len(parsed(schema)) == 32


@given(st.lists(st.text(max_size=6), min_size=1, max_size=4))
def test_a_path_tells_its_names_and_its_parent(names: list[str]) -> None:
    path = path_of(*names)
    assert names_of(path) == names
    assert parent_of(path) == path_of(*names[:-1])
    assert column_name(path) == (names[0] if len(names) == 1 else None)


# --- merging: laws -------------------------------------------------------------------------------

KINDS = st.sampled_from([kind for kind in Kind if kind is not Kind.MIXED])
NUMBERS = st.sampled_from([Kind.LONG, Kind.DECIMAL, Kind.DOUBLE])


def trees(leaf: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Records as nested dicts (objects), one-element lists (arrays) and kinds."""
    return st.dictionaries(
        st.sampled_from("abcd"),
        st.recursive(
            leaf,
            lambda inner: (
                st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)
                | inner.map(lambda one: [one])
            ),
            max_leaves=4,
        ),
        max_size=4,
    )


def nodes_of(tree: Any, path: str = "", parent: str = "") -> list[Node]:
    if isinstance(tree, dict):
        own = [Node(path, parent, Kind.STRUCT)] if path else []
        inside = (
            nodes_of(value, f"{path}.{name}" if path else name, path)
            for name, value in tree.items()
        )
        return [*own, *itertools.chain.from_iterable(inside)]
    if isinstance(tree, list):
        return [Node(path, parent, Kind.ARRAY), *nodes_of(tree[0], f"{path}[]", path)]
    return [Node(path, parent, tree)]


def merged_all(records: Sequence[Any]) -> dict[str, Kind]:
    shape: dict[str, Kind] = {}
    for record in records:
        shape, _ = merged(shape, nodes_of(record))
    return shape


@given(st.lists(trees(KINDS), max_size=4))
def test_a_record_seen_again_changes_nothing(records: list[Any]) -> None:
    shape = merged_all(records)
    for record in records:
        again, changes = merged(shape, nodes_of(record))
        assert again == shape
        assert {change.what for change in changes} <= {What.CONFLICT}


@given(st.lists(trees(KINDS), max_size=4), trees(KINDS))
def test_nothing_narrows_and_a_conflict_changes_no_type(records: list[Any], more: Any) -> None:
    before = merged_all(records)
    after, changes = merged(before, nodes_of(more))
    assert all(takes(after[path], kind) for path, kind in before.items())
    for change in changes:
        if change.what is What.CONFLICT:
            assert after[change.column] is before[change.column] is change.known
        else:
            assert takes(after[change.column], change.seen)
            assert change.known is before.get(change.column)


@given(st.lists(trees(NUMBERS), max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_records_does_not_matter_where_nothing_conflicts(
    records: list[Any], chooser: Any
) -> None:
    shape: dict[str, Kind] = {}
    for record in records:
        shape, changes = merged(shape, nodes_of(record))
        if any(change.what is What.CONFLICT for change in changes):
            return
    shuffled = records.copy()
    chooser.shuffle(shuffled)
    assert merged_all(shuffled) == shape


@pytest.mark.parametrize(
    ("known", "seen", "what"),
    [
        ("BIGINT", "DOUBLE", What.WIDENED),
        ("BIGINT", "DECIMAL(3,1)", What.WIDENED),
        ("DOUBLE", "BIGINT", None),
        ("BIGINT", "STRING", What.CONFLICT),
        ("BOOLEAN", "BIGINT", What.CONFLICT),
        ("BIGINT", "OBJECT<x: BIGINT>", What.CONFLICT),
        ("OBJECT<x: BIGINT>", "ARRAY<BIGINT>", What.CONFLICT),
        ("STRING", "OBJECT<x: BIGINT>", None),
        ("STRING", "BIGINT", None),
        ("BIGINT", "VOID", None),
        ("VOID", "BIGINT", What.ADDED),
        ("ARRAY<BIGINT>", "ARRAY<DOUBLE>", What.WIDENED),
        ("ARRAY<BIGINT>", "ARRAY<VARIANT>", What.CONFLICT),
        ("OBJECT<x: BIGINT>", "OBJECT<y: BIGINT>", What.ADDED),
    ],
)
def test_what_a_value_means_for_a_column(known: str, seen: str, what: What | None) -> None:
    shape, _ = merged({}, parsed(f"OBJECT<c: {known}>"))
    _, changes = merged(shape, parsed(f"OBJECT<c: {seen}>"))
    assert [change.what for change in changes] == ([] if what is None else [what])


# --- decisions -----------------------------------------------------------------------------------


def seen(fields: str, seq: int = 1, row: int = 0, *, records: int = 1, last: int = 0) -> Seen:
    return Seen(f"OBJECT<{fields}>", records, f"f{seq}.json", seq, row, last or seq)


def taken_from(*fields: str, mode: Mode = Mode.EVOLVE) -> Schema:
    """A schema after batches of one kind of records each."""
    schema = Schema()
    for batch, one in enumerate(fields):
        decision = decide(schema, [seen(one, batch + 1)], mode, batch)
        schema = folded(schema, decision.entries)
    return schema


def folded(schema: Schema, entries: Sequence[Entry]) -> Schema:
    is_new = any(entry.what.changes_schema for entry in entries)
    return schema.after(replace(entry, version=schema.version + is_new) for entry in entries)


@pytest.mark.parametrize("mode", list(Mode))
def test_the_first_schema_is_taken_as_it_is(mode: Mode) -> None:
    decision = decide(Schema(), [seen("a: BIGINT, b: OBJECT<c: STRING>")], mode, 0)
    assert [(one.what, one.column) for one in decision.entries] == [
        (Event.ADDED, "a"),
        (Event.ADDED, "b"),
        (Event.ADDED, "b.c"),
    ]
    assert decision.stops == ()


def test_a_column_that_comes_and_widens_in_one_batch_comes_wide() -> None:
    looks = [seen("a: DECIMAL(2,1)", 2, records=3, last=4), seen("a: BIGINT", 1, records=5)]
    [entry] = decide(Schema(), looks, Mode.EVOLVE, 7).entries
    assert entry == Entry(
        Event.ADDED,
        "a",
        None,
        Kind.DECIMAL,
        file="f1.json",
        seq=1,
        row=0,
        last_seq=4,
        batch_id=7,
        records=8,
    )


def test_evolve_takes_what_is_new_and_wider_and_counts_conflicts() -> None:
    schema = taken_from("a: BIGINT, b: STRING")
    looks = [
        seen("a: DOUBLE, b: BIGINT, c: BOOLEAN", 2, 5, records=2),
        seen("a: STRING", 3, records=4, last=9),
        seen("a: BIGINT", 4, records=100),
    ]
    decision = decide(schema, looks, Mode.EVOLVE, 1)
    assert [(e.what, e.column, e.from_type, e.to_type, e.records) for e in decision.entries] == [
        (Event.WIDENED, "a", Kind.LONG, Kind.DOUBLE, 2),
        (Event.ADDED, "c", None, Kind.BOOLEAN, 2),
        (Event.CONFLICT, "a", Kind.DOUBLE, Kind.STRING, 4),
    ]
    after = folded(schema, decision.entries)
    assert after.shape == {"a": Kind.DOUBLE, "b": Kind.STRING, "c": Kind.BOOLEAN}
    assert after.held["a", Kind.STRING].last_seq == 9


def test_a_batch_that_is_run_again_changes_nothing() -> None:
    schema = taken_from("a: BIGINT")
    looks = [seen("a: STRING, b: BIGINT", 2, records=3)]
    after = folded(schema, decide(schema, looks, Mode.EVOLVE, 1).entries)
    assert decide(after, looks, Mode.EVOLVE, 1).entries == ()
    more = folded(after, decide(after, looks, Mode.EVOLVE, 2).entries)
    assert more.held["a", Kind.STRING].records == 6
    assert more.shape == after.shape


def test_rescue_takes_nothing_and_knows_it() -> None:
    schema = taken_from("a: BIGINT")
    looks = [seen("a: DOUBLE, b: OBJECT<x: BIGINT>", 2), seen("a: STRING", 3)]
    decision = decide(schema, looks, Mode.RESCUE, 1)
    assert [(entry.what, entry.column) for entry in decision.entries] == [
        (Event.RESCUED, "a"),
        (Event.RESCUED, "b"),
        (Event.RESCUED, "b.x"),
        (Event.CONFLICT, "a"),
    ]
    assert folded(schema, decision.entries).shape == schema.shape


def test_fail_stops_at_what_nobody_knows_and_tells_it_once() -> None:
    schema = taken_from("a: BIGINT")
    looks = [seen("a: BIGINT, b: BIGINT", 2, 7), seen("a: STRING", 3)]
    decision = decide(schema, looks, Mode.FAIL, 1)
    assert [entry.column for entry in decision.stops] == ["b", "a"]
    assert {entry.what for entry in decision.entries} == {Event.PENDING}
    stopped = folded(schema, decision.entries)
    assert stopped.shape == schema.shape
    again = decide(stopped, looks, Mode.FAIL, 1)
    assert again.entries == ()
    assert len(again.stops) == 2
    accepted = folded(stopped, evolution.acceptance(stopped))
    assert accepted.shape == {"a": Kind.LONG, "b": Kind.LONG}
    assert accepted.columns["b"].spans == (Span(Kind.LONG, 0),)
    gone_on = decide(accepted, looks, Mode.FAIL, 1)
    assert gone_on.stops == ()
    assert [entry.what for entry in gone_on.entries] == [Event.CONFLICT]


def test_fail_does_not_stop_at_what_was_rescued_before() -> None:
    schema = taken_from("a: BIGINT", "b: BIGINT", mode=Mode.RESCUE)
    decision = decide(schema, [seen("b: BIGINT", 3)], Mode.FAIL, 2)
    assert decision.stops == ()
    assert [entry.what for entry in decision.entries] == [Event.RESCUED]


def test_an_object_with_a_thousand_fields_is_a_map() -> None:
    keys = ", ".join(f"k{n}: OBJECT<v: BIGINT>" for n in range(MOST_FIELDS + 10))
    decision = decide(Schema(), [seen(f"m: OBJECT<{keys}>")], Mode.EVOLVE, 0)
    assert decision.too_wide == ("m",)
    assert len(decision.entries) == 1 + 2 * MOST_FIELDS


# --- what the files of a column decide -----------------------------------------------------------


def test_what_was_rescued_is_taken_from_the_next_file_on() -> None:
    schema = taken_from("a: BIGINT", mode=Mode.RESCUE)
    held = decide(schema, [seen("b: BIGINT", 3, last=8), seen("a: DOUBLE", 4)], Mode.RESCUE, 1)
    schema = folded(schema, held.entries)
    schema = folded(schema, evolution.acceptance(schema, ["b"]))
    assert schema.columns["b"] == evolution.Column((Span(Kind.LONG, 9),), 9)
    assert schema.shape["a"] is Kind.LONG
    schema = folded(schema, evolution.acceptance(schema))
    assert schema.columns["a"].spans == (Span(Kind.LONG), Span(Kind.DOUBLE, 5))
    assert evolution.acceptance(schema) == []


def test_to_accept_a_column_is_to_accept_what_is_inside_of_it() -> None:
    schema = taken_from("a: BIGINT", "b: OBJECT<x: ARRAY<BIGINT>>, bc: BIGINT", mode=Mode.RESCUE)
    schema = folded(schema, evolution.acceptance(schema, ["b"]))
    assert list(schema.shape) == ["a", "b", "b.x", "b.x[]"]
    with pytest.raises(SchemaError, match=r"nothing waits to be accepted of a column c: .* bc"):
        evolution.acceptance(schema, ["c"])


def test_of_two_types_that_do_not_go_together_the_first_is_accepted() -> None:
    schema = taken_from("a: BIGINT", "b: BIGINT", "b: STRING", mode=Mode.RESCUE)
    schema = folded(schema, evolution.acceptance(schema))
    assert schema.shape["b"] is Kind.LONG
    later = decide(schema, [seen("b: STRING", 9)], Mode.RESCUE, 9)
    assert [entry.what for entry in later.entries] == [Event.CONFLICT]


def test_a_rollback_undoes_what_came_after_and_it_does_not_come_back() -> None:
    first = taken_from("a: BIGINT")
    schema = taken_from("a: BIGINT", "a: DOUBLE, b: STRING", "c: BIGINT")
    assert schema.version == 3
    entries = evolution.rollback(schema, first, newest_file=6)
    assert [(e.column, e.from_type, e.to_type) for e in entries] == [
        ("a", Kind.DOUBLE, Kind.LONG),
        ("b", Kind.STRING, None),
        ("c", Kind.LONG, None),
    ]
    back = folded(schema, entries)
    assert back.shape == first.shape
    assert back.columns["a"].spans == (Span(Kind.LONG), Span(Kind.DOUBLE, 0, 6))
    assert back.columns["a"].widest is Kind.DOUBLE
    assert not back.columns["b"].is_taken
    looks = [seen("a: DOUBLE, b: STRING, d: STRING", 7), seen("a: DECIMAL(2,1), b: BIGINT", 8)]
    [stop] = decide(back, looks, Mode.FAIL, 9).stops
    assert stop.column == "d"
    after = folded(back, decide(back, looks, Mode.EVOLVE, 9).entries)
    assert after.shape == {"a": Kind.LONG, "d": Kind.STRING}
    assert {(held.column, held.seen, held.records) for held in after.held.values()} == {
        ("a", Kind.DOUBLE, 1),
        ("a", Kind.DECIMAL, 1),
        ("b", Kind.STRING, 1),
        ("b", Kind.LONG, 1),
        ("c", Kind.LONG, 0),
    }
    assert evolution.acceptance(after) == []
    taken = folded(after, evolution.acceptance(after, ["a"]))
    assert taken.columns["a"].spans == (
        Span(Kind.LONG),
        Span(Kind.DOUBLE, 0, 6),
        Span(Kind.DOUBLE, 9),
    )


def test_a_column_that_was_rolled_back_starts_anew_when_it_is_accepted() -> None:
    first, schema = taken_from("a: BIGINT"), taken_from("a: BIGINT", "b: STRING")
    back = folded(schema, evolution.rollback(schema, first, newest_file=4))
    with pytest.raises(SchemaError, match="b was rolled back and has not left the index yet"):
        evolution.acceptance(back, ["b"], in_index=["key", "b"])
    again = folded(back, evolution.acceptance(back, ["b"], in_index=["key"]))
    assert again.columns["b"].spans == (Span(Kind.STRING, 0, 4), Span(Kind.STRING, 5))
    assert again.columns["b"].since == 5
    assert again.rejected == frozenset()


def test_a_rollback_of_a_rollback_takes_the_columns_again() -> None:
    first, schema = taken_from("a: BIGINT"), taken_from("a: BIGINT", "a: DOUBLE, b: STRING")
    back = folded(schema, evolution.rollback(schema, first, newest_file=4))
    assert evolution.rollback(back, first, newest_file=9) == []
    forth = folded(back, evolution.rollback(back, schema, newest_file=9))
    assert forth.shape == schema.shape


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_what_a_record_holds_does_not_change_when_the_schema_does(data: st.DataObject) -> None:
    """The law behind verify: values are taken by record and history, whenever they are looked at.

    A model of the index: what each record's value was when its batch was written, columns that
    leave, and whatever people do between batches.
    """
    schema, index, seq = taken_from("a: BIGINT"), dict[Any, Any](), 1
    versions = [schema]
    for batch in range(data.draw(st.integers(2, 7))):
        mode = data.draw(st.sampled_from([Mode.EVOLVE, Mode.EVOLVE, Mode.RESCUE]))
        seq += data.draw(st.integers(0, 2))
        kind = data.draw(st.sampled_from(["BIGINT", "BIGINT", "DOUBLE", "STRING"]))
        files = [max(seq - data.draw(st.integers(0, 1)), 0), seq]
        looks = [seen(f"c: {kind}", files[0], batch, records=2, last=files[1])]
        schema = folded(schema, decide(schema, looks, mode, batch).entries)
        versions.append(schema)
        if held_back(schema):
            index = {place: (None, rescued) for place, (_, rescued) in index.items()}
        index |= {(n, batch, kind): surfacing(schema, n, kind) for n in files}
        action = data.draw(st.sampled_from(["none", "accept", "rollback"]))
        if action == "accept" and schema.held and not is_leaving(schema, index):
            schema = folded(schema, accepted(schema))
        if action == "rollback":
            then = data.draw(st.sampled_from(versions))
            if not is_leaving(schema, index):
                schema = folded(schema, evolution.rollback(schema, then, newest_file=seq))
        for (n, _, one), had in index.items():
            now = surfacing(schema, n, one)
            assert now[1] == had[1]
            assert held_back(schema) or now[0] == had[0]


def accepted(schema: Schema) -> list[Entry]:
    try:
        return evolution.acceptance(schema, ["c"])
    except SchemaError:
        return []


def held_back(schema: Schema) -> bool:
    return "c" not in schema.columns or not schema.columns["c"].is_taken


def is_leaving(schema: Schema, index: dict[Any, Any]) -> bool:
    """Whether the index still has values of a column that was rolled back."""
    return held_back(schema) and any(value for value, _ in index.values())


def surfacing(schema: Schema, seq: int, kind: str) -> tuple[str | None, bool]:
    """The value's type in the column, if it is there, and whether it is in `rescued`."""
    [node] = parsed(f"OBJECT<c: {kind}>")
    column = schema.columns.get("c")
    if column is None:
        return None, False
    covering = [s for s in column.spans if s.from_seq <= seq <= (s.to_seq or 10**9)]
    fits = any(takes(span.kind, node.kind) for span in covering)
    is_since = column.since is not None and seq >= column.since
    return kind if fits and is_since else None, bool(covering) and not fits


# --- names in the index --------------------------------------------------------------------------


def test_names_that_cannot_be_columns_of_the_index_are_left_out() -> None:
    names = ["title", "a b", "é", "Title", "Text", "key", "rescued", "is_deleted", "_rowid", "_id"]
    odd = ["a.b", "q`t", "it's", 'say "hi"', "a\\b", "", " ", "*", "a\nb", "__op"]
    fields = ", ".join("`" + name.replace("`", "``") + "`: STRING" for name in [*names, *odd])
    schema = taken_from(fields)
    assert [one.name for one in surfaced(schema)] == ["title", "a b", "é", "_id"]
    assert not any(is_fit(name) for name in odd)


def test_types_of_columns_become_types_of_attributes() -> None:
    fields = (
        "a: BOOLEAN, b: BIGINT, c: DECIMAL(2,1), d: DOUBLE, e: STRING, f: ARRAY<BIGINT>, "
        "g: OBJECT<x: BIGINT>, h: VOID"
    )
    assert [one.type for one in surfaced(taken_from(fields))] == [
        "boolean",
        "long",
        "double",
        "double",
        "string",
        "string",
        "string",
    ]


def test_all_columns_are_chosen_by_a_star_that_stands_alone() -> None:
    for star in ("*", ["*"]):
        gold = GoldSettings(text=("title",), attributes=star)  # type: ignore[arg-type]
        assert gold.takes_all
        assert gold.rescues
        assert gold.attribute_types == {}
    assert not GoldSettings(text=("title",), attributes=("a", "b:string")).rescues
    assert GoldSettings(text=("title",), attributes=("a", "b:long")).rescues
    for wrong in ("title", ["*", "a"], ["rescued"]):
        with pytest.raises(ValueError, match="attributes"):
            GoldSettings(text=("title",), attributes=wrong)  # type: ignore[arg-type]


# --- the history on disk -------------------------------------------------------------------------


def entry(column: str, kind: Kind = Kind.LONG, what: Event = Event.ADDED) -> Entry:
    return Entry(what, column, None, kind, file="f.json", seq=1, row=0, batch_id=0, records=1)


def test_a_history_is_empty_until_something_happens_and_makes_nothing(tmp_path: Path) -> None:
    history = History(str(tmp_path / "schema"))
    assert history.schema() == Schema()
    assert history.entries() == []
    assert history.append(lambda _: []) == ()
    assert evolution.summary(str(tmp_path / "schema")) == evolution.Summary(0, 0, 0, 0)
    assert not (tmp_path / "schema").exists()


def test_two_processes_append_on_top_of_each_other(tmp_path: Path) -> None:
    one, two = (History(str(tmp_path / "schema"), lambda: AT) for _ in range(2))
    one.append(lambda _: [entry("a"), entry("b")])
    assert two.schema().version == 1
    two.append(lambda _: [entry("c")])
    asked: list[int] = []

    def decide_late(schema: Schema) -> list[Entry]:
        asked.append(schema.version)
        if len(asked) == 1:
            two.append(lambda _: [entry("d")])
        return [entry("e")]

    [written] = one.append(decide_late)
    assert asked == [2, 3]
    assert written.version == 4
    assert [(e.version, e.column) for e in two.entries()] == [
        (1, "a"),
        (1, "b"),
        (2, "c"),
        (3, "d"),
        (4, "e"),
    ]
    assert one.schema().shape == two.schema().shape == dict.fromkeys("abcde", Kind.LONG)


def test_a_long_history_reads_as_it_was_written(tmp_path: Path) -> None:
    uri = str(tmp_path / "schema")
    history = History(uri)
    history.append(lambda _: [entry("a")])
    for batch in range(40):
        conflict = Entry(Event.CONFLICT, "a", Kind.LONG, Kind.STRING, batch_id=batch, records=2)
        history.append(lambda _, conflict=conflict: [conflict])  # type: ignore[misc]
    assert History(uri).schema() == history.schema()
    assert [entry.place for entry in history.entries()] == list(range(41))
    assert evolution.summary(uri) == evolution.Summary(1, 1, 0, 80)


def test_the_sentence_of_a_stop_names_columns_types_file_and_what_to_do() -> None:
    error = SchemaChangedError(["column b (long) is new"], batch_id=3, file="x.json", row=7)
    assert str(error) == (
        "the schema of the records changed: column b (long) is new (first in x.json, row 7, "
        'batch 3), and landing.schema_mode is "fail". Nothing of the batch was written. '
        "`freshet schema accept` takes the change, and the next run goes on"
    )
