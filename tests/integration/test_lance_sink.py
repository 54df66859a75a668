"""`LanceSink` under a real streaming query, with DataFrames of all kinds."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from checkpoints import forget_newest_commit
from freshet import LanceSink
from freshet.embedding import IndexRows, ProviderSpec
from freshet.embedding.chunking import Chunking
from freshet.errors import ModelMismatchError, SchemaMismatchError, SinkError
from freshet.sink import BatchReport, Ledger

SCHEMA = "key string, record_version string, is_deleted boolean, note string"


def sink_of(folder: Path, **options: Any) -> LanceSink:
    return LanceSink(
        str(folder / "t.lance"), ledger=str(folder / "ledger"), pipeline="tests", **options
    )


def contents(folder: Path, column: str = "note") -> dict[str, Any]:
    rows = lancedb.connect(folder).open_table("t").to_arrow()
    keys = rows.column("key").to_pylist()
    assert len(keys) == len(set(keys))
    return dict(zip(keys, rows.column(column).to_pylist(), strict=True))


def rows_of(spark: SparkSession, *events: tuple[str, int, str | None]) -> DataFrame:
    rows = [(key, f"P{version:03d}", note is None, note) for key, version, note in events]
    return spark.createDataFrame(rows, SCHEMA)


def test_any_keyed_dataframe_can_be_written_without_a_model(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = sink_of(tmp_path)
    sink.write(rows_of(spark, ("a", 1, "one"), ("b", 1, "one")), query_id="q", batch_id=0)
    sink.write(rows_of(spark, ("a", 2, "two"), ("b", 2, None)), query_id="q", batch_id=1)
    assert contents(tmp_path) == {"a": "two"}


def test_of_several_events_of_a_key_in_a_batch_the_newest_counts(
    spark: SparkSession, tmp_path: Path
) -> None:
    events = [("a", 1, "one"), ("a", 3, None), ("a", 2, "two"), ("b", 2, "two"), ("b", 1, None)]
    for partitions in (1, 4):
        sink = sink_of(tmp_path / str(partitions), partitions=partitions)
        frame = rows_of(spark, *events).repartition(3)
        report = sink.write(frame, query_id="q", batch_id=0)
        assert report is not None
        assert report.counts.rows_in == 5
        assert contents(tmp_path / str(partitions)) == {"b": "two"}


def test_few_rows_of_many_tasks_become_one_file(spark: SparkSession, tmp_path: Path) -> None:
    sink = sink_of(tmp_path, partitions=3)
    sink.write(rows_of(spark, *((f"k{n}", 1, "x") for n in range(5_000))), query_id="q", batch_id=0)
    assert len(lancedb.connect(tmp_path).open_table("t").to_lance().get_fragments()) == 1
    for batch in range(1, 4):
        sink.write(rows_of(spark, (f"new{batch}", 1, "y")), query_id="q", batch_id=batch)
    fragments = lancedb.connect(tmp_path).open_table("t").to_lance().get_fragments()
    assert [fragment.count_rows() for fragment in fragments[1:]] == [1, 1, 1]
    assert len(contents(tmp_path)) == 5_003


def test_a_streaming_query_gives_the_batch_numbers_and_the_query_id(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    reports: list[BatchReport] = []

    def drain() -> str:
        query = (
            spark.readStream.schema(SCHEMA)
            .json(str(tmp_path / "in"))
            .writeStream.foreachBatch(sink_of(tmp_path, on_batch=reports.append))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return str(query.id)

    for number in range(2):
        event = {"key": f"k{number}", "record_version": "P011", "is_deleted": False, "note": "x"}
        (tmp_path / "in" / f"{number}.json").write_text(json.dumps(event))
        query_id = drain()
    assert [report.batch_id for report in reports] == [0, 1]
    assert {report.query_id for report in reports} == {query_id}
    forget_newest_commit(tmp_path / "checkpoint")
    before = lancedb.connect(tmp_path).open_table("t").version
    drain()
    assert len(reports) == 2
    assert lancedb.connect(tmp_path).open_table("t").version == before


def test_a_failure_is_recorded_and_seen_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    def explode(_: object) -> object:
        raise ValueError("boom")

    bad = spark.createDataFrame([("a",)], "key string").select("key").rdd.map(explode)
    frame = spark.createDataFrame(bad, SCHEMA)
    with pytest.raises(Exception, match="boom"):
        sink_of(tmp_path).write(frame, query_id="q", batch_id=0)
    [row] = Ledger(str(tmp_path / "ledger")).rows("tests", "index")
    assert row["status"] == "failed"
    assert "boom" in row["error"]


def test_a_sink_outside_of_a_query_says_where_it_belongs(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(SinkError, match="foreachBatch of a streaming query only"):
        sink_of(tmp_path)(rows_of(spark, ("a", 1, "x")), 0)


def test_rows_without_a_key_are_refused_with_a_sentence(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = rows_of(spark, ("a", 1, "x")).selectExpr(
        "cast(null as string) key", "record_version", "is_deleted", "note"
    )
    with pytest.raises(Exception, match="there are rows without a key: leave them out"):
        sink_of(tmp_path).write(frame, query_id="q", batch_id=0)
    assert contents(tmp_path) == {}


def test_columns_that_do_not_fit_are_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink_of(tmp_path).write(rows_of(spark, ("a", 1, "x")), query_id="q", batch_id=0)
    before = lancedb.connect(tmp_path).open_table("t").version
    other = rows_of(spark, ("a", 2, "7")).selectExpr(
        "key", "record_version", "is_deleted", "7 note"
    )
    with pytest.raises(SchemaMismatchError, match="column note is to be int32 but is string"):
        sink_of(tmp_path).write(other, query_id="q", batch_id=1)
    assert lancedb.connect(tmp_path).open_table("t").version == before


# --- with rows of an index -----------------------------------------------------------------------

INDEX = "key string, record_version string, is_deleted boolean, text string, section string"


@pytest.fixture
def write(spark: SparkSession, tmp_path: Path) -> Callable[..., BatchReport]:
    rows = IndexRows(ProviderSpec("fake"), Chunking(8, 2), {"section": "string"})
    sink = sink_of(tmp_path, rows=rows)
    batches = iter(range(100))

    def write(*events: tuple[str, int, str | None, str]) -> BatchReport:
        data = [(key, f"P{version:03d}", text is None, text, s) for key, version, text, s in events]
        report = sink.write(
            spark.createDataFrame(data, INDEX), query_id="q", batch_id=next(batches)
        )
        assert report is not None
        return report

    return write


def pieces(folder: Path, key: str) -> list[tuple[int, str, tuple[float, ...]]]:
    rows = lancedb.connect(folder).open_table("t").to_arrow().filter(pa.compute.field("key") == key)
    return sorted((row["chunk"], row["text"], tuple(row["vector"])) for row in rows.to_pylist())


def test_a_changed_attribute_costs_no_embedding(
    write: Callable[..., BatchReport], tmp_path: Path
) -> None:
    write(("a", 1, "some text", "s1"), ("b", 1, "other text", "s1"))
    before = pieces(tmp_path, "a")
    report = write(("a", 2, "some text", "s2"))
    assert (report.counts.rows_embedded, report.counts.rows_reused) == (0, 1)
    assert pieces(tmp_path, "a") == before
    assert contents(tmp_path, "section") == {"a": "s2", "b": "s1"}


def test_equal_texts_of_a_batch_are_embedded_once(write: Callable[..., BatchReport]) -> None:
    report = write(("a", 1, "same", "s"), ("b", 1, "same", "s"), ("c", 1, "else", "s"))
    assert (report.counts.rows_embedded, report.counts.rows_reused) == (2, 1)


def test_all_pieces_of_a_long_text_are_replaced_together(
    write: Callable[..., BatchReport], tmp_path: Path
) -> None:
    words = [f"w{n}" for n in range(20)]
    first = write(("a", 1, " ".join(words), "s"), ("b", 1, "short", "s"))
    assert [chunk for chunk, _, _ in pieces(tmp_path, "a")] == [0, 1, 2]
    assert first.counts.rows_embedded == 4
    report = write(("a", 2, " ".join([*words[:12], "CHANGED", *words[13:]]), "s"))
    assert report.counts.rows_embedded == 2
    assert report.counts.rows_reused == 1
    write(("a", 3, "now short", "s"))
    assert [(chunk, text) for chunk, text, _ in pieces(tmp_path, "a")] == [(0, "now short")]
    write(("a", 4, None, "s"))
    assert pieces(tmp_path, "a") == []
    assert [text for _, text, _ in pieces(tmp_path, "b")] == ["short"]


def test_an_empty_text_is_a_row_as_any_other(
    write: Callable[..., BatchReport], tmp_path: Path
) -> None:
    write(("a", 1, "", "s"), ("b", 1, "   ", "s"))
    assert [text for _, text, _ in pieces(tmp_path, "a")] == [""]
    assert [text for _, text, _ in pieces(tmp_path, "b")] == ["   "]


def test_an_index_of_another_model_or_chunking_is_refused(
    write: Callable[..., BatchReport], tmp_path: Path
) -> None:
    write(("a", 1, "text", "s"))
    other = IndexRows(ProviderSpec("fake"), Chunking(9, 2), {"section": "string"})
    with pytest.raises(
        ModelMismatchError, match="built with chunk_tokens 8, but the settings say 9"
    ):
        sink_of(tmp_path, rows=other).check()
