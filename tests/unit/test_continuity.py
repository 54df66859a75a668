"""The start-up check on real tables, without Spark: what was lost, restored or replaced."""

import shutil
from datetime import timedelta
from pathlib import Path

import lance
import pytest

from drivers import SCHEMA, Driver
from freshet.errors import ContinuityError, HistoryMissingError
from freshet.sink import Mode
from freshet.stores.lance_tables import LanceTable

ALL = [Mode.UPDATE, Mode.APPEND, Mode.COMPLETE]


def three_batches(folder: Path, mode: Mode) -> Driver:
    driver = Driver(folder, mode)
    for batch, keys in enumerate([("a",), ("b",), ("c",)]):
        driver.write(batch, *keys)
    return driver


def refusal(driver: Driver, batch_id: int, *keys: str) -> str:
    """Why a batch is refused; nothing may have been written."""
    before = lance.dataset(driver.uri).version if Path(driver.uri).exists() else None
    with pytest.raises(ContinuityError) as refused:
        driver.write(batch_id, *keys)
    after = lance.dataset(driver.uri).version if Path(driver.uri).exists() else None
    assert after == before
    assert "Nothing was written" in str(refused.value)
    return refused.value.case


@pytest.mark.parametrize("mode", ALL)
def test_a_normal_restart_goes_on(tmp_path: Path, mode: Mode) -> None:
    three_batches(tmp_path, mode)
    driver = Driver(tmp_path, mode)
    assert driver.write(2, "c") is None, "the newest batch again is skipped"
    driver.write(3, "d")
    assert driver.keys() == (["d"] if mode is Mode.COMPLETE else ["a", "b", "c", "d"])


# --- the checkpoint ------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [Mode.UPDATE, Mode.COMPLETE])
def test_a_deleted_checkpoint_is_recognised_and_reading_again_changes_nothing(
    tmp_path: Path, mode: Mode, caplog: pytest.LogCaptureFixture
) -> None:
    three_batches(tmp_path, mode)
    driver = Driver(tmp_path, mode, query_id="new")
    report = driver.write(0, "a", "b", "c")
    assert report is not None
    assert "checkpoint_replaced" in caplog.messages
    assert driver.keys() == ["a", "b", "c"]
    if mode is Mode.UPDATE:
        assert (report.counts.rows_upserted, report.counts.rows_unchanged) == (0, 3)


def test_a_deleted_checkpoint_is_refused_where_rows_would_be_added_again(tmp_path: Path) -> None:
    three_batches(tmp_path, Mode.APPEND)
    assert refusal(Driver(tmp_path, Mode.APPEND, query_id="new"), 0, "a") == "checkpoint_replaced"


def test_an_older_checkpoint_is_recognised_and_run_again_by_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    three_batches(tmp_path, Mode.UPDATE)
    driver = Driver(tmp_path)
    driver.write(1, "b", "c", "new", offsets="elsewhere")
    driver.write(2, "newer", offsets="elsewhere still")
    driver.write(3, "newest")
    assert "checkpoint_older" in caplog.messages
    assert driver.keys() == ["a", "b", "c", "new", "newer", "newest"]
    assert driver.landed()[3:] == [(1, "replayed"), (2, "replayed"), (3, "committed")]


def test_the_newest_batch_planned_anew_is_not_taken_for_the_one_that_landed(tmp_path: Path) -> None:
    three_batches(tmp_path, Mode.UPDATE)
    driver = Driver(tmp_path)
    driver.write(2, "c", "more", offsets="further on")
    assert driver.keys() == ["a", "b", "c", "more"]
    append = tmp_path / "append"
    append.mkdir()
    three_batches(append, Mode.APPEND)
    with pytest.raises(ContinuityError, match="restored from an older copy"):
        Driver(append, Mode.APPEND).write(2, "c", "more", offsets="further on")


def test_an_older_checkpoint_that_plans_the_same_batches_skips_them(tmp_path: Path) -> None:
    three_batches(tmp_path, Mode.APPEND)
    driver = Driver(tmp_path, Mode.APPEND)
    for batch, key in enumerate("abc"):
        assert driver.write(batch, key) is None
    driver.write(3, "d")
    assert driver.keys() == ["a", "b", "c", "d"]


def test_a_crash_while_an_older_checkpoint_is_run_again_is_recovered(tmp_path: Path) -> None:
    three_batches(tmp_path, Mode.UPDATE)
    replaying = Driver(tmp_path)
    replaying.ledger.record = lambda report: (_ for _ in ()).throw(OSError)  # type: ignore[method-assign]
    with pytest.raises(OSError):  # noqa: PT011 - the crash
        replaying.write(1, "b", "new", offsets="elsewhere")
    report = Driver(tmp_path).write(1, "b", "new", offsets="elsewhere")
    assert report is not None
    assert report.status == "recovered"
    assert Driver(tmp_path).keys() == ["a", "b", "c", "new"]


