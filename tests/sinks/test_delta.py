"""What only a sink to Delta does: columns that come, files that are left alone, other writers."""

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from freshet import DeltaSink
from freshet.clock import utc_now
from freshet.errors import ContinuityError, SchemaMismatchError, SinkError, StoreError
from freshet.sink import Ledger, OvertakenError
from freshet.sink.delta import DeltaStore
from freshet.sink.delta_merge import Extent, Merge
from freshet.sink.stamps import Batch
from freshet.sink.target import Mode
from freshet.testing.contract import Event, frame, recount

PIPELINE = "tests"
SINK = "table"
APPLICATION = f"freshet:{PIPELINE}:{SINK}"


@dataclass
class Desk:
    """One table and its ledger."""

    spark: SparkSession
    place: Path
    told: dict[str, Any] = field(default_factory=dict)
    _sink: DeltaSink | None = None

    @property
    def uri(self) -> str:
        return str(self.place / "table")

    @property
    def log(self) -> DeltaTable:
        return DeltaTable(self.uri)

    @property
    def sink(self) -> DeltaSink:
        if self._sink is None:
            told = {"pipeline": PIPELINE, "sink": SINK, "ledger": str(self.place / "ledger")}
            self._sink = DeltaSink(self.uri, **(told | self.told))
        return self._sink

    def restart(self, **told: Any) -> None:
        """The next batch is written by a new sink, which may be told something else."""
        self.told |= told
        self._sink = None

    def write(self, batch_id: int, *events: Event) -> Any:
        return self.write_rows(batch_id, frame(self.spark, events))

    def write_rows(self, batch_id: int, rows: DataFrame) -> Any:
        ends = f"at {batch_id}"
        return self.sink.write(rows, query_id="query", batch_id=batch_id, offsets=ends)

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        chosen = columns or ("key", "note")
        found = self.spark.read.format("delta").load(self.uri).select(*chosen).collect()
        return sorted(tuple(row) for row in found)

    def statuses(self) -> list[str]:
        rows = Ledger(str(self.place / "ledger")).rows(PIPELINE, SINK)
        return [row["status"] for row in rows]

    def stamped(self) -> list[int]:
        """The batches that the table's own log tells of, oldest first."""
        told = [commit.get("userMetadata") for commit in self.log.history()]
        return [int(json.loads(one)["freshet.batch"]) for one in reversed(told) if one]


@pytest.fixture
def desk(spark: SparkSession, tmp_path: Path) -> Desk:
    return Desk(spark, tmp_path)


@pytest.mark.parametrize("mode", [Mode.UPDATE, Mode.APPEND])
def test_new_columns_are_added_and_other_types_refused(desk: Desk, mode: Mode) -> None:
    desk.restart(mode=mode)
    desk.write(0, ("a", 1, "x"))
    wider = frame(desk.spark, [("b", 1, "y")]).withColumn("size", F.lit(7).cast("bigint"))
    desk.write_rows(1, wider)
    before = desk.rows("key", "note", "size"), desk.log.version()
    assert before[0] == [("a", "x", None), ("b", "y", 7)]
    other = wider.withColumns({"note": F.lit(1.5), "more": F.lit("not to be there")})
    kind, match = (
        (SchemaMismatchError, "column note is string there, and double here")
        if mode is Mode.UPDATE
        else (StoreError, "[Ff]ailed to merge fields")
    )
    with pytest.raises(kind, match=match):
        desk.write_rows(2, other)
    assert (desk.rows("key", "note", "size"), desk.log.version()) == before
    assert "more" not in desk.spark.read.format("delta").load(desk.uri).columns
    desk.restart()
    desk.write(2, ("c", 1, "z"))
    assert desk.rows("key", "size") == [("a", None), ("b", 7), ("c", None)]
    assert desk.statuses() == ["committed", "committed", "failed", "committed"]


def test_rows_that_cannot_be_told_apart_are_refused_before_a_table_is_made(desk: Desk) -> None:
    good = frame(desk.spark, [("b", 1, "y"), ("b", 2, "z")])
    for column in ("key", "record_version"):
        with pytest.raises(SinkError, match=f"there are rows without a {column}"):
            desk.write_rows(0, good.withColumn(column, F.lit(None).cast("string")))
    desk.restart(version=None)
    with pytest.raises(SinkError, match="a key stands more than once in a batch"):
        desk.write_rows(0, good)
    assert not Path(desk.uri).exists()
    assert desk.statuses() == ["failed"] * 3


