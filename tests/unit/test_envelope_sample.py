"""The look at the first records: settings that cannot fit the data are refused."""

import json
from typing import Any

import pytest

from freshet.changes import check_sample
from freshet.changes.normalise import AUTO, ENVELOPES
from freshet.changes.sample import wrong_envelope
from freshet.errors import SettingsError

EXAMPLES: dict[str, Any] = {
    "plain": {"id": 1, "title": "a", "op": "c"},
    "debezium": {"op": "c", "after": {"id": 1, "title": "a"}, "source": {"lsn": 1}},
    "dms": {"Op": "I", "id": "1", "title": "a"},
    "fivetran": {"id": 1, "title": "a", "_fivetran_synced": "2024-01-01T00:00:00Z"},
    "airbyte": {"_airbyte_data": '{"id": 1, "title": "a"}', "_airbyte_emitted_at": 1},
    "maxwell": {"database": "d", "table": "t", "type": "insert", "data": {"id": 1, "title": "a"}},
    "estuary": {"id": 1, "title": "a", "_meta": {"op": "c"}},
    "delta-cdf": {"id": 1, "title": "a", "_change_type": "insert", "_commit_version": 1},
}
MARKED = [name for name in EXAMPLES if name != "plain"]


def records(*names: str) -> list[str]:
    return [json.dumps(EXAMPLES[name]) for name in names]


def check(found: list[str], envelope: str = AUTO, *, key: str = "id", text: str = "title") -> None:
    check_sample(found, key=[key], text=[text], envelope=envelope)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_envelope_is_right_for_its_own_records_and_auto_for_all(name: str) -> None:
    check(records(name), name)
    check(records(name), AUTO)
    assert wrong_envelope(records(name), name) is None


@pytest.mark.parametrize("name", MARKED)
@pytest.mark.parametrize("chosen", EXAMPLES)
def test_records_of_another_tool_are_refused_with_the_name_of_theirs(
    chosen: str, name: str
) -> None:
    if chosen == name:
        return
    problem = wrong_envelope(records(name, name, "plain"), chosen)
    assert problem is not None
    assert f'changes.envelope is "{chosen}"' in problem
    assert f"look like {name}" in problem
    assert f'set envelope = "{name}"' in problem


def test_the_sentence_says_what_was_seen() -> None:
    with pytest.raises(SettingsError) as error:
        check(records("debezium"), "dms")
    assert str(error.value) == (
        'changes.envelope is "dms", but the first 1 records look like debezium '
        '(they have op, source): set envelope = "debezium"'
    )
    assert "deletes would be missed" in str(wrong_envelope(records("fivetran"), "plain"))


@pytest.mark.parametrize("name", [name for name in MARKED if name != "dms"])
def test_plain_rows_are_refused_where_a_tool_was_chosen(name: str) -> None:
    problem = wrong_envelope(records("plain", "plain"), name)
    assert problem is not None
    assert "none of the first 2 records has" in problem
    assert "the first one has id, title, op" in problem


def test_a_full_load_of_dms_may_look_plain() -> None:
    assert wrong_envelope(records("plain"), "dms") is None


def test_a_few_odd_records_are_no_reason_to_stop() -> None:
    found = records("fivetran", "fivetran", "debezium")
    assert wrong_envelope(found, "fivetran") is None
    assert wrong_envelope(["not json", "[1]", "null"], "fivetran") is None
    assert wrong_envelope([], "fivetran") is None


def test_a_column_called_op_is_no_mark_of_dms_by_itself() -> None:
    assert wrong_envelope(['{"id": 1, "Op": "approved"}'], "plain") is None


def test_every_envelope_has_an_example_here() -> None:
    assert ENVELOPES.keys() - {"debezium-flat"} == EXAMPLES.keys()


def test_columns_that_no_record_has_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"changes.key names key, but none of the first 1 reco"):
        check(records("plain"), key="key")
    with pytest.raises(SettingsError, match=r"gold.text names body, .* the first one has id, tit"):
        check(records("plain"), text="body")


@pytest.mark.parametrize("name", EXAMPLES)
def test_columns_are_found_wherever_an_envelope_keeps_the_row(name: str) -> None:
    check(records(name))
