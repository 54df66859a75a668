"""The whole way of the data: change files in, a fresh and verified index out."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lancedb
import pytest
from pyspark.sql import SparkSession

from checkpoints import forget_newest_commit
from freshet import Pipeline, Settings
from freshet.errors import (
    ModelMismatchError,
    SearchError,
    SettingsError,
    StreamFailedError,
    TableMissingError,
)
from freshet.schemas import BRONZE
from freshet.sink import BatchReport, Step
from freshet.testing import FailAt, Moment
from histories import indexed, recount, shuffled_history

MakeSettings = Callable[..., Settings]


def land(folder: Path, name: str, *records: dict[str, Any]) -> None:
    (folder / "landing").mkdir(exist_ok=True)
    hidden = folder / "landing" / f".{name}"
    hidden.write_text("".join(json.dumps(record) + "\n" for record in records))
    hidden.rename(folder / "landing" / name)


def article(key: str, version: int, body: str = "text", **more: Any) -> dict[str, Any]:
    return {"id": key, "record_version": version, "title": f"on {key}", "body": body} | more


def version_of(home: str) -> int:
    return int(lancedb.connect(f"{home}/index").open_table("docs").version)


def test_twenty_thousand_shuffled_events_end_in_the_recount(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    history = shuffled_history(keys=5_000, events=20_000, files=40, seed=1, unreadable=2)
    history.land(tmp_path / "landing")
    pipeline = Pipeline(settings(), spark=spark)
    pipeline.run(once=True)
    assert indexed(tmp_path / "home") == recount(tmp_path / "landing")
    verdict = pipeline.verify()
    assert verdict.ok
    assert verdict.gold == verdict.index == len(recount(tmp_path / "landing"))
    bronze = spark.read.format("delta").load(pipeline.home.bronze)
    assert bronze.columns == BRONZE.names
    assert bronze.count() == 20_002
    assert [row["error"] for row in bronze.where("error is not null").collect()] == ["not JSON"] * 2
    before = version_of(pipeline.home.root)
    pipeline.run(once=True)
    assert version_of(pipeline.home.root) == before


def test_the_index_opens_in_lancedb_with_the_columns_that_are_promised(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    land_once(spark, tmp_path, settings, article("a", 1, section="s"))
    table = lancedb.connect(tmp_path / "home" / "index").open_table("docs")
    assert table.schema.names == [
        "key",
        "chunk",
        "chunk_start",
        "text",
        "vector",
        "section",
        "record_version",
        "content_hash",
        "updated_at",
        "embedding_error",
    ]
    assert table.schema.metadata[b"freshet.model"] == b"fake/words-32"
    assert lance.dataset(str(tmp_path / "home/index/docs.lance")).has_stable_row_ids


def land_once(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings, *records: dict[str, Any]
) -> Pipeline:
    pipeline = Pipeline(settings(), spark=spark)
    land(tmp_path, "first.json", *records)
    pipeline.run(once=True)
    return pipeline


@pytest.mark.long
def test_a_thousand_changed_attributes_embed_nothing(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    records = [article(f"k{n}", 1, f"body {n}", section="old") for n in range(1_000)]
    pipeline = land_once(spark, tmp_path, settings, *records)
    changed = [record | {"record_version": 2, "section": "new"} for record in records]
    land(tmp_path, "second.json", *changed)
    pipeline.run(once=True)
    last = pipeline.ledger()[-1]
    assert (last["rows_embedded"], last["rows_reused"]) == (0, 1_000)
    assert {section for _, section in indexed(tmp_path / "home").values()} == {"new"}
    assert pipeline.verify().ok


def test_updates_and_deletes_are_searchable_when_their_batch_commits(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    pipeline = land_once(
        spark,
        tmp_path,
        settings,
        article("a", 1, "apples and pears", section="fruit"),
        article("b", 1, "cars and trains", section="traffic"),
    )
    assert pipeline.search("apples pears", k=1)[0].key == "a"
    assert pipeline.search("apples pears", k=1, where="section = 'traffic'")[0].key == "b"
    land(tmp_path, "2.json", article("b", 2, "apples and pears on apples and pears"))
    pipeline.run(once=True)
    assert {hit.key for hit in pipeline.search("apples pears", k=5)} == {"a", "b"}
    land(tmp_path, "3.json", article("a", 2, is_deleted=True))
    pipeline.run(once=True)
    assert [hit.key for hit in pipeline.search("apples pears", k=5)] == ["b"]
    land(tmp_path, "4.json", article("a", 1, "apples and pears"))
    pipeline.run(once=True)
    assert [hit.key for hit in pipeline.search("apples pears", k=5)] == ["b"]
    assert pipeline.ledger()[-1]["rows_stale"] == 1


def test_search_answers_with_key_piece_score_text_and_attributes(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    pipeline = land_once(spark, tmp_path, settings, article("a", 1, "apples", section="fruit"))
    [hit] = pipeline.search("on a apples")
    assert hit.as_dict() == {
        "key": "a",
        "chunk": 0,
        "start": 0,
        "score": 1.0,
        "text": "on a\napples",
        "section": "fruit",
    }


def test_search_refuses_another_model_and_a_condition_that_cannot_be(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    pipeline = land_once(spark, tmp_path, settings, article("a", 1))
    with pytest.raises(
        SearchError, match=r"the condition .* cannot be used: .* The columns are key"
    ):
        pipeline.search("x", where="sektion = 'a'")
    other = Pipeline(settings(embedding={"provider": "minilm"}), spark=spark)
    with pytest.raises(ModelMismatchError, match="built with model fake/words-32"):
        other.search("x")
    with pytest.raises(ModelMismatchError):
        other.run(once=True)


def test_before_the_first_run_there_is_nothing_to_ask(settings: MakeSettings) -> None:
    pipeline = Pipeline(settings())
    with pytest.raises(TableMissingError, match="there is no index"):
        pipeline.search("x")
    with pytest.raises(TableMissingError, match="there is no index"):
        pipeline.verify()
    status = pipeline.status().as_dict()
    assert status["index"]["rows"] == status["bronze"]["rows"] == status["files"]["seen"] == 0
    assert status["last_batch"] is None


def bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_status_tells_files_events_index_and_the_last_batch(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    pipeline = land_once(spark, tmp_path, settings, article("a", 1), article("b", 1), {"no": "key"})
    land(tmp_path, "waits.json", article("c", 1))
    status = pipeline.status().as_dict()
    assert status["pipeline"] == "docs"
    size = (tmp_path / "landing" / "waits.json").stat().st_size
    assert status["files"] == {"seen": 1, "waiting": 1, "waiting_bytes": size}
    assert status["bronze"] == {"rows": 3, "errors": 1, "envelopes": ("plain",)}
    assert status["schema"] == {"version": 1, "columns": 4, "pending": 0, "conflicts": 0}
    assert status["index"] == {
        "rows": 2,
        "keys": 2,
        "version": version_of(pipeline.home.root),
        "fragments": 1,
        "unindexed_rows": 2,
        "index_parts": 0,
        "deleted_rows": 0,
        "versions": version_of(pipeline.home.root),
        "bytes": bytes_below(Path(pipeline.home.index)),
        "manifest_bytes": max(
            path.stat().st_size for path in Path(pipeline.home.index).glob("_versions/*.manifest")
        ),
        "held": 0,
        "refused": 0,
    }
    assert status["probe"] is None
    assert status["optimizer"]["last"] is None
    assert status["last_batch"]["status"] == "committed"
    assert status["last_batch"]["rows_in"] == 2


@pytest.mark.long
def test_a_batch_never_takes_more_than_it_may(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    land(tmp_path, "bulk.json", *(article(f"k{n}", 1) for n in range(1_000)))
    reports: list[BatchReport] = []
    chosen = settings(pipeline={"max_rows_per_batch": 240})
    Pipeline(chosen, spark=spark, on_batch=reports.append).run(once=True)
    assert sum(report.counts.rows_in for report in reports) == 1_000
    assert max(report.counts.rows_in for report in reports) <= 240


def test_a_batch_that_is_run_again_changes_nothing(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    pipeline = land_once(spark, tmp_path, settings, article("a", 1), article("b", 1))
    before, rows = version_of(pipeline.home.root), len(pipeline.ledger())
    forget_newest_commit(Path(pipeline.home.checkpoint("index")))
    forget_newest_commit(Path(pipeline.home.checkpoint("ingest")))
    Pipeline(settings(), spark=spark).run(once=True)
    assert version_of(pipeline.home.root) == before
    assert len(pipeline.ledger()) == rows
    assert pipeline.status().bronze.rows == 2


@pytest.mark.parametrize(
    ("when", "step"),
    [
        ("after", Step.COMMIT),
        pytest.param("before", Step.PREPARE, marks=pytest.mark.long),
        pytest.param("after", Step.BURY, marks=pytest.mark.long),
    ],
)
def test_a_fault_in_a_run_is_told_and_the_next_run_mends_it(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings, when: str, step: Step
) -> None:
    land_once(spark, tmp_path, settings, article("a", 1), article("b", 1))
    land(tmp_path, "2.json", article("a", 2, "new"), article("b", 2, is_deleted=True))
    fault = FailAt(Moment(when, step, 1))
    with pytest.raises(StreamFailedError, match=f"{when} {step} of batch 1"):
        Pipeline(settings(), spark=spark, probe=fault).run(once=True)
    assert fault.struck
    pipeline = Pipeline(settings(), spark=spark)
    pipeline.run(once=True)
    assert {key: text for key, (text, _) in indexed(tmp_path / "home").items()} == {
        "a": "on a\nnew"
    }
    assert pipeline.verify().ok
    landed = [row for row in pipeline.ledger() if row["status"] != "failed"]
    assert [row["batch_id"] for row in landed] == [0, 1]


def test_a_continuous_run_follows_the_files_and_stops_when_told(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    chosen = settings(pipeline={"trigger": "200 milliseconds"})
    pipeline = Pipeline(chosen, spark=spark)
    stop = threading.Event()
    running = threading.Thread(target=pipeline.run, kwargs={"stop": stop})
    running.start()
    try:
        for version in range(1, 4):
            land(tmp_path, f"{version}.json", article("a", version, f"text {version}"))
            wait_until(lambda v=version: indexed_text(tmp_path) == f"on a\ntext {v}")
    finally:
        stop.set()
        running.join()
    assert not spark.streams.active
    assert pipeline.verify().ok


def indexed_text(folder: Path) -> str | None:
    if not (folder / "home" / "index" / "docs.lance" / "_versions").exists():
        return None
    return indexed(folder / "home").get("a", (None,))[0]


def wait_until(is_done: Callable[[], bool], patience_s: float = 60) -> None:
    deadline = time.monotonic() + patience_s
    while not is_done():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


@pytest.mark.parametrize("file_format", ["csv", "parquet"])
def test_csv_and_parquet_feeds_become_an_index(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings, file_format: str
) -> None:
    rows = [("a", 10, "false", "T", "new", "s"), ("a", 9, "false", "T", "old", "s")]
    frame = spark.createDataFrame(
        rows,
        "id string, record_version int, is_deleted string, title string, body string, "
        "section string",
    )
    (tmp_path / "landing").mkdir()
    frame.coalesce(1).write.option("header", True).format(file_format).save(
        str(tmp_path / "landing" / "day=1")
    )
    pipeline = Pipeline(settings(landing={"format": file_format}), spark=spark)
    pipeline.run(once=True)
    assert indexed(tmp_path / "home") == {"a": ("T\nnew", "s")}


@pytest.mark.parametrize(
    ("sections", "sentence"),
    [
        ({"landing": {"path": "/nowhere/at/all"}}, "landing.path is /nowhere/at/all, but there is"),
        ({"changes": {"key": ["idd"]}}, "changes.key names idd, but none of the first 1 records"),
        ({"gold": {"text": ["content"]}}, "gold.text names content, but none of the first 1"),
    ],
)
def test_settings_that_do_not_fit_the_data_create_nothing(
    tmp_path: Path, settings: MakeSettings, sections: dict[str, Any], sentence: str
) -> None:
    chosen = settings(**sections)
    land(tmp_path, "a.json", article("a", 1))
    with pytest.raises(SettingsError) as caught:
        Pipeline(chosen).run(once=True)
    assert sentence in str(caught.value)
    assert not (tmp_path / "home").exists()


@pytest.mark.long
def test_a_file_whose_name_is_not_ready_is_left_alone(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    pipeline = land_once(spark, tmp_path, settings, article("a", 1))
    (tmp_path / "landing" / "_half.json").write_text('{"id": "b", "record_')
    pipeline.run(once=True)
    assert pipeline.status().files.seen == 1
    assert pipeline.status().bronze.errors == 0
