from hypothesis import given
from hypothesis import strategies as st

from freshet.sink.judge import Event, judge, newest

VERSIONS = st.sampled_from(["P011", "P012", "P013", "P014"])
EVENTS = st.lists(
    st.builds(Event, st.sampled_from(["a", "b", "c"]), VERSIONS, st.booleans()), max_size=12
)
KNOWN = st.dictionaries(st.sampled_from(["a", "b", "c"]), VERSIONS)


def verdict_of(event: Event, have: str = "", buried: str = "") -> str:
    found = judge([event], {"a": have} if have else {}, {"a": buried} if buried else {})
    if found.upserts:
        return "upsert"
    if found.deletes:
        return "delete"
    return "stale" if found.stale else "unchanged"


def upsert(version: str) -> Event:
    return Event("a", version, is_deleted=False)


def delete(version: str) -> Event:
    return Event("a", version, is_deleted=True)


def test_a_new_key_is_written() -> None:
    assert verdict_of(upsert("P011")) == "upsert"


def test_an_older_version_never_undoes_a_newer_one() -> None:
    assert verdict_of(upsert("P011"), have="P012") == "stale"
    assert verdict_of(delete("P011"), have="P012") == "stale"


def test_the_version_that_the_table_has_changes_nothing() -> None:
    assert verdict_of(upsert("P012"), have="P012") == "unchanged"


def test_a_deleted_key_does_not_come_back_by_an_older_or_equal_event() -> None:
    assert verdict_of(upsert("P011"), buried="P012") == "stale"
    assert verdict_of(upsert("P012"), buried="P012") == "stale"
    assert verdict_of(upsert("P013"), buried="P012") == "upsert"


def test_a_delete_that_equals_its_tombstone_still_deletes() -> None:
    assert verdict_of(delete("P012"), have="P011", buried="P012") == "delete"


def test_a_delete_of_an_unknown_key_is_remembered() -> None:
    assert verdict_of(delete("P012")) == "delete"


@given(EVENTS)
def test_the_newest_event_of_a_key_is_the_greatest_and_a_delete_on_a_tie(
    events: list[Event],
) -> None:
    chosen = {events[place].key: events[place] for place in newest(events)}
    assert chosen.keys() == {event.key for event in events}
    for event in events:
        winner = chosen[event.key]
        assert (winner.version, winner.is_deleted) >= (event.version, event.is_deleted)


@given(EVENTS, KNOWN, KNOWN)
def test_every_event_gets_exactly_one_verdict(
    events: list[Event], current: dict[str, str], tombstones: dict[str, str]
) -> None:
    batch = [events[place] for place in newest(events)]
    found = judge(batch, current, tombstones)
    places = sorted([*found.upserts, *found.deletes])
    assert len(places) + found.stale + found.unchanged == len(batch)
    assert len(set(places)) == len(places)


@given(st.permutations([("u", 1), ("u", 2), ("d", 3), ("u", 4), ("d", 5)]))
def test_any_order_of_arrival_ends_the_same(order: list[tuple[str, int]]) -> None:
    row, grave = "", ""
    for kind, version in order:
        event = Event("a", f"P01{version}", kind == "d")
        found = judge([event], {"a": row} if row else {}, {"a": grave} if grave else {})
        if found.upserts:
            row = event.version
        if found.deletes:
            row, grave = "", max(grave, event.version)
    assert row == ""
