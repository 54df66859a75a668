"""The short way and the long way of Debezium's events give the same change."""

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from freshet.changes import normalise

LANDING = "record string, file string, row bigint, seq bigint"
COMPARED = ("key", "op", "is_deleted", "record_version", "record", "changed_at", "error")
BIGGEST, SMALLEST = (1 << 63) - 1, -(1 << 63)
SEQUENCE = '["24023119","24023128"]'


def event(image: str, *, op: str = "u", sequence: str | None = SEQUENCE) -> str:
    """An event whose image is given as its text, so that numbers stand as they are written."""
    source = {"connector": "postgresql", "ts_ms": 1_700_000_000_000, "lsn": 24_023_128}
    if sequence is not None:
        source["sequence"] = sequence
    before, after = (image, "null") if op == "d" else ("null", image)
    return (
        f'{{"before":{before},"after":{after},"source":{json.dumps(source)},'
        f'"op":"{op}","transaction":{{"id":"1","total_order":3}}}}'
    )


IMAGES = {
    "a whole number first": '{"id":7,"title":"a"}',
    "below zero": '{"id":-7,"title":"a"}',
    "the only column": '{"id":7}',
    "not first": '{"title":"a","id":7}',
    "a text": '{"id":"7","title":"a"}',
    "a text with a comma": '{"id":"7,8","title":"a"}',
    "the biggest": f'{{"id":{BIGGEST},"title":"a"}}',
    "the smallest": f'{{"id":{SMALLEST},"title":"a"}}',
    "one digit more than fits": f'{{"id":{SMALLEST}0,"title":"a"}}',
    "many digits more": f'{{"id":{BIGGEST}{BIGGEST},"title":"a"}}',
    "a fraction": '{"id":7.5,"title":"a"}',
    "a name that begins alike": '{"id2":1,"id":7}',
    "fractions that are doubles": '{"id":7,"price":1.5}',
    "fractions beyond doubles": '{"id":7,"price":0.10000000000000000555,"big":1.10}',
    "spaces": '{ "id" : 7 , "price" : 1.50 }',
    "escapes": '{"id":7,"title":"caf\\u00e9 \\"quoted\\" \\/"}',
    "inside": '{"id":7,"tags":["a","b"],"more":{"after":{"id":9},"n":2.25}}',
    "null as the key": '{"id":null,"title":"a"}',
}


def understood(spark: SparkSession, records: list[str]) -> list[dict[str, Any]]:
    rows = [(one, "f", 0, number) for number, one in enumerate(records)]
    made = normalise(spark.createDataFrame(rows, LANDING), envelope="debezium", key=["id"])
    found = {row["seq"]: row.asDict() for row in made.collect()}
    return [{name: found[at][name] for name in COMPARED} for at in range(len(records))]


def without_arrival(change: dict[str, Any]) -> dict[str, Any]:
    """A change but for the components of its version that tell when it came."""
    position = change["record_version"].rsplit(" ", 2)[0]
    record = change["record"] and json.loads(change["record"], parse_float=str)
    return change | {"record_version": position, "record": record}


def test_both_ways_give_the_same_change(spark: SparkSession) -> None:
    events = [event(image) for image in IMAGES.values()]
    events += [event(IMAGES["inside"], op=op) for op in "crd"]
    sequences = (None, '[null,"5"]', "[3,5]", '["3", "5"]', "nonsense")
    events += [event(IMAGES["not first"], sequence=one) for one in sequences]
    # A schema around an event sends it the long way.
    around = [f'{{"schema":{{"type":"struct"}},"payload":{one}}}' for one in events]
    made = understood(spark, events + around)
    short, long = made[: len(events)], made[len(events) :]
    for sent, one, other in zip(events, short, long, strict=True):
        assert without_arrival(one) == without_arrival(other), sent


@pytest.mark.parametrize(
    ("image", "key"),
    [
        ("below zero", "-7"),
        ("the smallest", str(SMALLEST)),
        ("one digit more than fits", f"{SMALLEST}0"),
        ("a text with a comma", "7,8"),
        ("a name that begins alike", "7"),
    ],
)
def test_the_key_is_what_the_image_says(spark: SparkSession, image: str, key: str) -> None:
    [change] = understood(spark, [event(IMAGES[image])])
    assert change["key"] == key


def test_no_digit_of_a_number_is_lost(spark: SparkSession) -> None:
    [change] = understood(spark, [event(IMAGES["fractions beyond doubles"])])
    assert "0.10000000000000000555" in change["record"]
