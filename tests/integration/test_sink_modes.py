"""All modes of the sink on DataFrames of all kinds, through `foreachBatch` and natively."""

import logging
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lancedb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import freshet
from checkpoints import forget_newest_commit, go_back_to
from freshet import LanceSink
from freshet.errors import SchemaMismatchError, SinkError
from freshet.sink import Ledger

WORDS = "word string, n bigint"


def sink_of(folder: Path, mode: str, **options: Any) -> LanceSink:
    return LanceSink(
        str(folder / "t.lance"),
        ledger=str(folder / "ledger"),
        pipeline="tests",
        mode=mode,
        **options,
    )


def table(folder: Path) -> pa.Table:
    return lancedb.connect(folder).open_table("t").to_arrow()


def counts(folder: Path) -> dict[str, int]:
    rows = table(folder).to_pylist()
    assert len(rows) == len({row["word"] for row in rows})
    return {row["word"]: row["count"] for row in rows}


def land(folder: Path, name: str, words: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    rows = pa.table({"word": words.split(), "n": pa.array(range(len(words.split())), pa.int64())})
    pq.write_table(rows, folder / "in" / name)


def words(spark: SparkSession, folder: Path) -> DataFrame:
    source = spark.readStream.schema(WORDS).option("maxFilesPerTrigger", 1)
    return source.parquet(str(folder / "in"))


def drain(frame: DataFrame, folder: Path, sink: LanceSink, mode: str) -> None:
    writer = frame.writeStream.foreachBatch(sink).outputMode(mode)
    query = (
        writer.option("checkpointLocation", str(folder / "ck")).trigger(availableNow=True).start()
    )
    query.awaitTermination()


FILES = ["a b a", "c a", "b b d", "a"]


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_an_aggregation_is_right_after_every_batch(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    after_every_batch: list[dict[str, int]] = []
    options: dict[str, Any] = {} if mode == "complete" else {"key": "word"}
    sink = sink_of(
        tmp_path,
        mode,
        version=None,
        deleted=None,
        on_batch=lambda _: after_every_batch.append(counts(tmp_path)),
        **options,
    )
    expected: list[dict[str, int]] = []
    for number, text in enumerate(FILES):
        land(tmp_path, f"{number}.parquet", text)
        expected.append(dict(Counter(" ".join(FILES[: number + 1]).split())))
        drain(words(spark, tmp_path).groupBy("word").count(), tmp_path, sink, mode)
    assert after_every_batch == expected
    forget_newest_commit(tmp_path / "ck")
    before = lance.dataset(str(tmp_path / "t.lance")).version
    again = sink_of(tmp_path, mode, version=None, deleted=None, **options)
    drain(words(spark, tmp_path).groupBy("word").count(), tmp_path, again, mode)
    assert lance.dataset(str(tmp_path / "t.lance")).version == before
    assert counts(tmp_path) == expected[-1]


def test_append_adds_every_row_once_also_when_a_batch_is_run_again(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number, text in enumerate(FILES):
        land(tmp_path, f"{number}.parquet", text)
    drain(words(spark, tmp_path), tmp_path, sink_of(tmp_path, "append"), "append")
    assert Counter(table(tmp_path).column("word").to_pylist()) == Counter(" ".join(FILES).split())
    version = lance.dataset(str(tmp_path / "t.lance")).version
    forget_newest_commit(tmp_path / "ck")
    with caplog.at_level(logging.INFO, "freshet"):
        drain(words(spark, tmp_path), tmp_path, sink_of(tmp_path, "append"), "append")
    assert "batch_skipped" in caplog.messages
    assert lance.dataset(str(tmp_path / "t.lance")).version == version


def test_a_restored_older_checkpoint_is_refused_where_it_would_double_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    for number, text in enumerate(FILES):
        land(tmp_path, f"{number}.parquet", text)
    drain(words(spark, tmp_path), tmp_path, sink_of(tmp_path, "append"), "append")
    go_back_to(tmp_path / "ck", 0)
    land(tmp_path, "0-new.parquet", "x y z")
    before = table(tmp_path).num_rows
    source = spark.readStream.schema(WORDS).option("maxFilesPerTrigger", 2)
    frame = source.parquet(str(tmp_path / "in"))
    with pytest.raises(Exception, match="restored from an older copy"):
        drain(frame, tmp_path, sink_of(tmp_path, "append"), "append")
    assert table(tmp_path).num_rows == before


# --- any DataFrame -------------------------------------------------------------------------------


def rich(spark: SparkSession, size: int = 3) -> DataFrame:
    vector = F.array(*(F.lit(float(n)).cast("float") for n in range(size)))
    return spark.range(2).select(
        F.col("id"),
        F.struct(F.lit("x").alias("a"), F.array(F.lit(1)).alias("b")).alias("nested"),
        F.create_map(F.lit("k"), F.lit(1)).alias("map"),
        F.lit("2026-01-01 10:00:00").cast("timestamp").alias("at"),
        F.lit("12.50").cast("decimal(10,2)").alias("price"),
        F.lit(b"\x00\xff").alias("bytes"),
        vector.alias("vector"),
    )


def test_nested_values_and_vectors_come_out_as_they_went_in(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = sink_of(tmp_path, "append", vectors={"vector": 3})
    sink.write(rich(spark), query_id="q", batch_id=0)
    found = table(tmp_path)
    assert found.schema.field("vector").type == pa.list_(pa.float32(), 3)
    first = found.to_pylist()[0]
    assert first["nested"] == {"a": "x", "b": [1]}
    assert first["map"] == [("k", 1)]
    assert str(first["price"]) == "12.50"
    assert first["bytes"] == b"\x00\xff"
    assert first["vector"] == [0.0, 1.0, 2.0]
    assert first["at"].isoformat() == "2026-01-01T10:00:00+00:00"
    hits = lancedb.connect(tmp_path).open_table("t").search([0.0, 1.0, 2.0]).limit(1).to_list()
    assert hits[0]["_distance"] == 0.0


def test_a_vector_of_another_size_is_refused_and_nothing_is_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = sink_of(tmp_path, "append", vectors={"vector": 3})
    sink.write(rich(spark).select("id", "vector"), query_id="q", batch_id=0)
    with pytest.raises(Exception, match="column vector holds values that cannot be a vector of 3"):
        sink.write(rich(spark, size=4).select("id", "vector"), query_id="q", batch_id=1)
    assert table(tmp_path).num_rows == 2


@pytest.mark.parametrize("mode", ["append", "complete", "update"])
def test_a_new_column_is_added_and_a_missing_one_is_null(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    options = {"version": None, "deleted": None, "key": "id"}
    sink = sink_of(tmp_path, mode, **options)
    sink.write(spark.createDataFrame([(1, "x")], "id int, a string"), query_id="q", batch_id=0)
    sink.write(spark.createDataFrame([(2, "y")], "id int, b string"), query_id="q", batch_id=1)
    rows = {(row["id"], row["a"], row["b"]) for row in table(tmp_path).to_pylist()}
    old = set() if mode == "complete" else {(1, "x", None)}
    assert rows == old | {(2, None, "y")}


@pytest.mark.parametrize("mode", ["append", "complete", "update"])
def test_a_column_of_another_type_is_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    sink = sink_of(tmp_path, mode, version=None, deleted=None, key="id")
    sink.write(spark.createDataFrame([(1, "x")], "id int, a string"), query_id="q", batch_id=0)
    version = lance.dataset(str(tmp_path / "t.lance")).version
    files = len(list((tmp_path / "t.lance/data").iterdir()))
    with pytest.raises(SchemaMismatchError, match="column a is to be double but is string"):
        sink.write(spark.createDataFrame([(2, 1.5)], "id int, a double"), query_id="q", batch_id=1)
    assert lance.dataset(str(tmp_path / "t.lance")).version == version
    assert len(list((tmp_path / "t.lance/data").iterdir())) == files


def test_a_narrower_number_fits_a_wider_column(spark: SparkSession, tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "append")
    sink.write(spark.createDataFrame([(1,)], "id bigint"), query_id="q", batch_id=0)
    sink.write(spark.createDataFrame([(2,)], "id int"), query_id="q", batch_id=1)
    assert sorted(table(tmp_path).column("id").to_pylist()) == [1, 2]


def test_whole_numbers_are_keys_too_and_deletes_need_no_version(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = sink_of(tmp_path, "update", key="id", version=None)
    schema = "id bigint, note string, is_deleted boolean"
    first = spark.createDataFrame([(1, "a", False), (2, "b", False)], schema)
    sink.write(first, query_id="q", batch_id=0)
    second = spark.createDataFrame([(1, "c", False), (2, None, True), (3, "d", False)], schema)
    sink.write(second, query_id="q", batch_id=1)
    rows = {row["id"]: row["note"] for row in table(tmp_path).to_pylist()}
    assert rows == {1: "c", 3: "d"}


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"mode": "merge"}, "id int", "mode is merge: it can be update, append, complete"),
    ({"mode": "update"}, "id int", 'there is no column key: name it, key="…"'),
    ({"mode": "update", "key": "id"}, "id int", "there is no column record_version"),
    (
        {"mode": "update", "key": "id", "deleted": None},
        "id int, record_version int",
        "the version column record_version is int: make it string",
    ),
    (
        {"mode": "update", "key": "id", "version": None, "deleted": None},
        "id double",
        "the key column id is double: make it bigint or int or string",
    ),
    ({"mode": "append", "vectors": {"id": 3}}, "id int", "column id is int32: a vector is"),
    ({"mode": "append", "vectors": {"no": 3}}, "id int", "there is no column no to be a vector"),
]


@pytest.mark.parametrize(("options", "schema", "sentence"), WRONG, ids=lambda v: str(v)[:40])
def test_what_cannot_be_written_is_one_sentence_and_makes_nothing(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any], schema: str, sentence: str
) -> None:
    with pytest.raises(SinkError, match=sentence):
        sink_of(tmp_path, **options).write(
            spark.createDataFrame([], schema), query_id="q", batch_id=0
        )
    assert not (tmp_path / "t.lance").exists()
    assert not (tmp_path / "ledger").exists()


def test_a_key_twice_in_a_batch_without_versions_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = sink_of(tmp_path, "update", key="id", version=None, deleted=None)
    with pytest.raises(Exception, match="a id stands more than once in a batch"):
        sink.write(spark.createDataFrame([(1,), (1,)], "id int"), query_id="q", batch_id=0)


def test_many_bytes_are_spread_over_files_of_a_good_size(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = sink_of(tmp_path, "append")
    large = spark.range(120_000, numPartitions=2).select("id", F.repeat(F.lit("x"), 600).alias("t"))
    for batch in range(2):
        sink.write(large, query_id="q", batch_id=batch)
    fragments = lance.dataset(str(tmp_path / "t.lance")).get_fragments()
    assert sum(fragment.count_rows() for fragment in fragments) == 240_000
    assert len(fragments) == 4, "each task of a batch has rows enough for a file of its own"
    sink.write(spark.range(1_000, numPartitions=50).select("id"), query_id="q", batch_id=2)
    assert len(lance.dataset(str(tmp_path / "t.lance")).get_fragments()) == 5


# --- natively ------------------------------------------------------------------------------------


@pytest.fixture
def natively(spark: SparkSession, tmp_path: Path) -> Callable[..., None]:
    freshet.register(spark)

    def run(frame: DataFrame, mode: str = "append", **options: str) -> None:
        writer = frame.writeStream.format("lance").outputMode(mode)
        query = (
            writer.option("path", str(tmp_path / "t.lance"))
            .option("checkpointLocation", str(tmp_path / "ck"))
            .options(**options)
            .queryName("natively")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    return run


def ledger(folder: Path) -> list[dict[str, Any]]:
    return Ledger(str(folder / "t_ledger")).rows("t", "native")


def test_the_native_sink_appends_every_row_once(
    spark: SparkSession, tmp_path: Path, natively: Callable[..., None]
) -> None:
    for number, text in enumerate(FILES):
        land(tmp_path, f"{number}.parquet", text)
    natively(words(spark, tmp_path))
    assert Counter(table(tmp_path).column("word").to_pylist()) == Counter(" ".join(FILES).split())
    assert [row["batch_id"] for row in ledger(tmp_path)] == [0, 1, 2, 3]
    assert all(row["offsets"] for row in ledger(tmp_path))
    version = lance.dataset(str(tmp_path / "t.lance")).version
    files = len(list((tmp_path / "t.lance/data").iterdir()))
    forget_newest_commit(tmp_path / "ck")
    natively(words(spark, tmp_path))
    assert lance.dataset(str(tmp_path / "t.lance")).version == version
    assert len(list((tmp_path / "t.lance/data").iterdir())) == files, "a second set of files stays"
    land(tmp_path, "5.parquet", "e")
    natively(words(spark, tmp_path))
    assert table(tmp_path).num_rows == 10


def test_the_native_sink_writes_complete_tables(
    spark: SparkSession, tmp_path: Path, natively: Callable[..., None]
) -> None:
    for number, text in enumerate(FILES):
        land(tmp_path, f"{number}.parquet", text)
        natively(words(spark, tmp_path).groupBy("word").count(), "complete")
        assert counts(tmp_path) == dict(Counter(" ".join(FILES[: number + 1]).split()))


def test_the_native_sink_makes_vectors(
    spark: SparkSession, tmp_path: Path, natively: Callable[..., None]
) -> None:
    land(tmp_path, "0.parquet", "a b")
    vector = F.array(F.lit(1.0).cast("float"), F.col("n").cast("float"))
    frame = words(spark, tmp_path).select("word", vector.alias("Vector"))
    natively(frame, **{"Vector.arrow.fixed-size-list.size": "2"})
    assert table(tmp_path).schema.field("Vector").type == pa.list_(pa.float32(), 2)


def test_update_mode_is_refused_and_the_log_points_to_the_sink_that_can(
    spark: SparkSession,
    tmp_path: Path,
    natively: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    land(tmp_path, "0.parquet", "a b")
    with (
        caplog.at_level(logging.WARNING, "freshet"),
        pytest.raises(Exception, match="lance does not support Update mode"),
    ):
        natively(words(spark, tmp_path).groupBy("word").count(), "update")
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    assert any("freshet.LanceSink" in message for message in caplog.messages)


def test_the_native_sink_says_what_is_wrong_with_its_options(
    spark: SparkSession, tmp_path: Path, natively: Callable[..., None]
) -> None:
    land(tmp_path, "0.parquet", "a b")
    with pytest.raises(Exception, match='format\\("lance"\\) has no option leger'):
        natively(words(spark, tmp_path), leger="x")


def test_the_native_sink_does_not_make_a_lost_table_again(
    spark: SparkSession, tmp_path: Path, natively: Callable[..., None]
) -> None:
    land(tmp_path, "0.parquet", "a b")
    natively(words(spark, tmp_path))
    shutil.rmtree(tmp_path / "t.lance")
    land(tmp_path, "1.parquet", "c")
    with pytest.raises(Exception, match="the table that this query has been writing is gone"):
        natively(words(spark, tmp_path))
    assert not (tmp_path / "t.lance").exists()
