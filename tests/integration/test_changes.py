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
    )
    assert [row["key"] for row in made] == ['["x","y\\",\\"z"]', '["x\\",\\"y","z"]']


def test_column_names_may_have_any_characters(spark: SparkSession) -> None:
    made = one(spark, {"the.id": 1, "it's": 2}, key=("the.id", "it's"))
    assert made["key"] == '["1","2"]'
    with pytest.raises(SettingsError, match="both kinds of quotes"):
        one(spark, {}, key=("a'\"",))


def test_large_numbers_stay_whole(spark: SparkSession) -> None:
    assert one(spark, {"id": 9007199254740993})["key"] == "9007199254740993"


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
    assert normalise(frame, key=["id"]).collect()[0]["error"] == "the file is gone"


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


def test_debezium_inserts_updates_and_reads_take_the_after_image(spark: SparkSession) -> None:
    for op in ("c", "u", "r"):
        made = one(spark, debezium(op, after={"id": 7, "t": "x"}, ts_ms=1_700_000_000_000))
        assert (made["key"], made["op"], made["is_deleted"], made["error"]) == (
            "7",
            op,
            False,
            None,
        )
        assert json.loads(made["record"]) == {"id": 7, "t": "x"}
        assert made["changed_at"].timestamp() == 1_700_000_000


def test_a_debezium_delete_takes_the_before_image(spark: SparkSession) -> None:
    made = one(spark, debezium("d", before={"id": 7, "t": None}, lsn=5))
    assert (made["key"], made["is_deleted"], made["error"]) == ("7", True, None)


def test_debezium_with_a_schema_or_a_key_around_it_is_the_same(spark: SparkSession) -> None:
    event = debezium("c", after={"id": 7}, lsn=5)
    forms = [
        event,
        {"schema": {"type": "struct"}, "payload": event},
        {"key": {"id": 7}, "value": event},
        {"key": '{"id":7}', "value": json.dumps(event), "headers": []},
    ]
    made = [one(spark, form) for form in forms]
    assert {(row["key"], row["record_version"], row["error"]) for row in made} == {
        ("7", "- P015 - - P010 P010", None)
    }


@pytest.mark.parametrize("tombstone", ["null", '{"schema":null,"payload":null}'])
def test_a_tombstone_is_kept_and_does_nothing(spark: SparkSession, tombstone: str) -> None:
    for envelope in ("auto", "debezium"):
        [made] = changes_of(spark, [tombstone], envelope=envelope)
        assert (made["op"], made["key"], made["error"]) == ("tombstone", None, None)


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (debezium("x", lsn=1), "the Debezium op x is not understood"),
        (debezium("c", lsn=1), "a Debezium event without after"),
        (debezium("d", lsn=1), "a Debezium delete without before"),
        ({"id": 1}, "not a Debezium event: there is no op"),
        (debezium("c", after={"other": 1}), "no value in the key column id"),
    ],
)
def test_debezium_events_that_are_not_understood_say_why(
    spark: SparkSession, event: dict[str, Any], reason: str
) -> None:
    assert one(spark, event, envelope="debezium")["error"] == reason


def test_postgres_orders_by_sequence_and_not_by_lsn_alone(spark: SparkSession) -> None:
    """A row that is written first and committed last carries the older LSN."""
    late_commit = debezium("u", after={"id": 1}, lsn=100, sequence='["300","100"]')
    early_commit = debezium("u", after={"id": 1}, lsn=200, sequence='["200","200"]')
    snapshot = debezium("r", after={"id": 1}, lsn=150, sequence='[null,"150"]')
    made = [one(spark, event)["record_version"] for event in (snapshot, early_commit, late_commit)]
    assert made == sorted(made)


def test_order_inside_a_transaction_breaks_ties(spark: SparkSession) -> None:
    made = []
    for order in (9, 10):
        event = debezium("u", after={"id": 1}, lsn=5, sequence='["7","5"]')
        made.append(one(spark, event | {"transaction": {"total_order": order}})["record_version"])
    assert made == sorted(made)


def test_mysql_and_sql_server_have_positions_of_their_own(spark: SparkSession) -> None:
    mysql = [
        debezium("u", after={"id": 1}, file="bin.000009", pos=99, row=0),
        debezium("u", after={"id": 1}, file="bin.000010", pos=4, row=0),
        debezium("u", after={"id": 1}, file="bin.000010", pos=4, row=1),
        debezium("u", after={"id": 1}, file="bin.000010", pos=30, row=0),
    ]
    server = [
        debezium("u", after={"id": 1}, commit_lsn="0:1:9", change_lsn="0:1:2", event_serial_no=1),
        debezium("u", after={"id": 1}, commit_lsn="0:1:9", change_lsn="0:1:2", event_serial_no=2),
    ]
    for events in (mysql, server):
        found = [one(spark, event)["record_version"] for event in events]
        assert found == sorted(found)
        assert len(set(found)) == len(found)


def test_auto_tells_the_two_apart_record_by_record(spark: SparkSession) -> None:
    records = [json.dumps(debezium("c", after={"id": 1}, lsn=3)), '{"id":2,"op":"c"}', "null"]
    made = changes_of(spark, records, envelope="auto")
    assert [row["key"] for row in made] == ["1", "2", None]
    assert [row["op"] for row in made] == ["c", "u", "tombstone"]
    assert [row["error"] for row in made] == [None] * 3


def test_real_events_of_postgres_end_in_the_table_they_came_from(spark: SparkSession) -> None:
    """Inserts, updates, deletes, snapshot reads and tombstones that Debezium 3.4 really wrote."""
    lines = (DATA / "debezium_articles.jsonl").read_text().split("\n")[:-1]
    made = changes_of(spark, lines, envelope="debezium")
    assert {row["error"] for row in made} == {None}
    latest: dict[str, dict[str, Any]] = {}
    for row in made:
        held = latest.get(row["key"])
        if row["key"] is not None and (
            held is None or row["record_version"] > held["record_version"]
        ):
            latest[row["key"]] = row
    alive = {key: json.loads(row["record"]) for key, row in latest.items() if not row["is_deleted"]}
    lines = (DATA / "debezium_articles_final.jsonl").read_text().split("\n")[:-1]
    final = [json.loads(line) for line in lines]
    assert sorted(alive, key=int) == [str(row["id"]) for row in final]
    titles = {row["id"]: row["title"] for row in final}
    assert {int(key): row["title"] for key, row in alive.items()} == titles
