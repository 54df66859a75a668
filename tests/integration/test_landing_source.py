"""`format("landing")` in Spark's hands: batches, restarts, and what the source promises."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from checkpoints import forget_newest_commit
from freshet import register, schemas


@pytest.fixture(autouse=True)
def _registered(spark: SparkSession) -> None:
    register(spark)


def drain(spark: SparkSession, folder: Path, **options: Any) -> list[dict[str, Any]]:
    """Reads what is there into Parquet and returns everything read so far, over all drains."""
    query = (
        spark.readStream.format("landing")
        .options(path=str(folder / "landing"), state=str(folder / "files"))
        .options(**{"settle": "0 seconds", **options})
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("path", str(folder / "out"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = spark.read.schema(schemas.spark_ddl(schemas.LANDING)).parquet(str(folder / "out"))
    return [row.asDict() for row in rows.orderBy("seq", "row").collect()]


def land(folder: Path, name: str, *records: Any) -> None:
    file = folder / "landing" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(record) + "\n" for record in records))


def test_every_record_comes_with_where_it_is_from(spark: SparkSession, tmp_path: Path) -> None:
    land(tmp_path, "a.json", {"n": 1}, {"n": 2})
    os.utime(tmp_path / "landing" / "a.json", (1_000, 1_000))
    rows = drain(spark, tmp_path)
    assert [(row["record"], row["row"], row["seq"], row["error"]) for row in rows] == [
        ('{"n": 1}', 0, 0, None),
        ('{"n": 2}', 1, 0, None),
    ]
    assert {row["file"] for row in rows} == {str(tmp_path / "landing" / "a.json")}
    assert {row["modified_at"].timestamp() for row in rows} == {1_000}


def test_a_drain_takes_what_is_there_and_the_next_only_what_is_new(
    spark: SparkSession, tmp_path: Path
) -> None:
    land(tmp_path, "a.json", 1)
    assert len(drain(spark, tmp_path)) == 1
    assert len(drain(spark, tmp_path)) == 1
    land(tmp_path, "b.json", 2)
    assert [row["record"] for row in drain(spark, tmp_path)] == ["1", "2"]


def test_batches_are_admitted_by_number_of_files(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(7):
        land(tmp_path, f"{number}.json", number)
    rows = drain(spark, tmp_path, max_files_per_trigger=3)
    assert sorted(row["record"] for row in rows) == [str(number) for number in range(7)]
    offsets = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))
    ends = [json.loads(file.read_text().split("\n")[2])["seq"] for file in offsets]
    assert ends == [3, 6, 7]


def test_a_batch_that_is_run_again_reads_exactly_the_same_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The newest commit is taken back, as if the process had died before it; more files land."""
    land(tmp_path, "a.json", 1)
    land(tmp_path, "b.json", 2)
    drain(spark, tmp_path)
    forget_newest_commit(tmp_path / "checkpoint")
    land(tmp_path, "c.json", 3)
    rows = drain(spark, tmp_path)
    # Spark's file sink drops the second run of batch 0; had it held other files, they would differ.
    assert sorted(row["record"] for row in rows) == ["1", "2", "3"]
    first = json.loads((tmp_path / "checkpoint/offsets/0").read_text().split("\n")[2])
    assert first == {"seq": 2, "batch": 1}


@pytest.mark.parametrize("file_format", ["csv", "parquet", "orc"])
def test_other_formats_are_read_as_json_records(
    spark: SparkSession, tmp_path: Path, file_format: str
) -> None:
    frame = spark.createDataFrame([("1", "x"), ("2", "y")], "id string, t string").coalesce(1)
    frame.write.option("header", True).format(file_format).save(str(tmp_path / "landing"))
    rows = drain(spark, tmp_path, format=file_format)
    assert [json.loads(row["record"]) for row in rows] == [
        {"id": "1", "t": "x"},
        {"id": "2", "t": "y"},
    ]


def test_an_unreadable_file_does_not_stop_the_stream(spark: SparkSession, tmp_path: Path) -> None:
    land(tmp_path, "a.json.gz", "this is not gzip")
    land(tmp_path, "b.json", 2)
    by_file = {Path(row["file"]).name: row for row in drain(spark, tmp_path, patience="0 seconds")}
    assert by_file["b.json"]["record"] == "2"
    assert "not readable as json" in by_file["a.json.gz"]["error"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"formt": "json"}, 'unknown option "formt"'),
        ({"format": "xml"}, 'the format "xml" is not one of auto, json, csv'),
        ({"max_files_per_trigger": "0"}, "must be a whole number above 0"),
        ({"max_bytes_per_trigger": "much"}, '"much" is not a size such as "256 MB"'),
        ({"recursive": "perhaps"}, "must be true or false"),
        ({"after_read": "archive"}, 'the option "archive_path" is missing'),
    ],
)
def test_wrong_options_are_a_clear_error(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], sentence: str
) -> None:
    land(tmp_path, "a.json", 1)
    with pytest.raises(StreamingQueryException) as caught:
        drain(spark, tmp_path, **options)
    assert sentence in str(caught.value)
