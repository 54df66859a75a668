"""Records of replication tools as changes."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from freshet import schemas
from freshet.changes import normalise, versions
from freshet.errors import SettingsError

DATA = Path(__file__).parent.parent / "data"
LANDING = "record string, file string, row bigint, seq bigint"


def changes_of(
    spark: SparkSession,
    records: list[str | None],
    *,
    key: tuple[str, ...] = ("id",),
    **options: Any,
) -> list[dict[str, Any]]:
    rows = [(record, "file.json", number, 0) for number, record in enumerate(records)]
    made = normalise(spark.createDataFrame(rows, LANDING), key=key, **options)
    assert made.columns == schemas.CHANGES.names
    return [row.asDict() for row in made.orderBy("row").collect()]


def one(spark: SparkSession, record: Any, **options: Any) -> dict[str, Any]:
    [change] = changes_of(spark, [json.dumps(record)], **options)
    return change


# --- plain ---------------------------------------------------------------------------------------


def test_plain_rows_keep_their_text_and_say_what_they_are(spark: SparkSession) -> None:
    made = changes_of(
        spark,
        ['{"id":1,"record_version":3}', '{"id":2,"record_version":4,"is_deleted":true}'],
        envelope="plain",
    )
    assert [row["key"] for row in made] == ["1", "2"]
    assert [row["is_deleted"] for row in made] == [False, True]
    assert [row["op"] for row in made] == ["u", "d"]
    assert [row["error"] for row in made] == [None, None]
    assert made[0]["raw"] == '{"id":1,"record_version":3}'
    assert [row["record"] for row in made] == [None, None]


@pytest.mark.parametrize(
    ("flag", "is_deleted"),
    [
        (True, True),
        ("TRUE", True),
        ("t", True),
        (1, True),
        ("0", False),
        (None, False),
        ("", False),
    ],
)
def test_the_deleted_flag_is_read_as_people_write_it(
    spark: SparkSession, flag: object, is_deleted: bool
) -> None:
    made = one(spark, {"id": 1, "gone": flag}, envelope="plain", deleted="gone")
    assert (made["is_deleted"], made["error"]) == (is_deleted, None)


def test_several_key_columns_make_one_key_without_confusion(spark: SparkSession) -> None:
    made = changes_of(
        spark,
        [json.dumps({"a": "x", "b": 'y","z'}), json.dumps({"a": 'x","y', "b": "z"})],
        key=("a", "b"),
        envelope="plain",
    )
    assert [row["key"] for row in made] == ['["x","y\\",\\"z"]', '["x\\",\\"y","z"]']


def test_column_names_may_have_any_characters(spark: SparkSession) -> None:
    made = one(spark, {"the.id": 1, "it's": 2}, key=("the.id", "it's"), envelope="plain")
    assert made["key"] == '["1","2"]'
    with pytest.raises(SettingsError, match="both kinds of quotes"):
        one(spark, {}, key=("a'\"",), envelope="plain")


def test_large_numbers_stay_whole(spark: SparkSession) -> None:
    assert one(spark, {"id": 9007199254740993}, envelope="plain")["key"] == "9007199254740993"


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("not json at all", "not JSON"),
        ('{"id": 1', "not JSON"),
        ('{"id": 1}{"id": 2}', "not JSON"),
        ('{"id": 1} trailing', "not JSON"),
        ("[1, 2]", "not a JSON object"),
        ('"text"', "not a JSON object"),
        ("42", "not a JSON object"),
        ('{"other": 1}', "no value in the key column id"),
        ('{"id": null}', "no value in the key column id"),
        ('{"id": 1, "is_deleted": "perhaps"}', "neither true nor false: perhaps"),
    ],
)
def test_what_is_not_understood_is_kept_and_says_why(
    spark: SparkSession, record: str, reason: str
) -> None:
    [made] = changes_of(spark, [record], envelope="plain")
    assert reason in made["error"]
    assert made["raw"] == record


def test_a_named_version_column_must_be_filled(spark: SparkSession) -> None:
    made = one(spark, {"id": 1}, envelope="plain", version="v")
    assert made["error"] == "no value in the version column v"


def test_a_reason_of_the_landing_source_is_passed_on(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [(None, "f", 0, 0, "the file is gone")], f"{LANDING}, error string"
    )
    made = normalise(frame, key=["id"], envelope="plain")
    assert made.collect()[0]["error"] == "the file is gone"


def test_an_unknown_envelope_is_refused(spark: SparkSession) -> None:
    with pytest.raises(SettingsError, match='the envelope "oracle" is not one of'):
        changes_of(spark, ["{}"], envelope="oracle")


# --- versions ------------------------------------------------------------------------------------


def version_order(spark: SparkSession, values: list[Any]) -> list[Any]:
    """The values in the order of the versions that a plain feed gives them."""
    records = [json.dumps({"id": 1, "record_version": value}) for value in values]
    made = changes_of(spark, records, envelope="plain")
    assert [row["error"] for row in made] == [None] * len(values)
    return [
        value for _, value in sorted(zip([r["record_version"] for r in made], values, strict=True))
    ]


def test_numbers_sort_as_numbers_whatever_their_spelling(spark: SparkSession) -> None:
    values = [10, "9", -2, "-2.5", 0, 2.25, "2.5", "007.1", 12345678901234567890123, 1.5e12, -300]
    assert version_order(spark, values) == sorted(values, key=lambda value: Decimal(str(value)))


def test_moments_sort_as_moments_whatever_their_digits(spark: SparkSession) -> None:
    values = [
        "2024-01-01",
        "2024-01-01T00:00:00.000000001Z",
        "2024-01-01T00:00:00.5Z",
        "2024-01-01T00:00:01Z",
        "2024-01-01 02:00:02+01:00",
        "2024-01-01T01:00:03Z",
    ]
    assert version_order(spark, list(reversed(values))) == values


def test_other_text_sorts_as_text(spark: SparkSession) -> None:
    values = ["a", "a b", "a!b", "aa", "ab", "b", "é", "漢"]
    assert version_order(spark, list(reversed(values))) == values


def test_equal_versions_are_ordered_by_arrival(spark: SparkSession) -> None:
    records = ['{"id":1,"record_version":5}'] * 12
    made = changes_of(spark, records, envelope="plain")
    found = [row["record_version"] for row in made]
    assert found == sorted(found)
    assert len(set(found)) == 12


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=6)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(TEXTS, st.integers(0, 10**20)), min_size=2, max_size=60))
def test_the_order_of_strings_is_the_order_of_tuples(
    spark: SparkSession, tuples: list[tuple[str, int]]
) -> None:
    frame = spark.createDataFrame(
        [(text, str(number)) for text, number in tuples], "t string, n string"
    )
    made = frame.select(
        versions.composed(versions.words(F.col("t")), versions.whole(F.col("n"))).alias("v")
    )
    encoded = [row["v"] for row in made.collect()]
    by_string = [pair for _, pair in sorted(zip(encoded, tuples, strict=True))]
    assert by_string == sorted(tuples)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=4), min_size=2, max_size=60)
)
def test_the_order_of_strings_is_the_order_of_numbers(
    spark: SparkSession, numbers: list[Decimal]
) -> None:
    texts = [format(number, "f") for number in numbers]
    frame = spark.createDataFrame([(text,) for text in texts], "t string")
    encoded = [r["v"] for r in frame.select(versions.component(F.col("t")).alias("v")).collect()]
    assert [n for _, n in sorted(zip(encoded, numbers, strict=True))] == sorted(numbers)


# --- debezium ------------------------------------------------------------------------------------


def debezium(op: str, *, before: Any = None, after: Any = None, **source: Any) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after, "source": source, "ts_ms": 1}


def debezium_changes(spark: SparkSession, *events: Any) -> list[dict[str, Any]]:
    """The changes of some events, which arrive in the opposite order."""
    records = [json.dumps(event) for event in reversed(events)]
    return list(reversed(changes_of(spark, records, envelope="debezium")))


def test_debezium_takes_the_after_image_and_of_a_delete_the_one_before(spark: SparkSession) -> None:
    row = {"id": 7, "t": "x"}
    images = [debezium(op, after=row, ts_ms=1_700_000_000_000) for op in "cur"]
    delete = debezium("d", before={"id": 7, "t": None}, lsn=5)
    *made, last = debezium_changes(spark, *images, delete)
    for op, change in zip("cur", made, strict=True):
        found = (change["key"], change["op"], change["is_deleted"], change["error"])
        assert found == ("7", op, False, None)
        assert json.loads(change["record"]) == row
        assert change["changed_at"].timestamp() == 1_700_000_000
    assert (last["key"], last["is_deleted"], last["error"]) == ("7", True, None)


def test_debezium_with_a_schema_or_a_key_around_it_is_the_same(spark: SparkSession) -> None:
    event = debezium("c", after={"id": 7}, lsn=5)
    forms = [
        event,
        {"schema": {"type": "struct"}, "payload": event},
        {"key": {"id": 7}, "value": event},
        {"key": '{"id":7}', "value": json.dumps(event), "headers": []},
    ]
    made = debezium_changes(spark, *forms)
    assert {(row["key"], row["record_version"][:-4], row["error"]) for row in made} == {
        ("7", "- P015 - - P010 ", None)
    }


def test_a_tombstone_is_kept_and_does_nothing(spark: SparkSession) -> None:
    for envelope in ("auto", "debezium"):
        for made in changes_of(spark, ["null", '{"schema":{},"payload":null}'], envelope=envelope):
            assert (made["op"], made["key"], made["error"]) == ("tombstone", None, None)


def test_debezium_events_that_are_not_understood_say_why(spark: SparkSession) -> None:
    reasons = {
        "the Debezium op x is not understood": debezium("x", lsn=1),
        "a Debezium event without after": debezium("c", lsn=1),
        "a Debezium delete without before": debezium("d", lsn=1),
        "not a Debezium event: there is no op": {"id": 1},
        "no value in the key column id": debezium("c", after={"other": 1}),
    }
    made = debezium_changes(spark, *reasons.values())
    assert [change["error"] for change in made] == list(reasons)


def test_positions_order_the_events_of_each_source(spark: SparkSession) -> None:
    row = {"id": 1}
    # A row that is written first and committed last carries the older LSN.
    postgres = [
        debezium("r", after=row, lsn=150, sequence='[null,"150"]'),
        debezium("u", after=row, lsn=200, sequence='["200","200"]'),
        debezium("u", after=row, lsn=100, sequence='["300","100"]'),
        *(
            debezium("u", after=row, lsn=500, sequence='["500","500"]')
            | {"transaction": {"total_order": order}}
            for order in (9, 10)
        ),
    ]
    mysql = [
        debezium("u", after=row, file="bin.000009", pos=99, row=0),
        debezium("u", after=row, file="bin.000010", pos=4, row=0),
        debezium("u", after=row, file="bin.000010", pos=4, row=1),
        debezium("u", after=row, file="bin.000010", pos=30, row=0),
    ]
    server = [
        debezium("u", after=row, commit_lsn="0:1:9", change_lsn="0:1:2", event_serial_no=serial)
        for serial in (1, 2)
    ]
    made = debezium_changes(spark, *postgres, *mysql, *server)
    found = [change["record_version"] for change in made]
    for versions_of_source in (found[:5], found[5:9], found[9:]):
        assert versions_of_source == sorted(versions_of_source)


def test_auto_tells_the_two_apart_record_by_record(spark: SparkSession) -> None:
    records = [json.dumps(debezium("c", after={"id": 1}, lsn=3)), '{"id":2,"op":"c"}', "null"]
    made = changes_of(spark, records, envelope="auto")
    assert [row["key"] for row in made] == ["1", "2", None]
    assert [row["op"] for row in made] == ["c", "u", "tombstone"]
    assert [row["envelope"] for row in made] == ["debezium", "plain", "debezium"]
    assert [row["error"] for row in made] == [None] * 3
