"""The commit protocol on real tables, broken before and after every step, without Spark.

The steps have the numbers of `commit_protocol`'s docstring: 1 skip, 2 recover, 3 prepare, 4 bury,
5 commit, 6 record, 7 fail.
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import lance
import pytest

from drivers import Driver, Event
from freshet.errors import CommitUnknownError, HistoryMissingError, StoreError
from freshet.sink import Ledger, Step
from freshet.sink.tombstones import buried
from freshet.stores.lance_tables import LanceTable
from freshet.testing import FailAt, InjectedFaultError, Moment, Trace

FIRST: list[Event] = [("a", 1, "one"), ("b", 1, "one"), ("c", 1, "one")]
SECOND: list[Event] = [("a", 2, "two"), ("b", 2, None), ("d", 2, "two")]
AFTER_SECOND = {"a": "two", "c": "one", "d": "two"}

MOMENTS = [
    Moment(when, step, 1)
    for step in (Step.SKIP, Step.PREPARE, Step.BURY, Step.COMMIT, Step.RECORD)
    for when in ("before", "after")
]


def test_a_batch_is_one_commit_with_upserts_deletes_and_counts(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.write(0, *FIRST)
    before = driver.version()
    report = driver.write(1, *[*SECOND, ("c", 0, "old"), ("a", 1, "again")])
    assert report is not None
    assert driver.version() == before + 1 == report.table_version
    assert driver.contents() == AFTER_SECOND
    counts = report.counts
    assert (counts.rows_in, counts.rows_upserted, counts.rows_deleted) == (5, 2, 1)
    assert (counts.rows_stale, counts.rows_unchanged) == (1, 0)
    assert buried(driver.tombstones.uri, ["a", "b"]) == {"b": "P002"}


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: f"{moment.when}-{moment.step}")
@pytest.mark.parametrize("restarts", [True, False])
def test_a_fault_at_any_step_and_the_batch_again_takes_effect_once(
    tmp_path: Path, moment: Moment, restarts: bool
) -> None:
    fault = FailAt(moment)
    driver = Driver(tmp_path, probe=fault)
    driver.write(0, *FIRST)
    before = driver.version()
    with pytest.raises(InjectedFaultError):
        driver.write(1, *SECOND)
    assert fault.struck
    assert "failed" in driver.statuses(1)
    if restarts:
        driver = Driver(tmp_path)
    driver.write(1, *SECOND)
    assert driver.contents() == AFTER_SECOND
    assert driver.version() == before + 1
    landed = [status for status in driver.statuses(1) if status != "failed"]
    assert len(landed) == 1
    driver.write(2, *[("e", 3, "three")])
    assert driver.contents() == AFTER_SECOND | {"e": "three"}


def test_a_commit_whose_ledger_row_is_lost_is_recovered_by_its_stamp(tmp_path: Path) -> None:
    driver = Driver(tmp_path, probe=FailAt(Moment("before", Step.RECORD, 1)))
    driver.write(0, *FIRST)
    with pytest.raises(InjectedFaultError):
        driver.write(1, *SECOND)
    trace = Trace()
    restarted = Driver(tmp_path, probe=trace)
    report = restarted.write(1, *SECOND)
    assert report is not None
    assert report.status == "recovered"
    assert report.counts.rows_upserted == 2
    assert not trace.reached(Step.PREPARE)
    assert restarted.statuses(1) == ["failed", "recovered"]


def test_recovery_sees_past_any_number_of_other_commits(tmp_path: Path) -> None:
    driver = Driver(tmp_path, probe=FailAt(Moment("before", Step.RECORD, 1)))
    driver.write(0, *FIRST)
    with pytest.raises(InjectedFaultError):
        driver.write(1, *SECOND)
    for number in range(500):
        lance.dataset(driver.uri).update_config({"unrelated": str(number)})
        if number % 100 == 0:
            LanceTable.open(driver.uri).compact()
            LanceTable.open(driver.uri).index_new_keys("key")
    report = Driver(tmp_path).write(1, *SECOND)
    assert report is not None
    assert report.status == "recovered"


def test_recovery_looks_at_the_history_once_and_not_at_every_batch(tmp_path: Path) -> None:
    Driver(tmp_path).write(0, *FIRST)
    trace = Trace()
    driver = Driver(tmp_path, probe=trace)
    driver.write(1, *SECOND)
    driver.write(2, *[("e", 3, "three")])
    looked = [batch for step, when, batch in trace.steps if (step, when) == (Step.RECOVER, "after")]
    assert looked == [1]


def test_history_that_was_cleaned_away_stops_the_sink_and_writes_nothing(tmp_path: Path) -> None:
    driver = Driver(tmp_path, probe=FailAt(Moment("before", Step.RECORD, 1)))
    driver.write(0, *FIRST)
    with pytest.raises(InjectedFaultError):
        driver.write(1, *SECOND)
    for number in range(3):
        lance.dataset(driver.uri).update_config({"unrelated": str(number)})
    lance.dataset(driver.uri).cleanup_old_versions(older_than=timedelta(0))
    before = driver.version()
    with pytest.raises(HistoryMissingError, match=r"cannot tell whether batch 1 landed"):
        Driver(tmp_path).write(1, *SECOND)
    assert driver.version() == before


def test_a_landed_batch_that_is_run_again_writes_nothing_and_no_row(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.write(0, *FIRST)
    before = driver.version()
    for again in (driver, Driver(tmp_path)):
        assert again.write(0, *[("x", 9, "different")]) is None
    assert driver.version() == before
    assert driver.statuses(0) == ["committed"]


def test_an_empty_batch_makes_no_version_but_is_in_the_ledger(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.write(0, *FIRST)
    before = driver.version()
    report = driver.write(1, *[])
    assert report is not None
    assert report.counts.rows_in == 0
    assert driver.version() == before
    assert driver.statuses(1) == ["committed"]


def test_a_batch_of_stale_events_makes_no_version_but_is_in_the_ledger(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.write(0, *[("a", 5, "five")])
    before = driver.version()
    report = driver.write(1, *[("a", 3, "three")])
    assert report is not None
    assert report.counts.rows_stale == 1
    assert driver.version() == before
    assert driver.statuses(1) == ["committed"]


def test_a_key_that_was_deleted_before_it_was_ever_seen_stays_dead(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.write(0, *[("a", 2, None)])
    driver.write(1, *[("a", 1, "older")])
    assert driver.contents() == {}
    driver.write(2, *[("a", 3, "newer")])
    assert driver.contents() == {"a": "newer"}


def test_another_query_starts_from_what_the_table_has(tmp_path: Path) -> None:
    Driver(tmp_path).write(0, *FIRST)
    other = Driver(tmp_path, query_id="other")
    report = other.write(0, *FIRST)
    assert report is not None
    assert report.counts.rows_unchanged == 3
    assert report.counts.rows_upserted == 0


def disturb_once(monkeypatch: pytest.MonkeyPatch, disturbance: Callable[[str], None]) -> list[int]:
    """Another commit comes between the look for leaving rows and the commit, the first time."""
    plain_removal = LanceTable.removal
    calls: list[int] = []

    def disturbed(
        table: LanceTable, addresses: tuple[int, ...], where: str | None = None
    ) -> object:
        made = plain_removal(table, addresses, where)
        calls.append(1)
        if len(calls) == 1:
            disturbance(table.uri)
        return made

    monkeypatch.setattr(LanceTable, "removal", disturbed)
    return calls


def preparations(trace: Trace) -> int:
    return [step for step, when, _ in trace.steps if when == "before"].count(Step.PREPARE)


def test_a_conflict_with_a_compaction_repeats_the_commit_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = Trace()
    driver = Driver(tmp_path, probe=trace)
    driver.write(0, *FIRST)
    driver.write(1, *[("e", 1, "one")])
    calls = disturb_once(monkeypatch, lambda uri: LanceTable.open(uri).compact())
    driver.write(2, *SECOND)
    assert len(calls) == 2, "there was no conflict"
    assert driver.contents() == AFTER_SECOND | {"e": "one"}
    assert preparations(trace) == 3


def test_rows_that_somebody_else_changed_are_judged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = Trace()
    driver = Driver(tmp_path, probe=trace)
    driver.write(0, *FIRST)
    disturb_once(monkeypatch, lambda uri: lance.dataset(uri).delete("key IN ('a', 'c')"))
    driver.write(1, *SECOND)
    assert driver.contents() == {"a": "two", "d": "two"}
    assert preparations(trace) == 3


def lost_answer(monkeypatch: pytest.MonkeyPatch, *, lands: bool, is_blind: bool = False) -> None:
    """The next commit lands or does not, and in either case its answer is an error."""
    plain_commit, plain_history = LanceTable.commit, LanceTable.history

    def commit(table: LanceTable, *arguments: object) -> int:
        monkeypatch.setattr(LanceTable, "commit", plain_commit)
        if is_blind:
            monkeypatch.setattr(LanceTable, "history", history)
        if lands:
            plain_commit(table, *arguments)
        raise StoreError("commit to", table.uri, "connection reset")

    def history(table: LanceTable, after: int) -> object:
        monkeypatch.setattr(LanceTable, "history", plain_history)
        raise StoreError("read the transaction of", table.uri, "connection reset")

    monkeypatch.setattr(LanceTable, "commit", commit)


def test_a_commit_that_landed_with_its_answer_lost_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(tmp_path)
    driver.write(0, *FIRST)
    before = driver.version()
    lost_answer(monkeypatch, lands=True)
    report = driver.write(1, *[("z", 1, "new")])
    assert report is not None
    assert report.table_version == driver.version() == before + 1
    assert driver.statuses(1) == ["committed"]


def test_a_commit_that_did_not_land_fails_and_the_batch_again_lands_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(tmp_path)
    driver.write(0, *FIRST)
    lost_answer(monkeypatch, lands=False)
    with pytest.raises(StoreError, match="connection reset"):
        driver.write(1, *SECOND)
    assert driver.contents() == {"a": "one", "b": "one", "c": "one"}
    driver.write(1, *SECOND)
    assert driver.contents() == AFTER_SECOND


def test_a_commit_of_unknown_outcome_is_never_retried_blindly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(tmp_path)
    driver.write(0, *FIRST)
    lost_answer(monkeypatch, lands=True, is_blind=True)
    with pytest.raises(CommitUnknownError, match="may or may not have landed"):
        driver.write(1, *[("z", 1, "new")])
    report = Driver(tmp_path).write(1, *[("z", 1, "new")])
    assert report is not None
    assert report.status == "recovered"
    assert sorted(driver.contents()) == ["a", "b", "c", "z"]


def test_a_ledger_that_cannot_be_written_does_not_hide_the_first_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(tmp_path, probe=FailAt(Moment("before", Step.PREPARE, 0)))

    def refuse(*_: object) -> None:
        raise StoreError("append to", "ledger", "disk full")

    monkeypatch.setattr(Ledger, "record", refuse)
    with pytest.raises(InjectedFaultError):
        driver.write(0, *FIRST)


def test_many_batches_keep_keys_indexed_and_tombstones_folded(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    for batch in range(40):
        driver.write(batch, *[(f"k{batch}", 1, "x"), (f"k{batch - 1}", 2, None)])
    assert driver.contents() == {"k39": "x"}
    table = LanceTable.open(driver.uri)
    assert table.unindexed("key")[0] <= 16
    assert len(LanceTable.open(driver.tombstones.uri).fragment_ids) <= 32
    assert len(buried(driver.tombstones.uri, [f"k{n}" for n in range(-1, 40)])) == 40
