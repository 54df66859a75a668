"""The optimizer on small real tables: what it does, what it leaves alone, what goes wrong."""

import json
import os
import subprocess
import threading
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import lance
import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner

from clocks import ManualClock
from due import AT_ONCE, DUE, TEXT, VECTOR, Due, age, due_on, strays, tend
from freshet import schemas
from freshet.cli.app import app
from freshet.clock import utc_now
from freshet.errors import StoreError
from freshet.optimizer import Action, Kind, RunReport
from freshet.optimizer import optimizer as running
from freshet.optimizer.records import is_waiting
from freshet.pipeline.optimizing import Optimizing
from freshet.sink.tombstones import buried
from freshet.stores import lance_upkeep
from freshet.stores.delta_tables import SmallTable
from freshet.stores.lance_shape import shape_of
from freshet.stores.lance_tables import ROW_ADDRESS, LanceTable
from freshet.stores.locks import ExpiringLock
from optimized import OptimizedIndex, keys

CADENCE = timedelta(seconds=30)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> OptimizedIndex:
    """2,000 rows in four fragments, with all indexes; made once, and copied by each test."""
    index = OptimizedIndex.at(tmp_path_factory.mktemp("made"))
    index.fill(2_000, batch_rows=500)
    tend(index)
    return index


@pytest.fixture
def index(made: OptimizedIndex, tmp_path: Path) -> OptimizedIndex:
    return made.copied(tmp_path)


def what(report: RunReport) -> list[tuple[str, str]]:
    return [(done.action, done.target) for done in report.done]


def kinds(report: RunReport) -> set[str]:
    return {done.action for done in report.done}


# --- what each action does -----------------------------------------------------------------------


@pytest.mark.parametrize("due", DUE, ids=str)
def test_a_run_does_what_was_planned_and_leaves_every_row_as_it_was(
    due: Due, tmp_path: Path
) -> None:
    index = due.at(tmp_path)
    before, version = index.rows(), index.version
    planned = due_on(index)
    assert index.version == version, "a plan changes nothing"
    report = index.optimizing().run()
    assert due.kind in kinds(report)
    assert {done.status for done in report.done} == {"done"}
    assert [
        (done.action, done.target, done.reasons, done.rows)
        for done in report.done[: len(planned.actions)]
    ] == [
        (action.kind, action.target, ", ".join(action.reasons), action.rows)
        for action in planned.actions
    ]
    assert index.rows() == before
    assert index.problems() == []
    version = index.version
    assert index.optimizing().run().done == (), "it is still due"
    assert index.version == version


def test_the_first_run_makes_every_index_that_is_wanted(tmp_path: Path) -> None:
    index = OptimizedIndex.at(tmp_path, index={"filters": {"section": "BITMAP"}})
    index.fill(1_000)
    tend(index)
    shape = shape_of(index.uri)
    assert {(one.column, one.kind) for one in shape.indexes} == {
        ("key", "BTree"),
        ("vector", "IVF_HNSW_SQ"),
        ("text", "Inverted"),
        ("section", "Bitmap"),
    }
    assert all(one.unindexed_rows == 0 for one in shape.indexes)


def test_a_vector_index_waits_until_there_are_enough_rows(tmp_path: Path) -> None:
    index = OptimizedIndex.at(tmp_path)
    index.fill(255)
    tend(index)
    assert index.parts(VECTOR) == []
    index.put("one more")
    tend(index)
    assert len(index.parts(VECTOR)) == 1
    assert index.problems() == []


def test_new_rows_get_a_part_and_the_part_before_stays(index: OptimizedIndex) -> None:
    before = {name: index.parts(name) for name in (VECTOR, TEXT)}
    index.fill(100, batch_rows=100)
    tend(index)
    for name, parts in before.items():
        assert index.parts(name)[:-1] == parts
    shape = shape_of(index.uri)
    assert all(one.unindexed_rows == 0 for one in shape.indexes if one.name in before)
    assert index.problems() == []


