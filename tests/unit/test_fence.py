"""Several drivers on one table: every row once, and who has lost says so. Real tables, no Spark."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from drivers import SCHEMA, Driver
from freshet.errors import FencedError, SinkNameTakenError, StoreError
from freshet.sink import BatchReport, Mode, Probe, Step
from freshet.sink.stamps import Batch, Counts
from freshet.sink.steps import no_probe
from freshet.stores import lance_withdrawals
from freshet.stores.lance_commits import Commit
from freshet.stores.lance_tables import LanceTable
from freshet.testing import FailAt, InjectedFaultError, Moment


def append_driver(folder: Path, **options: Any) -> Driver:
    return Driver(folder, Mode.APPEND, **options)


def pause_at(step: Step, when: str, batch_id: int, meanwhile: Callable[[], Any]) -> Probe:
    """A probe under which a driver stands still at a moment, once, while something happens."""
    moment, done = Moment(when, step, batch_id), []

    def probe(step: Step, when: str, batch_id: int) -> None:
        if not done and moment.is_now(step, when, batch_id):
            done.append(1)
            meanwhile()

    return probe


def sleep_in_commit(
    monkeypatch: pytest.MonkeyPatch, method: str, meanwhile: Callable[[], Any]
) -> None:
    """The next commit stands still after the lease was checked and before it lands."""
    plain = getattr(LanceTable, method)

    def paused(table: LanceTable, *arguments: object) -> int:
        monkeypatch.setattr(LanceTable, method, plain)
        meanwhile()
        version: int = plain(table, *arguments)
        return version

    monkeypatch.setattr(LanceTable, method, paused)


@pytest.mark.parametrize("step", [Step.PREPARE, Step.BURY, Step.COMMIT])
def test_a_driver_that_wakes_up_after_its_successor_is_fenced(tmp_path: Path, step: Step) -> None:
    successor = append_driver(tmp_path)
    paused = append_driver(
        tmp_path, probe=pause_at(step, "before", 1, lambda: successor.write(1, "b"))
    )
    paused.write(0, "a")
    with pytest.raises(FencedError, match=r"process \d+ on .* has been writing"):
        paused.write(1, "b")
    successor.write(2, "c")
    assert successor.keys() == ["a", "b", "c"]
    assert successor.landed() == [(0, "committed"), (1, "committed"), (2, "committed")]
    assert successor.data_files() == 3, "the loser's files are still there"


def test_a_driver_that_sleeps_between_check_and_commit_withdraws_its_twin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused, successor = append_driver(tmp_path), append_driver(tmp_path)
    paused.write(0, "a")

    def meanwhile() -> None:
        successor.write(1, "b")
        successor.write(2, "c")

    sleep_in_commit(monkeypatch, "commit", meanwhile)
    with pytest.raises(FencedError):
        paused.write(1, "b")
    assert successor.keys() == ["a", "b", "c"]
    successor.write(3, "d")
    assert successor.keys() == ["a", "b", "c", "d"]


def land_a_twin_that_stays(folder: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode) -> Driver:
    """A paused driver lands batch 1 after its successor, and dies before it can withdraw it."""
    paused, successor = Driver(folder, mode), Driver(folder, mode)
    paused.write(0, "a")

    def die(*_: object) -> int:
        raise InjectedFaultError

    with monkeypatch.context() as patch:
        sleep_in_commit(patch, "commit", lambda: successor.write(1, "b"))
        patch.setattr("freshet.sink.fence.withdraw", die)
        with pytest.raises(InjectedFaultError):
            paused.write(1, "b")
    assert successor.keys() == ["a", "b", "b"]
    return successor


@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.UPDATE])
@pytest.mark.parametrize("is_compacted", [True, False])
def test_a_twin_whose_driver_died_is_withdrawn_by_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode, is_compacted: bool
) -> None:
    successor = land_a_twin_that_stays(tmp_path, monkeypatch, mode)
    if is_compacted:
        LanceTable.open(successor.uri).compact()
    successor.write(2, "c")
    assert successor.keys() == ["a", "b", "c"]


@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.UPDATE])
def test_a_twin_whose_driver_died_is_withdrawn_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    land_a_twin_that_stays(tmp_path, monkeypatch, mode)
    restarted = Driver(tmp_path, mode)
    restarted.write(1, "b")
    restarted.write(2, "c")
    restarted.write(3, "d")
    assert restarted.keys() == ["a", "b", "c", "d"]


def test_a_twin_that_a_compaction_moved_is_withdrawn_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused, successor = append_driver(tmp_path), append_driver(tmp_path)
    paused.write(0, "a")
    sleep_in_commit(monkeypatch, "commit", lambda: successor.write(1, "b"))
    plain = lance_withdrawals.withdraw
    withdrawn: list[Commit] = []

    def after_a_compaction(uri: str, commit: Commit) -> int:
        LanceTable.open(uri).compact()
        withdrawn.append(commit)
        return plain(uri, commit)

    monkeypatch.setattr("freshet.sink.fence.withdraw", after_a_compaction)
    with pytest.raises(FencedError):
        paused.write(1, "b")
    assert successor.keys() == ["a", "b"]
    assert plain(successor.uri, withdrawn[0]) == 0, "once more has no effect"


def test_a_predecessor_that_lands_first_leaves_the_batch_to_its_successor_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = append_driver(tmp_path), append_driver(tmp_path)
    first.write(0, "a")

    def the_successor_begins_and_the_first_lands_before_it() -> None:
        sleep_in_commit(monkeypatch, "commit", lambda: None)
        second.probe = no_probe
        second.protocol._books._probe = pause_at(Step.COMMIT, "before", 1, land_of_the_first)
        reports.append(second.write(1, "b"))

    def land_of_the_first() -> None:
        rows = pa.table({"key": ["b"], "record_version": ["P001"], "note": ["x"]}, SCHEMA)
        table = LanceTable.open(first.uri)
        stamp = Batch("tests", "index", "query", 1, "at 1").stamp(
            "another driver", Counts(rows_in=1)
        )
        table.commit(None, table.write_files(rows.to_reader()), stamp)

    reports: list[BatchReport | None] = []
    the_successor_begins_and_the_first_lands_before_it()
    assert reports[0] is not None
    assert reports[0].status == "recovered"
    assert second.keys() == ["a", "b"]
    second.write(2, "c")
    assert second.keys() == ["a", "b", "c"]
    assert second.landed() == [(0, "committed"), (1, "recovered"), (2, "committed")]


def test_a_late_overwrite_does_not_bring_old_rows_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = Driver(tmp_path, mode=Mode.COMPLETE)
    successor = Driver(tmp_path, mode=Mode.COMPLETE)
    paused.write(0, "a")

    def meanwhile() -> None:
        successor.write(1, "a", "b")
        successor.write(2, "a", "b", "c")

    sleep_in_commit(monkeypatch, "overwrite", meanwhile)
    with pytest.raises(FencedError):
        paused.write(1, "a", "b")
    assert successor.keys() == ["a", "b", "c"]


def test_a_driver_that_was_fenced_stays_fenced(tmp_path: Path) -> None:
    old, new = append_driver(tmp_path), append_driver(tmp_path)
    old.write(0, "a")
    new.write(1, "b")
    for _ in range(2):
        with pytest.raises(FencedError):
            old.write(2, "c")
    new.write(2, "c")
    assert new.keys() == ["a", "b", "c"]


def test_complete_replaces_everything_also_with_nothing(tmp_path: Path) -> None:
    driver = Driver(tmp_path, mode=Mode.COMPLETE)
    driver.write(0, "a", "b")
    before = lance.dataset(driver.uri).version
    driver.write(1, "c")
    assert lance.dataset(driver.uri).version == before + 1
    assert driver.keys() == ["c"]
    driver.write(2)
    assert driver.keys() == []
    driver.write(3, "d")
    assert driver.keys() == ["d"]


def test_an_overwrite_goes_through_after_a_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(tmp_path, mode=Mode.COMPLETE)
    driver.write(0, "a")
    unrelated = {"unrelated": "yes"}
    sleep_in_commit(
        monkeypatch, "overwrite", lambda: lance.dataset(driver.uri).update_config(unrelated)
    )
    driver.write(1, "b")
    assert driver.keys() == ["b"]


@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.COMPLETE])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", [Step.SKIP, Step.PREPARE, Step.BURY, Step.COMMIT, Step.RECORD])
def test_a_fault_at_any_step_in_the_other_modes_too(
    tmp_path: Path, mode: Mode, when: str, step: Step
) -> None:
    fault = FailAt(Moment(when, step, 1))
    driver = Driver(tmp_path, probe=fault, mode=mode)
    driver.write(0, "a")
    with pytest.raises(InjectedFaultError):
        driver.write(1, "a", "b")
    assert fault.struck
    restarted = Driver(tmp_path, mode=mode)
    restarted.write(1, "a", "b")
    assert restarted.keys() == (["a", "b"] if mode is Mode.COMPLETE else ["a", "a", "b"])
    assert [batch for batch, _ in restarted.landed()] == [0, 1]


def test_files_of_a_batch_that_surely_did_not_land_are_removed(tmp_path: Path) -> None:
    driver = append_driver(tmp_path, probe=FailAt(Moment("before", Step.COMMIT, 1)))
    driver.write(0, "a")
    with pytest.raises(InjectedFaultError):
        driver.write(1, "b")
    assert driver.data_files() == 1


def test_files_of_a_batch_that_may_have_landed_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = append_driver(tmp_path)
    driver.write(0, "a")
    plain = LanceTable.commit

    def lost(table: LanceTable, *arguments: object) -> int:
        monkeypatch.setattr(LanceTable, "commit", plain)
        raise StoreError("commit to", table.uri, "the answer is lost")

    monkeypatch.setattr(LanceTable, "commit", lost)
    with pytest.raises(StoreError, match="the answer is lost"):
        driver.write(1, "b")
    assert driver.data_files() == 2
    driver.write(1, "b")
    assert driver.keys() == ["a", "b"]


def test_one_name_for_two_tables_is_refused(tmp_path: Path) -> None:
    append_driver(tmp_path).write(0, "a")
    with pytest.raises(SinkNameTakenError, match="give this one a name of its own"):
        append_driver(tmp_path, name="other").write(0, "a")
    assert not (tmp_path / "other.lance").exists()
    append_driver(tmp_path, name="other", sink="other").write(0, "a")
