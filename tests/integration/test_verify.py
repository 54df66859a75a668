"""verify must find every way in which an index can be wrong."""

import json
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from freshet import Pipeline, Settings

MakeSettings = Callable[..., Settings]


@pytest.fixture
def pipeline(spark: SparkSession, tmp_path: Path, settings: MakeSettings) -> Pipeline:
    chosen = settings(gold={"chunk_tokens": 8, "chunk_overlap": 0})
    long = " ".join(f"w{n}" for n in range(20))
    records = [
        {"id": f"k{n}", "record_version": 1, "title": "t", "body": f"b{n}", "section": "s"}
        for n in range(5)
    ] + [{"id": "long", "record_version": 1, "title": "t", "body": long, "section": "s"}]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (tmp_path / "landing" / "a.json").write_text(lines)
    made = Pipeline(chosen, spark=spark)
    made.run(once=True)
    return made


def index_of(pipeline: Pipeline) -> lance.LanceDataset:
    return lance.dataset(pipeline.home.index)


def copy_row(pipeline: Pipeline, original: str, /, **changes: object) -> None:
    dataset = index_of(pipeline)
    [row] = dataset.to_table(filter=f"key = '{original}' AND chunk = 0").to_pylist()
    lance.write_dataset(
        pa.Table.from_pylist([row | changes], schema=dataset.schema), dataset, mode="append"
    )


def test_a_right_index_is_ok_and_the_counts_are_keys(pipeline: Pipeline) -> None:
    assert pipeline.verify().as_dict() == {
        "ok": True,
        "gold": 6,
        "index": 6,
        "missing": 0,
        "orphan": 0,
        "stale": 0,
        "wrong_text": 0,
        "duplicate": 0,
    }


def test_a_key_that_is_not_in_the_index_is_missing(pipeline: Pipeline) -> None:
    index_of(pipeline).delete("key = 'k1'")
    found = pipeline.verify()
    assert (found.ok, found.missing, found.index) == (False, 1, 5)
    assert found.as_dict()["examples"] == {"missing": ["k1"]}


def test_a_key_that_is_not_in_gold_is_an_orphan(pipeline: Pipeline) -> None:
    copy_row(pipeline, "k1", key="ghost")
    found = pipeline.verify()
    assert (found.ok, found.orphan) == (False, 1)


def test_another_version_is_stale(pipeline: Pipeline) -> None:
    index_of(pipeline).update({"record_version": "'P010 P010 P010'"}, where="key = 'k2'")
    found = pipeline.verify()
    assert (found.ok, found.stale) == (False, 1)


def test_other_attributes_are_stale(pipeline: Pipeline) -> None:
    index_of(pipeline).update({"section": "'elsewhere'"}, where="key = 'k2'")
    found = pipeline.verify()
    assert (found.ok, found.stale, found.wrong_text) == (False, 1, 0)


def test_another_text_is_wrong_even_beside_the_right_hash(pipeline: Pipeline) -> None:
    index_of(pipeline).update({"text": "'forged'"}, where="key = 'k3'")
    found = pipeline.verify()
    assert (found.ok, found.wrong_text) == (False, 1)


def test_a_wrong_hash_beside_the_right_text_is_found(pipeline: Pipeline) -> None:
    index_of(pipeline).update({"content_hash": "'forged'"}, where="key = 'k3'")
    found = pipeline.verify()
    assert (found.ok, found.wrong_text) == (False, 1)


def test_a_missing_piece_of_a_long_text_is_found(pipeline: Pipeline) -> None:
    index_of(pipeline).delete("key = 'long' AND chunk = 1")
    found = pipeline.verify()
    assert (found.ok, found.wrong_text, found.missing) == (False, 1, 0)


def test_a_row_that_stands_twice_is_a_duplicate(pipeline: Pipeline) -> None:
    copy_row(pipeline, "k4")
    found = pipeline.verify()
    assert (found.ok, found.duplicate, found.index) == (False, 1, 6)


def test_events_that_are_not_indexed_yet_are_missing(
    pipeline: Pipeline, spark: SparkSession
) -> None:
    event = ("new", "P019", False, '{"title":"x"}', None)
    frame = spark.createDataFrame(
        [event], "key string, record_version string, is_deleted boolean, raw string, error string"
    )
    frame.write.format("delta").mode("append").save(pipeline.home.bronze)
    assert pipeline.verify().missing == 1
