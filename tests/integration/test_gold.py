"""Gold: the latest version of every key, its text and its attributes."""

import json
from datetime import UTC, date, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from freshet.gold import Attribute, Taken, latest, project
from freshet.sink.judge import Event, newest

CHANGES = (
    "key string, record_version string, is_deleted boolean, record string, raw string, error string"
)


def project_one(spark: SparkSession, raw: str, **options: Any) -> dict[str, Any]:
    frame = spark.createDataFrame([("k", "P011", False, None, raw, None)], CHANGES)
    return project(frame, **options).collect()[0].asDict()


def test_text_is_the_columns_one_a_line_without_the_absent_ones(spark: SparkSession) -> None:
    raw = '{"title":"T","body":null,"n":5,"deep":{"b":1}}'
    made = project_one(spark, raw, text=["title", "body", "n", "deep", "absent"])
    assert made["text"] == 'T\n5\n{"b":1}'


def test_a_template_is_filled_and_absent_values_are_empty(spark: SparkSession) -> None:
    made = project_one(spark, '{"a":"x"}', template="{{{a}}} / {b}.")
    assert made["text"] == "{x} / ."


def test_attributes_have_their_types_and_misfits_are_rescued(spark: SparkSession) -> None:
    raw = (
        '{"s":1,"i":"7","l":9007199254740993,"d":"1.5","b":"true","day":"2024-02-29",'
        '"at":"2024-01-01T00:00:00+01:00","bad":"x","cut":1.5,"big":3000000000,"none":null,'
        '"it\'s":{"a":[1]}}'
    )
    kinds = {
        "s": "string",
        "i": "int",
        "l": "long",
        "d": "double",
        "b": "boolean",
        "day": "date",
        "at": "timestamp",
        "bad": "long",
        "cut": "long",
        "big": "int",
        "none": "long",
        "absent": "double",
        "it's": "date",
    }
    made = project_one(spark, raw, text=["s"], attributes=kinds, with_rescued=True)
    assert {name: made[name] for name in kinds if name != "at"} == {
        "s": "1",
        "i": 7,
        "l": 9007199254740993,
        "d": 1.5,
        "b": True,
        "day": date(2024, 2, 29),
        "bad": None,
        "cut": None,
        "big": None,
        "none": None,
        "absent": None,
        "it's": None,
    }
    assert made["at"].astimezone(UTC) == datetime(2023, 12, 31, 23, tzinfo=UTC)
    assert json.loads(made["rescued"]) == {
        "bad": "x",
        "cut": 1.5,
        "big": 3000000000,
        "it's": {"a": [1]},
    }


def test_nothing_is_rescued_where_everything_fits(spark: SparkSession) -> None:
    made = project_one(spark, '{"n":7}', attributes={"n": "long"}, with_rescued=True)
    assert (made["n"], made["rescued"]) == (7, None)
    assert "rescued" not in project_one(spark, '{"n":7}', attributes={"n": "long"})


def test_what_an_attribute_takes_depends_on_the_type_and_on_the_file(spark: SparkSession) -> None:
    number = Attribute("n", "double", (Taken(("long",), 2), Taken(("long", "double"), 4, 5)), 3)
    left = Attribute("gone", "long", (Taken(("long",), 0, 3),), None)
    rows = [
        (seq, f"{seq}{kind}", f'{{"n":{value},"gone":{value}}}')
        for seq in range(1, 7)
        for kind, value in (("long", "7"), ("double", "7e0"), ("text", '"7"'))
    ]
    frame = spark.createDataFrame(
        [("k", version, False, None, raw, None, seq) for seq, version, raw in rows],
        CHANGES + ", seq bigint",
    )
    made = project(frame, attributes=[number, left], with_rescued=True)
    assert made.columns == ["key", "record_version", "is_deleted", "text", "n", "rescued"]
    found = {row["record_version"]: (row["n"], row["rescued"]) for row in made.collect()}
    values = {version for version, (value, _) in found.items() if value is not None}
    assert values == {"3long", "4long", "5long", "6long", "4double", "5double"}
    rescued = {version: json.loads(text) for version, (_, text) in found.items() if text}
    assert rescued == {
        "1double": {"gone": 7.0},
        "1text": {"gone": "7"},
        "2double": {"n": 7.0, "gone": 7.0},
        "2text": {"n": "7", "gone": "7"},
        "3double": {"n": 7.0, "gone": 7.0},
        "3text": {"n": "7", "gone": "7"},
        "4text": {"n": "7"},
        "5text": {"n": "7"},
        "6double": {"n": 7.0},
        "6text": {"n": "7"},
    }


def test_the_row_image_comes_from_record_where_it_is_not_the_raw_text(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [("k", "P011", False, '{"t":"in"}', '{"t":"out"}', None)], CHANGES
    )
    assert project(frame, text=["t"]).collect()[0]["text"] == "in"


def test_quarantine_and_keyless_events_are_left_out(spark: SparkSession) -> None:
    rows = [
        ("a", "P011", False, None, "{}", None),
        ("b", "P011", False, None, "{", "not JSON"),
        (None, "P011", False, None, "null", None),
    ]
    frame = spark.createDataFrame(rows, CHANGES)
    assert [row["key"] for row in project(frame, text=["t"]).collect()] == ["a"]


EVENTS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(["P011", "P012", "P013"]), st.booleans()),
    max_size=25,
)


@settings(max_examples=12, deadline=None)
@given(EVENTS)
def test_latest_and_newest_choose_the_same(
    spark: SparkSession, events: list[tuple[str, str, bool]]
) -> None:
    """Written twice, for Spark and for rows at hand: they must agree."""
    frame = spark.createDataFrame(events, "key string, record_version string, is_deleted boolean")
    by_spark = {tuple(row) for row in latest(frame).collect()}
    assert by_spark == {events[place] for place in newest([Event(*event) for event in events])}