def test_a_merge_takes_the_small_parts_and_the_large_one_stays(index: OptimizedIndex) -> None:
    (large,) = index.parts(VECTOR)
    for _ in range(4):
        index.fill(100, batch_rows=100)
        tend(index)
    assert index.parts(VECTOR)[0] == large
    rows = [part.rows for part in shape_of(index.uri).index_on("vector").parts]  # type: ignore[union-attr]
    assert rows == [2_000, 400]


def test_an_index_of_mostly_dead_rows_is_trained_on_those_that_are_left(
    index: OptimizedIndex,
) -> None:
    index.drop(*keys(1_100))
    report = index.optimizing().run()
    assert (Kind.RETRAIN, VECTOR) in what(report)
    found = shape_of(index.uri).index_on("vector")
    assert found is not None
    assert [part.held for part in found.parts] == [900]
    assert index.problems() == []


def test_another_kind_of_index_replaces_the_one_that_is_there(
    made: OptimizedIndex, tmp_path: Path
) -> None:
    index = made.copied(tmp_path, index={"kind": "IVF_FLAT"})
    report = index.optimizing().run()
    assert what(report) == [(Kind.RETRAIN, VECTOR)]
    found = shape_of(index.uri).index_on("vector")
    assert found is not None
    assert found.kind == "IVF_FLAT"
    assert index.problems() == []


def test_an_index_that_others_have_made_is_kept_up_too(index: OptimizedIndex) -> None:
    lance.dataset(index.uri).create_scalar_index("section", "BITMAP", name="theirs")
    index.fill(100, batch_rows=100)
    assert (Kind.EXTEND, "theirs") in what(index.optimizing().run())


def test_a_compaction_drops_deleted_rows_and_leaves_large_fragments_alone(
    index: OptimizedIndex,
) -> None:
    (large,) = (fragment.id for fragment in shape_of(index.uri).fragments)
    for start in range(5_000, 5_200, 50):
        index.write(keys(50, start), keys(20, start - 50))
    tend(index)
    kept, folded = shape_of(index.uri).fragments
    assert kept.id == large
    assert (folded.rows, folded.deleted) == (3 * 30 + 50, 0)
    assert index.problems() == []


def test_a_compaction_folds_all_the_fragments_that_it_says_into_one(tmp_path: Path) -> None:
    """Lance folds only what the same parts of all indexes cover, and is silent about the rest."""
    index, before = OptimizedIndex.at(tmp_path), list[int]()

    def look(when: str, action: Action) -> None:
        if action.kind is Kind.COMPACT and when == "before":
            before.append(len(shape_of(index.uri).fragments))
        if action.kind is Kind.COMPACT and when == "after":
            fewer = before[-1] - len(shape_of(index.uri).fragments)
            assert fewer == len(action.details["fragments"]) - 1

    index.fill(2_400)
    for start in range(0, 600, 100):
        index.optimizing(look).run()
        index.put(*keys(150, start))
    index.optimizing(look).run()
    assert before, "nothing was folded"
    assert index.optimizing().run().done == ()


def test_a_run_when_nothing_is_due_does_nothing(index: OptimizedIndex) -> None:
    version, files = index.version, index.files()
    report = index.optimizing().run()
    assert report == RunReport()
    assert (index.version, index.files()) == (version, files)


def test_what_it_did_stands_in_its_records(made: OptimizedIndex) -> None:
    done = made.optimizing().optimizer().records.latest(utc_now())
    build = next(one for one in done if one.target == VECTOR)
    assert (build.action, build.status, build.rows, build.error) == ("build", "done", 2_000, None)
    assert build.reasons == "rows=2000>=256"
    assert build.seconds > 0
    assert build.memory_bytes is not None
    assert build.started_at < build.finished_at
    assert len({one.run_id for one in done}) == 1


# --- what it says it will do ---------------------------------------------------------------------


