"""Records without text, several vectors of a record, and Gold as a table."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from checkpoints import forget_newest_commit
from freshet import Pipeline, Settings
from freshet.embedding import ProviderSpec
from freshet.errors import ModelMismatchError, SchemaMismatchError, SearchError
from freshet.gold import GoldTable, project, refused
from freshet.schemas import CHANGES, spark_ddl

MakeSettings = Callable[..., Settings]
VECTORS = {"title_vector": ["title"], "both": ["title", "tag"]}


def land(folder: Path, name: str, *records: dict[str, Any]) -> None:
    (folder / "landing" / name).write_text("".join(json.dumps(one) + "\n" for one in records))


def record(key: str, version: int, title: str | None, body: str | None = None, **more: Any) -> Any:
    return {"id": key, "record_version": version, "title": title, "body": body} | more


def index_of(pipeline: Pipeline) -> dict[tuple[str, int], dict[str, Any]]:
    rows = lance.dataset(pipeline.home.index).to_table().to_pylist()
    return {(row["key"], row["chunk"]): row for row in rows}


def changes(spark: SparkSession, *events: tuple[str, str, bool, str | None]) -> DataFrame:
    rows = [
        {"key": key, "record_version": version, "is_deleted": is_deleted, "raw": raw}
        for key, version, is_deleted, raw in events
    ]
    return spark.createDataFrame(rows, spark_ddl(CHANGES))


# --- missing text --------------------------------------------------------------------------------


def test_text_is_missing_if_all_its_columns_are_absent_null_or_blank(spark: SparkSession) -> None:
    texts = {
        "absent": "{}",
        "null": '{"title":null}',
        "blank": '{"title":" \\t\\n","it\'s.body":""}',
        "body": '{"title":null,"it\'s.body":"b"}',
        "zero": '{"title":0}',
    }
    events = [(key, "P1", False, raw) for key, raw in texts.items()]
    frame = changes(spark, *events, ("gone", "P1", True, None))
    template = "{{{title}}}: {it's.body}"
    made = project(frame, template=template, deletes_without_text=True).collect()
    assert {row["key"] for row in made if row["is_deleted"]} == {"absent", "null", "blank", "gone"}
    assert {row["text"] for row in made if not row["is_deleted"]} == {"{}: b", "{0}: "}
    kept = project(frame, template=template).collect()
    assert [row["key"] for row in kept if row["is_deleted"]] == ["gone"]
    bad = refused(frame, ["title", "it's.body"]).where("error IS NOT NULL").collect()
    assert {row["key"] for row in bad} == {"absent", "null", "blank"}
    assert {row["error"] for row in bad} == {"no text in title, it's.body"}


def test_what_a_tool_left_out_is_not_missing(spark: SparkSession) -> None:
    frame = changes(spark, ("a", "P1", False, '{"title":""}'))
    left_out = frame.selectExpr(
        *(name for name in frame.columns if name != "unavailable"),
        """'["body"]' AS unavailable""",
    )
    assert refused(left_out, ["title", "body"]).collect()[0]["error"] is None
    assert refused(left_out, ["title"]).collect()[0]["error"] == "no text in title"


@pytest.mark.long
def test_a_record_that_loses_its_text_is_deleted_or_its_event_is_set_aside(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    home = {"name": "docs", "home": str(tmp_path / "other")}
    deleting = Pipeline(settings(gold={"missing_text": "delete"}), spark=spark)
    asking = Pipeline(settings(gold={"missing_text": "quarantine"}, pipeline=home), spark=spark)
    land(tmp_path, "1.json", record("a", 1, "apples"), record("b", 1, "pears"))
    land(tmp_path, "2.json", record("a", 3, " ", ""), record("c", 1, None))
    land(tmp_path, "3.json", record("a", 2, "late"))
    for pipeline in (deleting, asking):
        pipeline.run(once=True)
    assert deleting.verify().ok
    assert set(index_of(deleting)) == {("b", 0)}
    assert list(deleting.quarantined()) == []
    texts = {key: row["text"] for (key, _), row in index_of(asking).items()}
    assert texts == {"a": "late", "b": "pears"}
    bad = {json.loads(one.raw or "")["id"]: one.error for one in asking.quarantined()}
    assert bad == dict.fromkeys("ac", "no text in title, body")
    keeping = Pipeline(settings(pipeline=home), spark=spark)
    keeping.retry()
    keeping.run(once=True)
    assert list(keeping.quarantined()) == []
    assert {key for key, _ in index_of(keeping)} == {"a", "b", "c"}
    assert index_of(keeping)["a", 0]["text"].strip() == ""


# --- several vectors -----------------------------------------------------------------------------


def test_a_record_has_further_vectors_that_are_made_once_and_can_be_searched(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    chosen = settings(gold={"vectors": VECTORS, "chunk_tokens": 8, "chunk_overlap": 0})
    pipeline = Pipeline(chosen, spark=spark)
    long = " ".join(f"w{n}" for n in range(12))
    land(
        tmp_path,
        "1.json",
        record("a", 1, "red apples", long, tag="fruit"),
        record("b", 1, "fast cars", "red apples grow on trees"),
        record("c", 1, " ", "no title", tag=None),
        record("d", 1, "red apples"),
    )
    pipeline.run(once=True)
    rows = index_of(pipeline)
    embed = ProviderSpec("fake").load().embed
    np.testing.assert_allclose(rows["a", 0]["title_vector"], embed(["red apples"])[0], rtol=1e-6)
    np.testing.assert_allclose(rows["a", 0]["both"], embed(["red apples\nfruit"])[0], rtol=1e-6)
    assert rows["a", 1]["title_vector"] is rows["a", 1]["both_hash"] is None
    assert rows["c", 0]["title_vector"] is rows["c", 0]["title_vector_hash"] is None
    assert rows["b", 0]["title_vector_hash"] == rows["b", 0]["both_hash"]
    # Pieces: two of a, two of b and one each; title and both: all but those of c, which are none.
    made = pipeline.ledger()[-1]
    different = {row["content_hash"] for row in rows.values()}
    different |= {row[name] for row in rows.values() for name in ("title_vector_hash", "both_hash")}
    assert made["rows_embedded"] == len(different - {None})
    assert made["rows_embedded"] + made["rows_reused"] == len(rows) + 6
    assert pipeline.verify().ok

    hits = pipeline.search("red apples", k=9, vector="title_vector")
    assert sorted(hit.key for hit in hits) == ["a", "b", "d"]
    assert {hits[0].key, hits[1].key} == {"a", "d"}
    assert hits[0].score == hits[1].score == 1.0
    assert list(hits[0].attributes) == ["section"]
    only = pipeline.search("red apples", vector="title_vector", where="key > 'b'")
    assert [hit.key for hit in only] == ["d"]
    with pytest.raises(SearchError, match='no vector "titel"; it has vector, both, title_vector'):
        pipeline.search("x", vector="titel")
    with pytest.raises(
        SearchError, match=r"columns are key, chunk, chunk_start, text, title_vector_hash"
    ):
        pipeline.search("x", where="nonsense = 1")

    land(tmp_path, "2.json", record("a", 2, "red apples", "new", tag="fruit", section="s"))
    pipeline.run(once=True)
    made = pipeline.ledger()[-1]
    assert (made["rows_embedded"], made["rows_reused"]) == (1, 2)
    forged = {"title_vector_hash": "'forged'"}
    lance.dataset(pipeline.home.index).update(forged, where="key = 'b'")
    assert pipeline.verify().wrong_text == 1

    other = settings(gold={"vectors": VECTORS | {"both": ["body"]}})
    with pytest.raises(ModelMismatchError, match="built with vectors"):
        Pipeline(other, spark=spark).check()
    none = settings(gold={"chunk_tokens": 8, "chunk_overlap": 0})
    with pytest.raises(SchemaMismatchError, match="title_vector is not filled"):
        Pipeline(none, spark=spark).check()


# --- the Gold table ------------------------------------------------------------------------------


def kept(spark: SparkSession, uri: str) -> dict[str, dict[str, Any]]:
    rows = spark.read.format("delta").load(uri).collect()
    found = {row["key"]: row.asDict() for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.long
def test_gold_is_kept_as_a_table_also_when_it_is_asked_for_later(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    taking_all = {"attributes": "*", "missing_text": "delete"}
    plain = Pipeline(settings(gold=taking_all), spark=spark)
    land(tmp_path, "1.json", record("a", 1, "one", n=1), record("b", 1, "two"))
    land(tmp_path, "2.json", record("b", 3, "two", is_deleted=True), record("c", 1, "three"))
    plain.run(once=True)
    chosen = settings(gold=taking_all | {"keep_table": True})
    pipeline = Pipeline(chosen, spark=spark)
    land(tmp_path, "3.json", record("b", 2, "late"), record("c", 2, "four", n=1.5, new="x"))
    land(tmp_path, "4.json", record("d", 1, " ", record="own"))
    pipeline.run(once=True)
    rows = kept(spark, pipeline.home.gold)
    dead = {key for key, row in rows.items() if row["is_deleted"]}
    assert dead == {"b", "d"}
    assert rows["b"]["record"] is rows["b"]["text"] is rows["b"]["title"] is None
    assert (rows["a"]["n"], rows["c"]["n"], rows["c"]["new"]) == (1.0, 1.5, "x")
    assert json.loads(rows["c"]["record"]) == record("c", 2, "four", n=1.5, new="x")
    alive = {(key, row["record_version"]) for key, row in rows.items() if not row["is_deleted"]}
    assert alive == {(row["key"], row["record_version"]) for row in index_of(pipeline).values()}

    forget_newest_commit(Path(pipeline.home.checkpoint("index")))
    Pipeline(chosen, spark=spark).run(once=True)
    assert kept(spark, pipeline.home.gold) == rows


@pytest.mark.long
def test_the_table_takes_only_news_and_a_truncate_deletes_what_is_below(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = str(tmp_path / "it's `gold`")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    table = GoldTable(place, definition="as it is", retention=timedelta(1), clock=lambda: now)

    def records(*events: tuple[str, str, bool, str | None]) -> DataFrame:
        return project(changes(spark, *events), text=["t"], with_record=True)

    assert not table.fits(spark)
    first = records(("a", "P1", False, '{"t":"a1"}'), ("b", "P5", False, '{"t":"b5"}'))
    table.fill(first)
    assert table.fits(spark)
    assert not GoldTable(place, definition="other").fits(spark)
    table.merge(records(("a", "P0", True, None), ("b", "P4", False, "{}"), ("b", "P3", True, None)))
    assert table.differences(first) == 0
    table.merge(records(("c", "P2", False, '{"t":"c"}')), floor="P4", truncates=True)
    rows = kept(spark, place)
    assert {key: row["is_deleted"] for key, row in rows.items()} == {"a": True, "b": False}
    now += timedelta(2)
    monkeypatch.setattr("freshet.gold.table._UPKEEP_EVERY", 1)
    table.merge(records(("a", "P2", False, '{"t":"a2"}'), ("b", "P5", True, None)), floor="P4")
    assert {key: row["is_deleted"] for key, row in kept(spark, place).items()} == {"b": True}
