"""Nothing is embedded twice: what the ledger counts is what was new, exactly."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import lance
import pytest
from pyspark.sql import SparkSession

from embedding_server import POISON, serving
from freshet import Pipeline, Settings
from freshet.errors import StreamFailedError
from freshet.sink import Step

MakeSettings = Callable[..., Settings]
Record = dict[str, Any]


def land(folder: Path, name: str, records: Iterable[Record]) -> None:
    text = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "landing").mkdir(exist_ok=True)
    (folder / "landing" / name).write_text(text)


def record(number: int, version: int = 1, **values: Any) -> Record:
    own = {"id": f"k{number}", "record_version": version, "title": f"title of {number}"}
    return own | {"body": "a river and a mill", "section": "a"} | values


def last_batch(pipeline: Pipeline) -> tuple[int, int]:
    batch = pipeline.ledger()[-1]
    return batch["rows_embedded"], batch["rows_reused"]


def feed(spark: SparkSession, folder: Path, settings: Settings, records: int) -> None:
    """All records, then all once more, of which one in twenty has another text."""
    land(folder, "a.json", (record(number) for number in range(records)))
    pipeline = Pipeline(settings, spark=spark)
    pipeline.run(once=True)
    assert sum(batch["rows_embedded"] for batch in pipeline.ledger()) == records
    known = len(pipeline.ledger())
    again = (
        record(number, 2, section="b", **({} if number % 20 else {"body": f"now {number}"}))
        for number in range(records)
    )
    land(folder, "b.json", again)
    pipeline.run(once=True)
    later = pipeline.ledger()[known:]
    assert sum(batch["rows_embedded"] for batch in later) == records // 20
    assert sum(batch["rows_reused"] for batch in later) == records - records // 20
    assert pipeline.verify().ok


def test_of_a_change_feed_only_changed_texts_are_embedded(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    feed(spark, tmp_path, settings(pipeline={"max_rows_per_batch": 1_500}), 2_000)


@pytest.mark.long
def test_of_a_large_change_feed_only_changed_texts_are_embedded(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    feed(spark, tmp_path, settings(), 40_000)


@pytest.mark.long
def test_an_edit_of_one_paragraph_embeds_three_pieces_at_most(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    paragraphs = [
        " ".join(f"In {year} the river rose {day} times." for day in range(6))
        for year in range(1900, 1960)
    ]
    land(tmp_path, "a.json", [record(1, title="", body="\n\n".join(paragraphs))])
    told = settings(embedding={"provider": "minilm"}, gold={"chunk_tokens": 96})
    pipeline = Pipeline(told, spark=spark)
    pipeline.run(once=True)
    pieces = pipeline.status().index.rows
    assert pieces >= 30
    paragraphs[30] = "In 1930 nothing was written down. The mill had burnt, and the scribe left."
    land(tmp_path, "b.json", [record(1, 2, title="", body="\n\n".join(paragraphs))])
    pipeline.run(once=True)
    embedded, reused = last_batch(pipeline)
    assert 1 <= embedded <= 3
    assert reused >= pieces - 4
    assert pipeline.verify().ok
    for hit in pipeline.search("the mill had burnt", k=5):
        assert "\n\n".join(paragraphs)[hit.start - 1 :].startswith(hit.text)


def test_a_text_that_comes_back_moves_or_is_copied_costs_nothing(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    pipeline = Pipeline(settings(), spark=spark)
    land(tmp_path, "a.json", [record(1), record(2)])
    pipeline.run(once=True)
    land(tmp_path, "b.json", [record(1, 2, is_deleted=True), record(2, 2, body="a weir")])
    pipeline.run(once=True)
    assert last_batch(pipeline) == (1, 0)
    back = [record(1, 3), record(2, 3), record(3, title="title of 2"), record(4, body="new")]
    land(tmp_path, "c.json", back)
    pipeline.run(once=True)
    assert last_batch(pipeline) == (1, 3)
    assert pipeline.verify().ok


@pytest.mark.long
def test_a_rebuild_embeds_only_what_is_cut_otherwise(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    long = " ".join(f"word{number}" for number in range(200))
    land(tmp_path, "a.json", [record(number) for number in range(20)])
    land(tmp_path, "b.json", [record(30, title="", body=long)])
    Pipeline(settings(), spark=spark).run(once=True)
    changed = settings(gold={"attributes": ["section", "title"]})
    assert Pipeline(changed, spark=spark).rebuild().embedded == 0
    cut = settings(gold={"chunk_tokens": 32, "chunk_overlap": 0})
    pipeline = Pipeline(cut, spark=spark)
    report = pipeline.rebuild()
    assert report.reused == 20
    assert 0 < report.embedded <= 10
    assert pipeline.verify().ok


@pytest.mark.long
def test_what_a_failed_batch_has_embedded_is_not_lost(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    def fault(step: Step, when: str, batch_id: int) -> None:
        if (step, when) == (Step.COMMIT, "before"):
            raise OSError("the disk is gone")

    land(tmp_path, "a.json", [record(number) for number in range(30)])
    with pytest.raises(StreamFailedError, match="the disk is gone"):
        Pipeline(settings(), spark=spark, probe=fault).run(once=True)
    pipeline = Pipeline(settings(), spark=spark)
    pipeline.run(once=True)
    assert last_batch(pipeline) == (0, 30)
    assert pipeline.verify().ok


def test_without_a_cache_nothing_is_kept_beside_the_index(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    land(tmp_path, "a.json", [record(1)])
    pipeline = Pipeline(settings(embedding={"cache": False}), spark=spark)
    pipeline.run(once=True)
    assert not (tmp_path / "home" / "vectors").exists()


def test_a_text_that_the_model_refuses_is_set_aside_until_it_is_tried_again(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    land(tmp_path, "a.json", [record(number) for number in range(40)])
    land(tmp_path, "b.json", [record(50, title=f"the {POISON}", section="z")])
    with serving() as server:
        told = server.settings | {"retries": 1, "timeout": "2 seconds"}
        pipeline = Pipeline(settings(embedding=told), spark=spark)
        pipeline.run(once=True)
        [one] = pipeline.refused()
        assert (one.key, one.chunk) == ("k50", 0)
        assert "400" in one.error
        assert pipeline.status().index.keys == 41
        assert pipeline.status().index.refused == 1
        assert pipeline.verify().ok
        assert "k50" not in {hit.key for hit in pipeline.search("unheard of", k=100)}
        assert pipeline.retry_refused() == 1
        assert len(list(pipeline.refused())) == 1
        server.refused_word = None
        assert pipeline.retry_refused() == 1
        assert not list(pipeline.refused())
        assert "k50" in {hit.key for hit in pipeline.search("unheard of", k=100)}
        assert pipeline.verify().ok


@pytest.mark.long
def test_an_index_that_was_made_before_can_be_asked_until_it_is_rebuilt(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    land(tmp_path, "a.json", [record(1)])
    pipeline = Pipeline(settings(), spark=spark)
    pipeline.run(once=True)
    lance.dataset(pipeline.home.index).drop_columns(["chunk_start", "embedding_error"])
    assert pipeline.status().index.refused == 0
    assert list(pipeline.refused()) == []
    [hit] = pipeline.search("a river")
    assert (hit.key, hit.start) == ("k1", None)