def test_the_command_says_what_is_due_and_does_it(index: OptimizedIndex, tmp_path: Path) -> None:
    index.fill(100, batch_rows=100)
    (tmp_path / "freshet.toml").write_text(_toml(index))

    def freshet(*arguments: str) -> dict[str, list[dict[str, str]]]:
        config = ("--config", str(tmp_path / "freshet.toml"))
        done = CliRunner().invoke(app, ["optimize", *arguments, *config, "--json"])
        assert done.exit_code == 0, done.output
        told: dict[str, list[dict[str, str]]] = json.loads(done.stdout)
        return told

    version = index.version
    planned = freshet("--dry-run")["actions"]
    assert index.version == version
    assert {action["kind"] for action in planned} == {"extend"}
    done = freshet()["done"]
    assert [(action["kind"], action["target"]) for action in planned] == [
        (one["action"], one["target"]) for one in done
    ]
    assert freshet("--dry-run")["actions"] == []


def _toml(index: OptimizedIndex) -> str:
    sections = index.settings.model_dump(include={"pipeline", "landing", "changes", "gold",
                                                  "embedding", "index", "optimizer"},
                                         exclude_unset=True)  # fmt: skip
    return "\n".join(
        f"[{name}]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in section.items())
        for name, section in sections.items()
    )


# --- old versions and files ----------------------------------------------------------------------


def kept(index: OptimizedIndex) -> list[int]:
    return [known["version"] for known in lance.dataset(index.uri).versions()]


def test_no_version_goes_that_a_recovery_may_ask_for(made: OptimizedIndex, tmp_path: Path) -> None:
    index = made.copied(tmp_path, retention=AT_ONCE)
    on_record = index.put("a").table_version
    index.put(*keys(100, 9_000))
    forget_batches(index, f"batch_id = {index.batches - 1}")
    tend(index)
    assert on_record is not None
    assert kept(index) == list(range(on_record, index.version + 1))
    restarted = OptimizedIndex(index.settings, batches=index.batches - 1)
    assert restarted.put(*keys(100, 9_000)).status == "recovered"
    assert index.problems() == []


def forget_batches(index: OptimizedIndex, where: str) -> None:
    DeltaTable(index.settings.home.ledger).delete(where)


def test_without_a_batch_on_record_no_version_goes(made: OptimizedIndex, tmp_path: Path) -> None:
    index = made.copied(tmp_path, retention=AT_ONCE)
    forget_batches(index, "batch_id >= 0")
    before = kept(index)
    tend(index)
    assert kept(index) == before


def test_a_version_is_kept_for_the_retention_after_the_next_one_came(
    made: OptimizedIndex, tmp_path: Path
) -> None:
    index, clock = made.copied(tmp_path, retention="1 hour"), ManualClock(utc_now())
    index.put("a")
    before = kept(index)
    for wait, left in ((0, before), (59, before), (2, before[-1:])):
        clock.advance(timedelta(minutes=wait))
        index.optimizing(clock=clock).run()
        assert kept(index) == left, f"after {wait} more minutes"
    assert index.problems() == []


def test_a_version_with_a_name_stays_and_can_be_read(made: OptimizedIndex, tmp_path: Path) -> None:
    index = made.copied(tmp_path, retention=AT_ONCE)
    named, rows = index.version, index.rows()
    lance.dataset(index.uri).tags.create("release", named)
    index.drop(*keys(900))
    tend(index)
    index.put("a")
    tend(index)
    assert kept(index)[0] == named
    assert kept(index)[1] > named + 1
    then = lance.dataset(index.uri, version="release").to_table(with_row_id=True)
    assert then.sort_by("key") == rows


def test_files_that_no_version_names_go_when_they_are_old(
    made: OptimizedIndex, tmp_path: Path
) -> None:
    index = made.copied(tmp_path, orphan_age="1 hour")
    index.drop("k0")
    before = index.files()
    young, old = strays(index), strays(index)
    age(index, old, 3_700)
    age(index, before, 3_700)
    report = index.optimizing().run()
    assert kinds(report) == {Kind.SWEEP}
    assert index.files() == before | young
    assert index.problems() == []


