"""Every output mode with every kind of sink: written by a real query and read back, or refused."""

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import lance
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from checkpoints import forget_newest_commit
from freshet import DeltaSink, LanceSink, PostgresSink
from freshet.errors import SettingsError, SetupError
from freshet.sink import Mode
from freshet.sink.modes import FILES, PAIRS, Kind, Refused, allowed, check
from freshet.sink.spark_sinks import as_records, spark_writer
from postgres_server import Server

BATCHES = ["a b a", "c a"]
"""The words of two files, which are two batches."""
EACH = ["a", "a", "a", "b", "c"]
COUNTED = {"a": 3, "b": 1, "c": 1}
CHANGES = [("a", 2), ("a", 3), ("b", 1), ("c", 1)]
"""What the counts of both batches say in update mode."""


class Desk:
    """Words that a test's query reads, and where it writes."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self.spark = spark
        self.place = place
        self.checkpoint = place / "checkpoint"
        (place / "in").mkdir()
        for number, words in enumerate(BATCHES):
            lines = "".join(f"{json.dumps({'word': word})}\n" for word in words.split())
            (place / "in" / f"{number}.json").write_text(lines)
            # Files are read in the order of their age.
            os.utime(place / "in" / f"{number}.json", (1_700_000_000 + number,) * 2)

    @property
    def words(self) -> DataFrame:
        source = self.spark.readStream.schema("word string").option("maxFilesPerTrigger", 1)
        return source.json(str(self.place / "in"))

    def rows(self, mode: str) -> DataFrame:
        """Words as they come for append, and otherwise how often each came."""
        return self.words if mode == Mode.APPEND else self.words.groupBy("word").count()

    def told(self, mode: str) -> dict[str, Any]:
        """What every sink of Freshet is told here."""
        told = {"ledger": str(self.place / "ledger"), "pipeline": "tests", "mode": mode}
        return told | {"key": "word", "version": None, "deleted": None}

    def drain(self, writer: DataStreamWriter) -> None:
        writer.trigger(availableNow=True).start().awaitTermination()

    def by(self, sink: Any, mode: str) -> None:
        """Lets a sink write both batches, and the second one again."""
        for _ in range(2):
            writer = self.rows(mode).writeStream.outputMode(mode).foreachBatch(sink)
            self.drain(writer.option("checkpointLocation", str(self.checkpoint)))
            forget_newest_commit(self.checkpoint)

    def native(self, kind: str, mode: str, **told: Any) -> None:
        """Lets one of Spark's own sinks write both batches."""
        self.drain(spark_writer(self.rows(mode), kind, mode=mode, **told))


@pytest.fixture
def desk(spark: SparkSession, tmp_path: Path) -> Desk:
    return Desk(spark, tmp_path)


def check_rows(rows: Sequence[Mapping[str, Any]], mode: str) -> None:
    """Every word once in append, and its count once in the other modes."""
    if mode == Mode.APPEND:
        assert sorted(row["word"] for row in rows) == EACH
    else:
        assert sorted((row["word"], row["count"]) for row in rows) == sorted(COUNTED.items())


@pytest.mark.parametrize("mode", allowed(Kind.LANCE))
def test_lance_is_written_once_in_every_mode(desk: Desk, mode: str) -> None:
    place = str(desk.place / "t.lance")
    desk.by(LanceSink(place, **desk.told(mode)), mode)
    check_rows(lance.dataset(place).to_table().to_pylist(), mode)


@pytest.mark.parametrize("mode", allowed(Kind.NATIVE_LANCE))
def test_native_lance_is_written_once(desk: Desk, mode: str) -> None:
    place = str(desk.place / "t.lance")
    for _ in range(2):
        desk.native("native_lance", mode, path=place, checkpoint=str(desk.checkpoint))
        forget_newest_commit(desk.checkpoint)
    check_rows(lance.dataset(place).to_table().to_pylist(), mode)


@pytest.mark.parametrize("mode", allowed(Kind.DELTA))
def test_delta_is_written_once_in_every_mode(desk: Desk, mode: str) -> None:
    place = str(desk.place / "table")
    desk.by(DeltaSink(place, **desk.told(mode)), mode)
    check_rows(desk.spark.read.format("delta").load(place).collect(), mode)


@pytest.mark.parametrize("mode", allowed(Kind.POSTGRES))
def test_postgres_is_written_once_in_every_mode(desk: Desk, database: Server, mode: str) -> None:
    desk.by(PostgresSink(database.address, "t", create=True, **desk.told(mode)), mode)
    columns = "word" if mode == Mode.APPEND else "word, count"
    rows = database.run(f"SELECT json_agg(t) FROM (SELECT {columns} FROM t) t")
    check_rows(json.loads("".join(rows)), mode)


@pytest.mark.parametrize(
    ("kind", "mode"), [(kind, mode) for kind in FILES for mode in allowed(kind)]
)
def test_files_are_added_once(desk: Desk, kind: str, mode: str) -> None:
    place = desk.place / "out"
    for _ in range(2):
        desk.native(kind, mode, path=str(place), checkpoint=str(desk.checkpoint))
        forget_newest_commit(desk.checkpoint)
    check_rows(desk.spark.read.schema("word string").format(kind).load(str(place)).collect(), mode)
    assert (place / "_spark_metadata").exists()


