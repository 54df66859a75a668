"""A whole pipeline whose checkpoint, ledger, table or name was changed between two runs."""

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import pytest
from pyspark.sql import SparkSession

from checkpoints import forget_newest_commit, go_back_to
from freshet import Pipeline, Settings
from freshet.errors import ContinuityError
from freshet.settings import from_values


def land(folder: Path, name: str, *keys: str) -> None:
    rows = [
        {"id": key, "record_version": 1, "title": key, "body": f"on {key}", "section": "s"}
        for key in keys
    ]
    (folder / "landing" / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="module")
def original(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home after three batches, and one more file that has landed since."""
    folder = tmp_path_factory.mktemp("original")
    (folder / "landing").mkdir()
    for number, keys in enumerate([("a", "b"), ("c",), ("d",)]):
        land(folder, f"{number}.json", *keys)
        Pipeline(settings_of(folder, folder / "home"), spark=spark).run(once=True)
    land(folder, "3.json", "e")
    return folder


@pytest.fixture
def home(original: Path, tmp_path: Path) -> Path:
    """A copy for one test: all of a home can move together."""
    shutil.copytree(original / "home", tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def run(spark: SparkSession, original: Path, home: Path) -> Callable[..., Pipeline]:
    """Runs the pipeline until it has drained; every run is a new driver."""

    def run(name: str = "docs") -> Pipeline:
        pipeline = Pipeline(settings_of(original, home, name), spark=spark)
        pipeline.run(once=True)
        return pipeline

    return run


def settings_of(original: Path, home: Path, name: str = "docs") -> Settings:
    return from_values(
        {
            "pipeline": {"name": name, "home": str(home)},
            "landing": {"path": str(original / "landing")},
            "changes": {"envelope": "plain", "key": ["id"], "version": "record_version"},
            "gold": {"text": ["title", "body"], "attributes": ["section"]},
            "embedding": {"provider": "fake"},
        }
    )


def version(home: Path) -> int:
    return int(lance.dataset(str(home / "index/docs.lance")).version)


def embedded(pipeline: Pipeline) -> list[int]:
    return [row["rows_embedded"] for row in pipeline.ledger()]


@pytest.mark.long
def test_the_newest_commit_forgotten_changes_nothing_and_the_log_says_skipped(
    home: Path, run: Callable[..., Pipeline], caplog: pytest.LogCaptureFixture
) -> None:
    before = version(home)
    forget_newest_commit(home / "checkpoints/index")
    with caplog.at_level(logging.INFO, "freshet"):
        pipeline = run()
    assert caplog.messages.count("batch_skipped") == 1
    assert version(home) == before + 1
    assert embedded(pipeline)[3:] == [1]


@pytest.mark.long
def test_a_deleted_checkpoint_goes_on_after_the_last_batch_that_landed(
    home: Path, run: Callable[..., Pipeline], caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(home / "checkpoints/index")
    pipeline = run()
    assert "checkpoint_rebuilt" in caplog.messages
    assert [row["rows_unchanged"] for row in pipeline.ledger()[3:]] == [0]
    assert pipeline.verify().ok


def test_a_checkpoint_that_starts_over_reads_bronze_again_and_embeds_nothing_twice(
    home: Path, run: Callable[..., Pipeline], caplog: pytest.LogCaptureFixture
) -> None:
    before = version(home)
    for part in ("offsets", "commits"):
        shutil.rmtree(home / "checkpoints/index" / part)
    (home / "checkpoints/index/metadata").write_text(
        '{"id":"00000000-0000-0000-0000-000000000001"}'
    )
    (home / "checkpoints/index/.metadata.crc").unlink(missing_ok=True)
    pipeline = run()
    assert "checkpoint_replaced" in caplog.messages
    assert version(home) == before + 1
    assert sum(embedded(pipeline)[3:]) == 1
    assert pipeline.verify().ok


@pytest.mark.long
def test_a_restored_older_checkpoint_loses_nothing_and_embeds_nothing_twice(
    home: Path, run: Callable[..., Pipeline], caplog: pytest.LogCaptureFixture
) -> None:
    go_back_to(home / "checkpoints/index", 0)
    pipeline = run()
    assert "checkpoint_older" in caplog.messages
    assert sum(embedded(pipeline)[3:]) == 1
    assert pipeline.verify().ok


@pytest.mark.long
def test_a_deleted_ledger_is_made_up_for(
    home: Path, run: Callable[..., Pipeline], caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(home / "ledger")
    pipeline = run()
    assert "ledger_missing" in caplog.messages
    assert embedded(pipeline) == [1]
    assert pipeline.verify().ok


@pytest.mark.long
def test_a_deleted_table_is_refused_until_it_is_built_anew(
    home: Path, run: Callable[..., Pipeline]
) -> None:
    shutil.rmtree(home / "index/docs.lance")
    with pytest.raises(ContinuityError, match=r"is gone .*delete the checkpoint too"):
        run()
    assert not (home / "index/docs.lance").exists()
    shutil.rmtree(home / "checkpoints/index")
    assert run().verify().ok


def test_a_table_that_was_set_back_is_refused(home: Path, run: Callable[..., Pipeline]) -> None:
    lance.dataset(str(home / "index/docs.lance"), version=version(home) - 1).restore()
    with pytest.raises(ContinuityError, match="the table was set back"):
        run()


def test_a_renamed_pipeline_is_refused(home: Path, run: Callable[..., Pipeline]) -> None:
    with pytest.raises(ContinuityError, match="the pipeline was renamed"):
        run("renamed")
    assert not (home / "index/renamed.lance").exists()