def test_a_batch_that_is_being_written_keeps_its_files(
    made: OptimizedIndex, tmp_path: Path
) -> None:
    index = made.copied(tmp_path, orphan_age="1 hour", retention=AT_ONCE)
    table = LanceTable.open(index.uri)
    rows = lance.dataset(index.uri).to_table(limit=5)
    fragments = table.write_files(rows.to_reader())
    places = table.lookup("key", rows.column("key").to_pylist(), ["key"])
    removal = table.removal(places.column(ROW_ADDRESS).to_pylist())
    tend(index)
    table.commit(removal, fragments, {})
    assert index.problems() == []


def test_old_versions_of_the_tombstones_go_and_every_tombstone_stays(
    made: OptimizedIndex, tmp_path: Path
) -> None:
    index = made.copied(tmp_path, retention=AT_ONCE)
    gone = keys(80)
    for key in gone:
        index.drop(key)
    uri = index.settings.home.tombstones
    before = len(lance_upkeep.version_times(uri))
    assert before > len(gone)
    report = index.optimizing().run()
    assert ("tidy", "tombstones") in what(report)
    assert len(lance_upkeep.version_times(uri)) == 1
    assert set(buried(uri, gone)) == set(gone)
    assert index.problems() == []
    assert ("tidy", "tombstones") not in what(index.optimizing().run())
    index.put(gone[0])
    index.drop(gone[1])
    assert index.problems() == []


def test_a_table_that_another_process_appends_to_is_not_folded_under_it(
    index: OptimizedIndex,
) -> None:
    """Of two foldings of one version delta-rs refuses none, and rows would stand twice."""
    ledger = DeltaTable(index.settings.home.ledger)
    row = ledger.to_pyarrow_table().slice(0, 1)
    for _ in range(70):
        write_deltalake(ledger, row, mode="append")
    assert due_on(index).actions == ()


# --- one at a time -------------------------------------------------------------------------------


def test_a_second_optimizer_says_who_is_at_it_and_does_nothing(index: OptimizedIndex) -> None:
    index.fill(100, batch_rows=100)
    is_begun, may_end = threading.Event(), threading.Event()

    def hold(when: str, action: Action) -> None:
        is_begun.set()
        assert may_end.wait(30)

    first: list[RunReport] = []
    thread = threading.Thread(target=lambda: first.append(index.optimizing(hold).run()))
    thread.start()
    assert is_begun.wait(30)
    version = index.version
    second = index.optimizing().run()
    assert second.busy is not None
    assert second.busy.startswith(f"an optimizer, process {os.getpid()} on ")
    assert second.done == ()
    assert index.version == version
    may_end.set()
    thread.join()
    assert first[0].busy is None
    assert first[0].done
    assert index.optimizing().run().busy is None


def left_lock(index: OptimizedIndex, monkeypatch: pytest.MonkeyPatch, host: str | None) -> None:
    """A lock as a process leaves it that has ended since."""
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    with monkeypatch.context() as then:
        then.setattr(os, "getpid", lambda: ended.pid)
        if host is not None:
            then.setattr("platform.node", lambda: host)
        lock = index.optimizing().optimizer().lock
        assert lock.take() is None