TENANTS: Sequence[Sequence[tuple[str, str | None, int, str | None]]] = (
    [("a1", "a", 1, "x"), ("b'1", "b", 1, "x"), ("c\\1", "c", 1, "x"), ("d1", None, 1, "x")],
    [("a1", "a", 2, "y"), ("a2", "a", 1, "new")],
    [("b'1", None, 2, None), ("c\\1", "c", 2, "z"), ("d1", None, 2, "z")],
)


@pytest.mark.long
@pytest.mark.parametrize(
    "told",
    [{"prune": False}, {}, {"prune_by": ["tenant"]}],
    ids=["not-pruned", "by-key", "by-tenant"],
)
def test_a_pruned_merge_ends_as_one_that_looks_at_all_files(
    desk: Desk, told: dict[str, Any]
) -> None:
    """The last batch has a delete that carries only its key."""
    desk.restart(**told, partition_by=["tenant"])
    for number, batch in enumerate(TENANTS):
        tenants = desk.spark.createDataFrame(
            [(key, tenant) for key, tenant, _, _ in batch], "key string, tenant string"
        )
        events = [(key, version, note) for key, _, version, note in batch]
        desk.write_rows(number, frame(desk.spark, events).join(tenants, "key"))
    assert desk.rows("key", "tenant", "note") == [
        ("a1", "a", "y"),
        ("a2", "a", "new"),
        ("c\\1", "c", "z"),
        ("d1", None, "z"),
    ]
    assert desk.log.metadata().partition_columns == ["tenant"]
    merges = [one for one in reversed(desk.log.history()) if one["operation"] == "MERGE"]
    predicates = [one["operationParameters"]["predicate"] for one in merges]
    assert [">=" in one for one in predicates] == [bool(told.get("prune", True))] * 3
    assert ["tenant" in one for one in predicates] == [False, "prune_by" in told, False]


@pytest.mark.long
def test_a_row_moves_from_one_partition_to_another(desk: Desk) -> None:
    desk.restart(partition_by=["note"])
    desk.write(0, ("a", 1, "x"), ("b", 1, "x"))
    desk.write(1, ("a", 2, "y"))
    assert desk.rows() == [("a", "y"), ("b", "x")]


@pytest.mark.long
def test_an_aggregate_is_kept_up_to_date_by_a_query(desk: Desk) -> None:
    """Neither versions nor deletes: the later batch wins."""
    files = [["s1", "s2", "s1"], ["s2", "s3"], ["s1"]]
    source = desk.place / "input"
    source.mkdir()
    for number, sections in enumerate(files):
        lines = [json.dumps({"section": section}) for section in sections]
        (source / f"{number}.json").write_text("\n".join(lines))
    desk.restart(key="section", version=None, deleted=None)
    rows = desk.spark.readStream.schema("section string").option("maxFilesPerTrigger", 1)
    counts = rows.json(str(source)).groupBy("section").count()
    checkpoint = str(desk.place / "checkpoint")
    writer = counts.writeStream.outputMode("update").option("checkpointLocation", checkpoint)
    query = writer.foreachBatch(desk.sink).trigger(availableNow=True).start()
    query.awaitTermination()
    assert desk.rows("section", "count") == [("s1", 3), ("s2", 2), ("s3", 1)]
    assert desk.statuses() == ["committed"] * 3


@pytest.mark.long
def test_another_writer_before_the_commit_does_not_matter(desk: Desk) -> None:
    def meanwhile(step: Any, when: str, batch_id: int) -> None:
        if (str(step), when, batch_id) != ("commit", "before", 2):
            return
        other = frame(desk.spark, [("other", 9, "of somebody else")]).drop("is_deleted")
        other.write.format("delta").mode("append").save(desk.uri)
        desk.spark.sql(f"OPTIMIZE delta.`{desk.uri}`")

    desk.restart(probe=meanwhile)
    desk.write(0, ("a", 1, "x"))
    desk.write(1, ("b", 1, "x"))
    desk.write(2, ("a", 2, "y"), ("other", 1, "older"))
    assert desk.rows() == [("a", "y"), ("b", "x"), ("other", "of somebody else")]
    assert desk.stamped() == [0, 1, 2]


def waits(started: Path, go: Path) -> Any:
    """Version by version, but not before it is told to."""

    def wait(version: str) -> str:
        started.touch()
        give_up_at = time.monotonic() + 60
        while not go.exists() and time.monotonic() < give_up_at:
            time.sleep(0.05)
        return version

    return F.udf(wait, "string", useArrow=False)


