"""Landing zones as they are: late and early files, slow writers, and all sorts of bad files."""

import gzip
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from freshet import Pipeline, Settings, register
from freshet.stores import delta_tables

MakeSettings = Callable[..., Settings]
DAY = 86_400


@pytest.fixture(autouse=True)
def _registered(spark: SparkSession) -> None:
    register(spark)


def land(folder: Path, name: str, *records: Any, age_s: float = 100) -> Path:
    file = folder / "landing" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    os.utime(file, (time.time() - age_s, time.time() - age_s))
    return file


def drained(frame: DataFrame, folder: Path, name: str, column: str) -> list[str]:
    """Reads what is there now, and returns all that was read so far under this name."""
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / name / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / name / "out"))
    )
    query.awaitTermination()
    read = frame.sparkSession.read.schema(frame.schema).parquet(str(folder / name / "out"))
    return sorted(row[column] for row in read.collect())


def landing(spark: SparkSession, folder: Path, **options: Any) -> DataFrame:
    chosen = {"path": str(folder / "landing"), "state": str(folder / "files"), **options}
    return spark.readStream.format("landing").options(**chosen).load()


def test_late_and_early_files_are_read_where_sparks_own_source_loses_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    land(tmp_path, "first.json", "first")
    sources = {
        "ours": (landing(spark, tmp_path, settle="0 seconds"), "record"),
        "sparks": (spark.readStream.text(str(tmp_path / "landing")), "value"),
    }

    def read() -> dict[str, list[str]]:
        return {
            name: drained(frame, tmp_path, name, column)
            for name, (frame, column) in sources.items()
        }

    read()
    land(tmp_path, "tomorrow.json", "tomorrow", age_s=-DAY)
    land(tmp_path, "last-year.json", "last year", age_s=365 * DAY)
    read()
    land(tmp_path, "now.json", "now", age_s=1)
    found = read()
    assert found["ours"] == ['"first"', '"last year"', '"now"', '"tomorrow"']
    assert found["sparks"] == ['"first"', '"now"', '"tomorrow"'], "Spark's source has changed"


def write_slowly(file: Path, records: range, *, is_kept_open: bool) -> None:
    """A record in two halves, with pauses; a pause between records is longer than one inside."""
    stream = file.open("a")
    for number in records:
        line = json.dumps({"file": file.name, "n": number, "pad": "x" * 200}) + "\n"
        for part in (line[:100], line[100:]):
            stream.write(part)
            stream.flush()
            if not is_kept_open:
                stream.close()
                stream = file.open("a")
            time.sleep(0.15)
        time.sleep(1.3 if is_kept_open else 0.3)
    stream.close()