@pytest.mark.parametrize("mode", ALL)
def test_a_checkpoint_that_is_ahead_is_refused(tmp_path: Path, mode: Mode) -> None:
    three_batches(tmp_path, mode)
    assert refusal(Driver(tmp_path, mode), 7, "z") == "checkpoint_ahead"


# --- the ledger ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ALL)
@pytest.mark.parametrize("next_batch", [2, 3])
def test_a_deleted_ledger_is_made_up_for_by_the_table(
    tmp_path: Path, mode: Mode, next_batch: int, caplog: pytest.LogCaptureFixture
) -> None:
    before = three_batches(tmp_path, mode).keys()
    shutil.rmtree(tmp_path / "ledger")
    driver = Driver(tmp_path, mode)
    report = driver.write(next_batch, "c" if next_batch == 2 else "d")
    assert "ledger_missing" in caplog.messages
    assert report is not None
    assert report.status == ("recovered" if next_batch == 2 else "committed")
    if next_batch == 2:
        assert driver.keys() == before
    else:
        assert driver.keys() == (["d"] if mode is Mode.COMPLETE else ["a", "b", "c", "d"])


def test_a_deleted_ledger_and_a_cleaned_history_stop_an_append(tmp_path: Path) -> None:
    driver = three_batches(tmp_path, Mode.APPEND)
    shutil.rmtree(tmp_path / "ledger")
    lance.dataset(driver.uri).update_config({"unrelated": "yes"})
    lance.dataset(driver.uri).cleanup_old_versions(older_than=timedelta(0))
    with pytest.raises(HistoryMissingError):
        Driver(tmp_path, Mode.APPEND).write(0, "a")


# --- the table -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ALL)
def test_a_deleted_table_is_refused_and_not_made_again(tmp_path: Path, mode: Mode) -> None:
    driver = three_batches(tmp_path, mode)
    shutil.rmtree(driver.uri)
    assert refusal(Driver(tmp_path, mode), 3, "d") == "table_missing"
    assert not Path(driver.uri).exists()


@pytest.mark.parametrize("mode", ALL)
def test_a_table_in_place_of_another_is_refused(tmp_path: Path, mode: Mode) -> None:
    driver = three_batches(tmp_path, mode)
    shutil.rmtree(driver.uri)
    LanceTable.create(driver.uri, SCHEMA, key="key")
    assert refusal(Driver(tmp_path, mode), 3, "d") == "table_replaced"


def test_a_deleted_table_with_a_new_checkpoint_is_a_fresh_start(tmp_path: Path) -> None:
    driver = three_batches(tmp_path, Mode.APPEND)
    shutil.rmtree(driver.uri)
    again = Driver(tmp_path, Mode.APPEND, query_id="new")
    again.write(0, "a")
    again.write(1, "b")
    Driver(tmp_path, Mode.APPEND, query_id="new").write(2, "c")
    assert again.keys() == ["a", "b", "c"]


@pytest.mark.parametrize("mode", ALL)
def test_a_table_that_was_restored_is_refused(tmp_path: Path, mode: Mode) -> None:
    driver = three_batches(tmp_path, mode)
    version = lance.dataset(driver.uri).version
    lance.dataset(driver.uri, version=version - 1).restore()
    assert refusal(Driver(tmp_path, mode), 3, "d") == "table_rolled_back"


@pytest.mark.parametrize("mode", ALL)
def test_a_table_whose_newest_version_was_removed_is_refused(tmp_path: Path, mode: Mode) -> None:
    driver = three_batches(tmp_path, mode)
    versions = Path(driver.uri) / "_versions"
    newest = lance.dataset(driver.uri).version
    names = {str(newest), str(2**64 - 1 - newest)}
    removed = [file for file in versions.iterdir() if file.name.split(".")[0] in names]
    assert removed, sorted(versions.iterdir())
    for file in removed:
        file.unlink()
    assert refusal(Driver(tmp_path, mode), 3, "d") == "table_rolled_back"


# --- the name ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ALL)
def test_a_renamed_pipeline_on_its_old_checkpoint_is_refused(tmp_path: Path, mode: Mode) -> None:
    three_batches(tmp_path, mode)
    assert refusal(Driver(tmp_path, mode, pipeline="renamed"), 3, "d") == "checkpoint_unknown"
    assert not (tmp_path / "renamed.lance").exists()


def test_a_checkpoint_of_another_sink_can_be_taken_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    driver = Driver(tmp_path, Mode.APPEND, takes_over=True)
    driver.write(500, "a")
    assert "checkpoint_taken_over" in caplog.messages
    Driver(tmp_path, Mode.APPEND).write(501, "b")
    assert driver.keys() == ["a", "b"]