@pytest.mark.long
def test_a_merge_that_an_optimize_overtakes_is_made_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("freshet"), "propagate", True)
    desk.restart(prune=False)
    desk.write(0, ("a", 1, "x"), ("b", 1, "x"))
    desk.write(1, ("c", 1, "x"), ("d", 1, "x"))
    started, go = desk.place / "started", desk.place / "go"
    plain = Merge._alive

    def slow(merge: Merge, newest: DataFrame, extent: Extent) -> DataFrame:
        rows = plain(merge, newest, extent)
        if go.exists():
            return rows
        return rows.withColumn(Merge.VERSION, waits(started, go)(F.col(Merge.VERSION)))

    def optimize() -> None:
        while not started.exists():
            time.sleep(0.05)
        DeltaTable(desk.uri).optimize.compact()
        go.touch()

    monkeypatch.setattr(Merge, "_alive", slow)
    other = Thread(target=optimize, daemon=True)
    other.start()
    desk.write(2, ("a", 2, "y"), ("c", 2, None), ("e", 1, "z"))
    other.join()
    assert "overtaken" in caplog.messages
    assert desk.rows() == [("a", "y"), ("b", "x"), ("d", "x"), ("e", "z")]
    assert desk.stamped() == [0, 1, 2]
    assert desk.log.transaction_version(APPLICATION) == 3


@pytest.mark.long
def test_a_table_that_was_set_back_is_refused(desk: Desk) -> None:
    desk.write(0, ("a", 1, "x"))
    then = desk.log.version()
    desk.write(1, ("b", 1, "x"))
    desk.spark.sql(f"RESTORE TABLE delta.`{desk.uri}` TO VERSION AS OF {then}")
    version = desk.log.version()
    desk.restart()
    with pytest.raises(ContinuityError, match="the table was set back") as raised:
        desk.write(2, ("c", 1, "x"))
    assert raised.value.case == "table_rolled_back"
    assert (desk.rows(), desk.log.version()) == ([("a", "x")], version)
    assert desk.statuses() == ["committed", "committed", "failed"]


@pytest.mark.parametrize("mode", [Mode.UPDATE, Mode.APPEND])
def test_a_number_is_taken_once(desk: Desk, mode: Mode) -> None:
    """Of two drivers that have prepared the same batch, one lands it."""
    key = ("key", "record_version", "is_deleted") if mode is Mode.UPDATE else (None, None, None)
    store = DeltaStore(desk.uri, mode, *key, (), True, (), None)
    batch = Batch(PIPELINE, SINK, "query", 0, "at 0")
    one, two = (store.prepare(frame(desk.spark, [("a", 1, note)]), batch) for note in "xy")
    landed = one.land("driver one", 0)
    with pytest.raises(OvertakenError, match="another batch came first"):
        two.land("driver two", 0)
    for ready in (one, two):
        ready.discard()
    standing = store.standing(batch)
    assert standing is not None
    assert standing.newest is not None
    assert (standing.number, standing.newest.writer) == (1, "driver one")
    assert standing.newest.version == landed.version == desk.log.version()
    assert desk.rows() == [("a", "x")]


def test_a_batch_without_rows_takes_a_number_in_append_mode(desk: Desk) -> None:
    desk.restart(mode=Mode.APPEND)
    desk.write(0)
    desk.write(1, ("a", 1, "x"))
    desk.write(2)
    desk.restart()
    assert desk.write(2) is None
    assert desk.rows() == [("a", "x")]
    assert desk.log.transaction_version(APPLICATION) == 3


@pytest.mark.long
def test_tombstones_are_forgotten_after_their_time(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freshet.sink.delta_merge._FORGET_EVERY", 2)
    desk.restart(tombstone_retention=timedelta(days=2))
    events: list[Event] = [("a", 2, None), ("c", 1, "x")]
    with monkeypatch.context() as earlier:
        earlier.setattr("freshet.sink.delta.utc_now", lambda: utc_now() - timedelta(days=3))
        desk.write(0, *events)
    desk.write(1, ("b", 2, None))
    kept = desk.spark.read.format("delta").load(f"{desk.uri}_tombstones").collect()
    assert [row["key"] for row in kept] == ["b"]
    late: list[Event] = [("a", 1, "late"), ("b", 1, "late")]
    desk.write(2, *late)
    assert dict(desk.rows()) == recount([("c", 1, "x"), ("b", 2, None), *late])