def test_files_that_are_written_slowly_are_read_once_and_whole(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Some writers keep their file open and pause for longer than the settle time."""
    (tmp_path / "landing").mkdir()
    query = (
        landing(spark, tmp_path, settle="1 second")
        .writeStream.format("memory")
        .queryName("slowly")
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    writers = [
        threading.Thread(
            target=write_slowly,
            args=(tmp_path / "landing" / f"{number}.json", range(6)),
            kwargs={"is_kept_open": number % 2 == 0},
        )
        for number in range(6)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    deadline = time.monotonic() + 60
    while spark.table("slowly").count() < 36 and time.monotonic() < deadline:
        time.sleep(0.2)
    query.stop()
    rows = spark.table("slowly").collect()
    read = Counter((json.loads(r["record"])["file"], json.loads(r["record"])["n"]) for r in rows)
    assert read == {(f"{file}.json", n): 1 for file in range(6) for n in range(6)}


# --- the zoo -------------------------------------------------------------------------------------


def record(key: str, **more: Any) -> dict[str, Any]:
    return {"id": key, "record_version": 1, "title": f"title {key}", "body": "text"} | more


def fill_with_all_sorts(zone: Path) -> None:
    """Every kind of file that must not stop the stream."""

    def write(name: str, *records: dict[str, Any]) -> None:
        (zone / name).write_text("".join(json.dumps(one) + "\n" for one in records))

    zone.mkdir(exist_ok=True)
    write("01-good.json", record("good", price=1, address={"city": "x"}))
    write("02-new-column.json", record("new", colour="red"))
    write("03-renamed.json", {"id": "renamed", "record_version": 1, "headline": "h", "body": "b"})
    write("04-int-is-string.json", record("string", price="cheap"))
    write("05-nested-grows.json", record("nested", address={"city": "x", "geo": {"lat": 1.5}}))
    write("06-null-only.json", record("nulls", never=None))
    write("07-long-line.json", record("long", body="y" * 10_000_000))
    (zone / "08-invalid-utf8.json").write_bytes(
        b'{"id":"bytes","title":"\xff"}\n' + json.dumps(record("after bytes")).encode() + b"\n"
    )
    write("09-empty.json")
    whole = gzip.compress(
        "".join(json.dumps(record(f"gz{n}")) + "\n" for n in range(50_000)).encode()
    )
    (zone / "10-truncated.json.gz").write_bytes(whole[: len(whole) // 2])
    parquet_of(zone / "11-half.parquet")
    half = (zone / "11-half.parquet").read_bytes()
    (zone / "11-half.parquet").write_bytes(half[: len(half) // 2])
    (zone / "12-folder.json").mkdir()
    write("12-folder.json/inside.json", record("inside"))


def parquet_of(file: Path) -> None:
    rows = [record(f"parquet{n}") for n in range(500)]
    pq.write_table(pa.Table.from_pylist(rows), file)


def reasons(pipeline: Pipeline) -> dict[str, str]:
    return {Path(bad.file).name: bad.error for bad in pipeline.quarantined()}


def keys(spark: SparkSession, pipeline: Pipeline) -> set[str]:
    import lance

    return set(lance.dataset(pipeline.home.index).to_table(columns=["key"])["key"].to_pylist())


@pytest.mark.timeout(600)
@pytest.mark.long
def test_all_sorts_of_files_never_stop_the_stream_and_mended_ones_are_read_again(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    zone = tmp_path / "landing"
    fill_with_all_sorts(zone)
    chosen = settings(
        landing={"format": "auto", "patience": "0 seconds"},
        gold={"attributes": ["price:long", "colour"]},
    )
    pipeline = Pipeline(chosen, spark=spark)
    pipeline.run(once=True)
    found = reasons(pipeline)
    assert sorted(found) == [
        "08-invalid-utf8.json",
        "10-truncated.json.gz",
        "11-half.parquet",
    ]
    assert "not UTF-8" in found["08-invalid-utf8.json"]
    assert "not readable as json" in found["10-truncated.json.gz"]
    assert "not readable as parquet" in found["11-half.parquet"]
    there = keys(spark, pipeline)
    named = {"good", "new", "renamed", "string", "nested", "nulls", "long", "inside"}
    assert named | {"after bytes"} <= there
    assert pipeline.verify().ok
    before = len(there)

    (zone / "10-truncated.json.gz").write_bytes(
        gzip.compress("".join(json.dumps(record(f"gz{n}")) + "\n" for n in range(1_000)).encode())
    )
    parquet_of(zone / "11-half.parquet")
    asked = pipeline.retry([str(zone / "10-truncated.json.gz"), str(zone / "11-half.parquet")])
    assert [Path(path).name for path in asked] == ["10-truncated.json.gz", "11-half.parquet"]
    pipeline.run(once=True)
    assert list(reasons(pipeline)) == ["08-invalid-utf8.json"]
    assert pipeline.status().bronze.errors == 1
    there = keys(spark, pipeline)
    assert {f"parquet{n}" for n in range(500)} <= there
    assert {f"gz{n}" for n in range(1_000)} <= there
    assert len(there) >= before + 500
    assert pipeline.verify().ok
    pipeline.run(once=True)
    assert len(keys(spark, pipeline)) == len(there), "a retry is served once"


def test_a_retried_file_does_not_undo_what_landed_after_it(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    """Without versions the order of arrival counts, and a file keeps its place in it."""
    zone = tmp_path / "landing"
    zone.mkdir()
    (zone / "1.json").write_text('{"id":"a","title":"old"}\n{"id":"b", "title":\n')
    os.utime(zone / "1.json", (1_000, 1_000))
    (zone / "2.json").write_text('{"id":"a","title":"new"}\n')
    os.utime(zone / "2.json", (2_000, 2_000))
    pipeline = Pipeline(
        settings(changes={"version": None}, gold={"text": ["title"], "attributes": []}), spark=spark
    )
    pipeline.run(once=True)
    (zone / "1.json").write_text('{"id":"a","title":"old"}\n{"id":"b", "title":"mended"}\n')
    pipeline.retry()
    pipeline.run(once=True)
    import lance

    rows = lance.dataset(pipeline.home.index).to_table(columns=["key", "text"]).to_pylist()
    assert {row["key"]: row["text"] for row in rows} == {"a": "new", "b": "mended"}
    assert pipeline.verify().ok
    assert list(pipeline.quarantined()) == []


# --- limits, archive, switching ------------------------------------------------------------------


@pytest.mark.long
def test_files_are_archived_once_their_batch_is_in_bronze(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    for number in range(5):
        land(tmp_path, f"{number}.json", record(f"k{number}"))
    archive = tmp_path / "archive"
    chosen = settings(
        landing={
            "after_read": "archive",
            "archive_path": str(archive),
            "retention": "0 seconds",
            "max_files_per_trigger": 2,
        }
    )
    pipeline = Pipeline(chosen, spark=spark)
    pipeline.run(once=True)
    assert sorted(file.name for file in archive.iterdir()) == [f"{n}.json" for n in range(5)]
    assert list((tmp_path / "landing").iterdir()) == []
    assert {file.state for file in pipeline.files()} == {"archived"}
    assert [file.batch for file in pipeline.files()] == [2, 1, 1, 0, 0]
    assert pipeline.verify().ok


def test_the_backlog_is_in_sparks_progress(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(4):
        land(tmp_path, f"{number}.json", number)
    query = (
        landing(spark, tmp_path, max_files_per_trigger=1)
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    seen = [json.loads(one.sources[0].latestOffset) for one in query.recentProgress]
    batches = [(one["files_waiting"], one["bytes_waiting"]) for one in seen]
    assert batches[:4] == [(3, 6), (2, 4), (1, 2), (0, 0)]


def bronze_rows(pipeline: Pipeline) -> Counter[tuple[str, int]]:
    rows: Counter[tuple[str, int]] = Counter()
    for batch in delta_tables.scan(pipeline.home.bronze, ("file", "row")):
        rows.update(zip(batch["file"].to_pylist(), batch["row"].to_pylist(), strict=True))
    return rows


@pytest.mark.long
def test_switching_between_listing_and_notification_reads_nothing_twice(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    modes = ("listing", "notification", "listing", "notification")
    for number, mode in enumerate(modes):
        land(tmp_path, f"{number}.json", record(f"k{number}"))
        pipeline = Pipeline(settings(landing={"discovery": mode}), spark=spark)
        pipeline.run(once=True)
    assert set(bronze_rows(pipeline).values()) == {1}
    assert len(bronze_rows(pipeline)) == 4
    assert pipeline.verify().ok