@pytest.mark.parametrize("mode", allowed(Kind.CONSOLE))
def test_the_console_shows_every_batch(
    desk: Desk, mode: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = tmp_path_factory.getbasetemp() / "spark0" / "spark.log"
    before = log.stat().st_size
    desk.native("console", mode, options={"truncate": "false"})
    printed = log.read_bytes()[before:].decode().split("Batch: ")
    assert len(printed) == 3
    rows = {"append": ["|c   |", "|a   |"], "update": ["|c   |1    |", "|a   |3    |"]}
    rows["complete"] = [*rows["update"], "|b   |1    |"]
    for row in rows[mode]:
        assert row in printed[2]
    assert ("|b   |" in printed[2]) == (mode == Mode.COMPLETE)


@pytest.mark.parametrize("mode", allowed(Kind.MEMORY))
def test_memory_holds_what_the_mode_says(desk: Desk, mode: str) -> None:
    desk.native("memory", mode, name="held")
    rows = desk.spark.table("held").collect()
    if mode == Mode.UPDATE:
        assert sorted(map(tuple, rows)) == CHANGES
    else:
        check_rows(rows, mode)


@pytest.mark.parametrize(
    ("mode", "goes_on"), [("append", False), ("update", False), ("complete", True)]
)
def test_memory_can_be_restarted_in_complete_mode_only(
    desk: Desk, mode: str, goes_on: bool
) -> None:
    told = {"name": "again", "checkpoint": str(desk.checkpoint)}
    desk.native("memory", mode, **told)
    if not goes_on:
        with pytest.raises(Exception, match="not support recovering from checkpoint"):
            desk.native("memory", mode, **told)
        return
    (desk.place / "in" / "2.json").write_text('{"word": "c"}\n')
    desk.native("memory", mode, **told)
    assert dict(map(tuple, desk.spark.table("again").collect())) == COUNTED | {"c": 2}


REFUSED = [pair for pair, found in PAIRS.items() if isinstance(found, Refused)]


@pytest.mark.parametrize(("kind", "mode"), REFUSED)
def test_an_impossible_pair_is_refused_with_what_to_use(desk: Desk, kind: str, mode: str) -> None:
    found = PAIRS[Kind(kind), Mode(mode)]
    assert isinstance(found, Refused)
    told = {"path": str(desk.place / "out"), "checkpoint": str(desk.checkpoint)}
    with pytest.raises(SettingsError) as refusal:
        desk.native(kind, mode, **told)
    assert str(refusal.value).endswith(found.instead)
    assert not desk.checkpoint.exists()
    assert not (desk.place / "out").exists()


@pytest.mark.parametrize(
    ("kind", "mode"), [pair for pair in REFUSED if pair[0] in (Kind.PARQUET, Kind.NATIVE_LANCE)]
)
def test_what_is_refused_is_what_spark_cannot_do(desk: Desk, kind: str, mode: str) -> None:
    format_name = "lance" if kind == Kind.NATIVE_LANCE else kind
    told = {"path": str(desk.place / "out"), "checkpointLocation": str(desk.checkpoint)}
    writer = desk.rows(mode).writeStream.format(format_name).outputMode(mode).options(**told)
    with pytest.raises(Exception, match=r"(?i)not support(ed)?"):
        desk.drain(writer)


WRONG: list[tuple[Callable[[DataFrame], object], str]] = [
    (lambda _: check("excel", "append"), "there is no sink excel: there are lance, native_lance"),
    (lambda _: check("json", "merge"), "there is no output mode merge: there are update, append"),
    (lambda rows: spark_writer(rows, "delta", mode="update"), "use freshet.DeltaSink"),
    (lambda rows: spark_writer(rows, "csv", mode="append", checkpoint="c"), "csv needs a path"),
    (lambda rows: spark_writer(rows, "csv", mode="append", path="p"), "csv needs a checkpoint"),
    (lambda rows: spark_writer(rows, "memory", mode="append"), "memory needs a name"),
    (lambda rows: spark_writer(rows, "kafka", mode="append", servers="s"), "kafka needs a topic"),
    (lambda rows: spark_writer(rows, "kafka", mode="append", topic="t"), "kafka needs servers"),
    (lambda rows: as_records(rows, "no"), "there is no column no to be the key"),
]


@pytest.mark.parametrize(("start", "sentence"), WRONG, ids=[sentence for _, sentence in WRONG])
def test_what_is_missing_is_one_sentence(
    desk: Desk, start: Callable[[DataFrame], object], sentence: str
) -> None:
    with pytest.raises(SettingsError, match=sentence):
        start(desk.words)


def test_kafka_without_its_connector_is_one_sentence(desk: Desk) -> None:
    told = {"topic": "t", "servers": "127.0.0.1:9092", "checkpoint": str(desk.checkpoint)}
    with pytest.raises(SetupError, match=r"kafka_jars\(\) fetches into spark\.jars"):
        desk.native("kafka", "append", **told)


def test_rows_become_records_of_kafka(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1, "x", None)], "id int, note string, price double")
    [record] = as_records(rows, "id").collect()
    assert (record["key"], json.loads(record["value"])) == (
        "1",
        {"id": 1, "note": "x", "price": None},
    )
    assert as_records(rows).columns == ["value"]
    bare = spark.createDataFrame([(7, "as it is", 1)], "key int, value string, other int")
    assert [tuple(row) for row in as_records(bare).collect()] == [("7", "as it is")]
    number = spark.createDataFrame([(7, 1.5)], "key int, value double")
    assert [row["value"] for row in as_records(number).collect()] == ['{"key":7,"value":1.5}']


def test_the_batches_are_what_the_counts_say() -> None:
    assert Counter(" ".join(BATCHES).split()) == COUNTED