def test_the_lock_of_a_dead_process_of_this_machine_is_void_at_once(
    index: OptimizedIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_lock(index, monkeypatch, host=None)
    assert index.optimizing().run().busy is None


def test_the_lock_of_a_dead_process_of_another_machine_is_void_when_it_expires(
    index: OptimizedIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_lock(index, monkeypatch, host="elsewhere")
    clock = ManualClock(utc_now())
    optimizer = index.optimizing().optimizer()
    optimizer.lock = ExpiringLock(
        index.settings.home.lock("optimizer"), "an optimizer", timedelta(minutes=1), clock
    )
    busy = optimizer.run().busy
    assert busy is not None
    assert busy.endswith("on elsewhere")
    clock.advance(timedelta(minutes=1))
    assert optimizer.run().busy is None


# --- failures ------------------------------------------------------------------------------------


class Failing:
    """Breaks one action as long as it is told to."""

    def __init__(self, kind: Kind, target: str | None = None) -> None:
        self.is_on, self.tries = True, 0
        self._what = (kind, target)

    def __call__(self, when: str, action: Action) -> None:
        kind, target = self._what
        if when == "before" and action.kind is kind and target in {None, action.target}:
            self.tries += 1
            if self.is_on:
                raise StoreError("train", "the index", "no such luck")


def test_a_failing_action_is_recorded_others_go_on_and_it_is_tried_again_later(
    tmp_path: Path,
) -> None:
    index, clock = OptimizedIndex.at(tmp_path), ManualClock(utc_now())
    index.fill(1_000)
    failing = Failing(Kind.BUILD, VECTOR)

    def run() -> RunReport:
        return index.optimizing(failing, clock).run()

    report = run()
    (failed,) = (done for done in report.done if done.status == "failed")
    assert (failed.action, failed.target) == (Kind.BUILD, VECTOR)
    assert failed.error == "StoreError: could not train the index: no such luck"
    assert report.is_failed
    assert (Kind.BUILD, TEXT) in what(report)
    assert index.parts(TEXT)
    records = index.optimizing().optimizer().records.latest(clock())
    assert failed in records

    for pauses, tries in ((0, 1), (0.9, 1), (0.2, 2), (1.9, 2), (0.2, 3)):
        clock.advance(CADENCE * pauses)
        report = run()
        assert failing.tries == tries, f"after {pauses} more cadences"
        assert [action.target for action in report.waiting] == [VECTOR]
    failing.is_on = False
    clock.advance(CADENCE * 4)
    report = run()
    assert what(report) == [(Kind.BUILD, VECTOR)]
    assert not report.is_failed
    assert index.problems() == []


def test_a_failing_compaction_waits_though_there_are_more_fragments_by_then(
    index: OptimizedIndex,
) -> None:
    clock = ManualClock(utc_now())
    for number in range(4):
        index.put(*keys(30, 5_000 + 30 * number))
    assert index.optimizing(Failing(Kind.COMPACT), clock).run().is_failed
    (failed,) = (action for action in due_on(index).actions if action.kind is Kind.COMPACT)
    by_then = replace(failed, target="5 fragments", rows=150)
    records = index.optimizing().optimizer().records.latest(clock())
    assert is_waiting(by_then, records, clock(), CADENCE)
    assert not is_waiting(by_then, records, clock() + CADENCE, CADENCE)


def test_a_record_that_cannot_be_written_does_not_stop_the_others(
    index: OptimizedIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.fill(100, batch_rows=100)
    plain = SmallTable.append

    def refuse(table: SmallTable, rows: list[dict[str, object]]) -> None:
        if table.schema == schemas.OPTIMIZER:
            raise StoreError("append to", table.uri, "disk full")
        plain(table, rows)

    monkeypatch.setattr(SmallTable, "append", refuse)
    report = index.optimizing().run()
    assert len(report.done) >= 2
    assert shape_of(index.uri).index_on("vector").unindexed_rows == 0  # type: ignore[union-attr]


def test_a_look_that_cannot_be_noted_does_not_stop_the_actions(
    index: OptimizedIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.fill(100, batch_rows=100)

    def refuse(optimizing: Optimizing, shape: object) -> None:
        raise StoreError("append to", "health", "disk full")

    monkeypatch.setattr(Optimizing, "_note_health", refuse)
    assert kinds(index.optimizing().run()) == {Kind.EXTEND}


# --- beside a writer -----------------------------------------------------------------------------


def test_a_compaction_that_a_writer_beats_is_lost_cleared_away_and_tried_smaller(
    made: OptimizedIndex, tmp_path: Path
) -> None:
    index = made.copied(tmp_path)
    for number in range(8):
        index.put(*keys(250, 5_000 + 250 * number))
    written: list[int] = []

    def race(when: str, action: Action) -> None:
        if when == "written":
            written.append(action.rows)
        if when == "written" and len(written) == 1:
            # A row of every fragment that is being folded.
            index.put(*(f"k{5_000 + 250 * number}" for number in range(8)))

    report = index.optimizing(race).run()
    compactions = [done for done in report.done if done.action == Kind.COMPACT]
    assert [done.status for done in compactions][:2] == ["lost", "done"]
    assert not report.is_failed
    assert written[1] <= written[0] / 2
    assert index.problems() == []
    named = {
        file.path
        for known in lance.dataset(index.uri).versions()
        for fragment in lance.dataset(index.uri, version=known["version"]).get_fragments()
        for file in fragment.metadata.files
    }
    assert {Path(path).name for path in index.files() if path.startswith("data/")} == named


def exclusive(made: OptimizedIndex, folder: Path) -> OptimizedIndex:
    index = made.copied(folder, coordination="exclusive")
    index.fill(100, batch_rows=100)
    return index


def test_with_exclusive_coordination_an_action_waits_for_the_batch(
    made: OptimizedIndex, tmp_path: Path
) -> None:
    index = exclusive(made, tmp_path)
    batch = index.optimizing().optimizer().writer_lock
    assert batch is not None
    batch.take()
    ended: list[float] = []
    began = threading.Event()

    def end() -> None:
        began.set()
        threading.Event().wait(0.4)
        ended.append(index.version)
        batch.release()

    thread = threading.Thread(target=end)
    thread.start()
    assert began.wait(10)
    version = index.version
    report = index.optimizing().run()
    thread.join()
    assert kinds(report) == {Kind.EXTEND}
    assert ended == [version], "it did not wait"


def test_with_exclusive_coordination_an_action_is_left_out_while_a_batch_takes_long(
    made: OptimizedIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = exclusive(made, tmp_path)
    monkeypatch.setattr(running, "_WAIT_FOR_WRITER_S", 0.05)
    batch = index.optimizing().optimizer().writer_lock
    assert batch is not None
    batch.take()
    version = index.version
    report = index.optimizing().run()
    assert report.done == ()
    assert index.version == version
    batch.release()
    assert kinds(index.optimizing().run()) == {Kind.EXTEND}


def test_with_exclusive_coordination_a_batch_waits_for_the_action(
    made: OptimizedIndex, tmp_path: Path
) -> None:
    index = exclusive(made, tmp_path)
    landed: list[int] = []
    writer = threading.Thread(target=lambda: landed.append(index.put("late").batch_id))

    def begin(when: str, action: Action) -> None:
        if when == "before" and not writer.ident:
            writer.start()
            writer.join(0.3)
            assert writer.is_alive(), "the batch did not wait"

    report = index.optimizing(begin).run()
    writer.join(30)
    assert landed
    assert not report.is_failed
    assert index.problems() == []


# --- the tests themselves ------------------------------------------------------------------------


def test_rows_that_are_gone_doubled_or_changed_are_noticed(index: OptimizedIndex) -> None:
    assert index.problems() == []
    table = lance.dataset(index.uri)
    one = table.to_table(filter="key = 'k7'")
    table.delete("key = 'k7'")
    assert "1 rows are missing" in index.problems()[0]
    lance.write_dataset(one, index.uri, mode="append")
    assert index.problems() == []
    lance.write_dataset(one, index.uri, mode="append")
    assert "1 are too many" in index.problems()[0]
    index.model.pop("k7")
    index.versions.pop("k7")
    lance.dataset(index.uri).delete("key = 'k7'")
    assert index.problems() == []
    other = OptimizedIndex(index.settings, index.model | {"k8": 2}, Counter({"k8": 2}))
    assert len(other.problems()) > 3, "only the scan noticed"
