"""What a rebuild is made of, without Spark: the switch, the history after it, the mark."""

import os
import platform
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from drivers import NOW, Driver, tick
from freshet.errors import (
    CommitConflictError,
    FencedError,
    RebuildActiveError,
    StoreError,
)
from freshet.gold import HELD, LENT, Watch, Watched
from freshet.layout import Home
from freshet.pipeline import beside, old_versions, rebuild_mark
from freshet.pipeline.rebuild_mark import Keeper, Mark
from freshet.pipeline.resuming import Course, decide
from freshet.sink import Step
from freshet.sink.continuity import position
from freshet.sink.leases import FOR_REBUILD, Lease, newest_claim
from freshet.sink.target import Target
from freshet.sink.tombstones import Tombstones, buried
from freshet.stores import lance_switch, small_files
from freshet.stores.lance_tables import TABLE_ID, LanceTable
from freshet.testing import FailAt, InjectedFaultError, Moment

WIDER = pa.schema(
    [
        ("key", pa.string()),
        ("vector", pa.list_(pa.float32(), 3)),
        ("record_version", pa.string()),
        ("note", pa.string()),
    ]
)


def made_beside(folder: Path, *keys: str) -> LanceTable:
    """A table of other columns and metadata, with a row that was deleted."""
    uri = str(folder / "beside.lance")
    table = LanceTable.create(uri, WIDER, key="key", metadata={"freshet.model": "new"})
    rows = [
        {"key": key, "vector": [1.0, 2.0, 3.0], "record_version": "P001", "note": "new"}
        for key in (*keys, "deleted")
    ]
    written = pa.Table.from_pylist(rows, schema=WIDER)
    table.commit(None, table.write_files(written.to_reader()), {})
    table = table.reopened()
    gone = table.lookup("key", ["deleted"], ["key"]).column("_rowaddr").to_pylist()
    table.commit(table.removal(gone), [], {})
    return table.reopened()


def switch(uri: str, made: LanceTable, rebuild: str = "r1", *, at: LanceTable | None = None) -> int:
    live = at or LanceTable.open(uri)
    metadata = made.metadata | {
        TABLE_ID: live.metadata[TABLE_ID],
        beside.REBUILT_AS: rebuild,
    }
    fragments = lance_switch.copy_rows(made, uri)
    return live.overwrite(made.schema, fragments, {beside.REBUILT_AS: rebuild}, metadata)


def same_columns(driver: Driver, note: str = "rebuilt") -> int:
    """A switch to a table of the columns that the driver goes on writing."""
    live = LanceTable.open(driver.uri)
    rows = live.read(live.schema.names, live.fragment_ids)
    schema = live.schema.remove_metadata()
    table = pa.Table.from_batches(rows, schema)
    table = table.set_column(2, "note", pa.array([note] * table.num_rows, pa.string()))
    metadata = live.metadata | {beside.REBUILT_AS: note}
    files = live.write_files(table.to_reader())
    return live.overwrite(schema, files, {beside.REBUILT_AS: note}, metadata)


# --- the switch ----------------------------------------------------------------------------------


def test_one_commit_brings_new_columns_metadata_and_rows_and_keeps_row_ids_stable(
    tmp_path: Path,
) -> None:
    driver = Driver(tmp_path)
    driver.write(0, "a", "b")
    live, before = LanceTable.open(driver.uri), driver.version()
    assert switch(driver.uri, made_beside(tmp_path, "a", "c")) == before + 1
    dataset = lance.dataset(driver.uri)
    assert dataset.has_stable_row_ids
    assert dataset.schema.names == WIDER.names
    table = LanceTable.open(driver.uri)
    assert table.metadata == {
        "freshet.model": "new",
        TABLE_ID: live.metadata[TABLE_ID],
        beside.REBUILT_AS: "r1",
    }
    assert driver.keys() == ["a", "c"], "a deleted row stays behind"
    old_ids = set(live.lookup("key", ["a", "b"], ["key"]).column("_rowid").to_pylist())
    new_ids = set(table.lookup("key", ["a", "c"], ["key"]).column("_rowid").to_pylist())
    assert len(new_ids) == 2
    assert not old_ids & new_ids
    assert table.unindexed("key") == (1, 2), "the key's index is gone, and is made anew"
    assert LanceTable.create(driver.uri, WIDER, key="key").unindexed("key") == (0, 0)
    assert [row["note"] for row in live.lookup("key", ["b"], ["key", "note"]).to_pylist()] == ["x"]


def test_a_switch_is_refused_if_anything_was_committed_since(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.write(0, "a")
    pinned, made = LanceTable.open(driver.uri), made_beside(tmp_path, "z")
    LanceTable.open(driver.uri).commit(None, [], {"somebody": "else"})
    with pytest.raises(CommitConflictError):
        switch(driver.uri, made, at=pinned)
    assert driver.keys() == ["a"]


def test_old_versions_are_kept_by_name_until_their_time_is_over(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.write(0, "a")
    table = LanceTable.open(driver.uri)
    assert old_versions.keep(table, "r1", None) is None
    first = old_versions.keep(table, "r1", NOW)
    driver.write(1, "b")
    later = NOW + timedelta(days=7)
    name = old_versions.keep(LanceTable.open(driver.uri), "r1", later)
    assert name == "before-rebuild-r1-until-20260108T000000Z"
    assert first not in lance_switch.tags(driver.uri), "one try to switch, one name"
    lance_switch.tag(driver.uri, "mine", 1)
    switch(driver.uri, made_beside(tmp_path, "z"))
    assert lance.dataset(driver.uri, version=name).count_rows() == 2
    assert old_versions.forget_expired(driver.uri, NOW) == []
    assert old_versions.forget_expired(driver.uri, later) == [name]
    assert list(lance_switch.tags(driver.uri)) == ["mine"]
    assert old_versions.forget_expired(str(tmp_path / "nowhere.lance"), later) == []


# --- the history after it ------------------------------------------------------------------------


def test_the_driver_goes_on_after_a_switch_as_if_it_had_written_it(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.write(0, "a", "b")
    driver.write(1, "c")
    same_columns(driver)
    driver.write(2, "d", ("a", 2, "newer"))
    assert driver.contents() == {"a": "newer", "b": "rebuilt", "c": "rebuilt", "d": "x"}
    restarted = Driver(tmp_path)
    assert restarted.write(2, "d", ("a", 2, "newer")) is None
    same_columns(driver, "again")
    restarted = Driver(tmp_path)
    assert restarted.write(2, "d") is None, "the newest batch again is skipped"
    restarted.write(3, ("b", 2, None))
    assert restarted.contents() == {"a": "again", "c": "again", "d": "again"}


def test_a_batch_that_landed_before_the_switch_and_is_not_on_record_is_recovered(
    tmp_path: Path,
) -> None:
    crashed = Driver(tmp_path, probe=FailAt(Moment("after", Step.COMMIT, 1)))
    crashed.write(0, "a")
    with pytest.raises(InjectedFaultError):
        crashed.write(1, "b")
    same_columns(crashed)
    report = Driver(tmp_path).write(1, "b")
    assert report is not None
    assert report.status == "recovered"
    assert Driver(tmp_path).contents() == {"a": "rebuilt", "b": "rebuilt"}


def test_a_lost_ledger_and_a_lost_checkpoint_are_made_up_for_across_a_switch(
    tmp_path: Path,
) -> None:
    driver = Driver(tmp_path)
    offsets = '1 [{"v":1}]'
    driver.write(0, "a", offsets=offsets)
    same_columns(driver)
    target = Target(driver.uri, driver.pipeline, driver.sink)
    place = position(target, driver.ledger)
    assert place is not None
    assert (place.batch_id, place.end) == (0, '{"v":1}')
    for folder in ("ledger", "ledger_leases"):
        os.rename(tmp_path / folder, tmp_path / f"{folder}.lost")
    restarted = Driver(tmp_path)
    assert restarted.write(0, "a", offsets=offsets) is not None
    restarted.write(1, "b")
    assert restarted.contents() == {"a": "rebuilt", "b": "x"}


def test_a_driver_that_was_paused_in_its_commit_cannot_write_into_the_new_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The switch takes the lease first, so what the driver prepares anew is refused, too."""
    driver = Driver(tmp_path)
    driver.write(0, "a")
    plain = LanceTable.commit

    def paused(table: LanceTable, *arguments: Any) -> int:
        monkeypatch.setattr(LanceTable, "commit", plain)
        target = Target(driver.uri, driver.pipeline, driver.sink)
        Lease.take(driver.ledger.leases, target, tick, FOR_REBUILD)
        same_columns(driver)
        return plain(table, *arguments)

    monkeypatch.setattr(LanceTable, "commit", paused)
    with pytest.raises(FencedError, match=r"rebuild in process \d+ on"):
        driver.write(1, "new key")
    claim = newest_claim(driver.ledger.leases, driver.pipeline, driver.sink)
    assert claim is not None
    assert claim.is_for_rebuild
    assert driver.contents() == {"a": "rebuilt"}
    assert Driver(tmp_path).write(1, "new key") is not None
    assert driver.contents() == {"a": "rebuilt", "new key": "x"}


def test_tombstones_of_the_table_beside_go_to_the_live_ones_once(tmp_path: Path) -> None:
    home = Home(str(tmp_path), "docs")
    beside.bury_all(home, NOW)
    assert not LanceTable.exists(home.tombstones)
    live, made = Tombstones.beside(home.index), Tombstones.beside(home.rebuilt)
    live.bury({"a": "P005", "b": "P001", "only here": "P001"}, NOW)
    made.bury({"a": "P004", "b": "P002"}, NOW)
    made.bury({"c": "P001"}, NOW)
    for _ in range(2):
        beside.bury_all(home, NOW)
    wanted = {"a": "P005", "b": "P002", "c": "P001", "only here": "P001"}
    assert buried(home.tombstones, list(wanted)) == wanted
    assert LanceTable.open(home.tombstones).count() == 5


def test_what_the_table_beside_watches_is_watched_after_the_switch(tmp_path: Path) -> None:
    home = Home(str(tmp_path), "docs")
    beside.watch_all(home, NOW)
    assert Watched(home.index).is_empty()
    Watched(home.index).add([Watch("a", "a", HELD)], NOW)
    Watched(home.rebuilt).add([Watch("a", "a", HELD), Watch("old", "new", LENT)], NOW)
    for _ in range(2):
        beside.watch_all(home, NOW)
    assert LanceTable.open(Watched(home.index).uri).count() == 2
    assert Watched(home.index).dependents(["old"]) == {"new"}
    beside.drop(home)
    assert [path.name for path in (tmp_path / "index").iterdir()] == ["docs_watched.lance"]


# --- the mark ------------------------------------------------------------------------------------


def now() -> datetime:
    return datetime.now(UTC)


def test_a_mark_is_alive_while_it_is_kept_and_known_after_it(tmp_path: Path) -> None:
    home = Home(str(tmp_path), "docs")
    assert rebuild_mark.read(home) is None
    with Keeper(home, now) as keeper:
        assert keeper.mark.rebuild_id == ""
        keeper.become(Mark("r1", "settings", now()))
        mark = rebuild_mark.read(home)
        assert mark is not None
        assert mark.is_active(now())
        with pytest.raises(RebuildActiveError, match=f"process {os.getpid()} on"):
            Keeper(home, now).__enter__()
    mark = rebuild_mark.read(home)
    assert mark is not None
    assert (mark.rebuild_id, mark.settings, mark.is_active(now())) == ("r1", "settings", False)
    with Keeper(home, now) as keeper:
        assert keeper.mark.rebuild_id == "r1"
        keeper.remove()
    assert rebuild_mark.read(home) is None


def test_a_mark_is_renewed_and_belongs_to_whoever_took_it_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild_mark, "_RENEW_EVERY_S", 0.01)
    home = Home(str(tmp_path), "docs")
    with Keeper(home, now):
        first = rebuild_mark.read(home)
        time.sleep(0.2)
        second = rebuild_mark.read(home)
        assert first is not None
        assert second is not None
        assert second.renewed_at > first.renewed_at
        # A look at the file and the renewal after it are two moments: nothing comes between them.
        monkeypatch.setattr(rebuild_mark, "_RENEW_EVERY_S", 1.0)
        time.sleep(0.2)
        stranger = Keeper(home, now)
        stranger.become(Mark("theirs", "x", now()))
        time.sleep(1.2)
    mark = rebuild_mark.read(home)
    assert mark is not None
    assert (mark.rebuild_id, mark.is_active(now())) == ("theirs", True)


def test_a_holder_is_dead_after_a_minute_and_at_once_on_its_own_machine() -> None:
    code = "import os; print(os.getpid())"
    gone = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    here = platform.node()
    fresh = {"renewed_at": now(), "owner": "me"}
    assert Mark("r", "s", **fresh, machine=here, process=os.getpid()).is_active(now())
    assert not Mark("r", "s", **fresh, machine=here, process=int(gone)).is_active(now())
    elsewhere = Mark("r", "s", **fresh, machine="elsewhere", process=int(gone))
    assert elsewhere.is_active(now())
    assert not elsewhere.is_active(now() + timedelta(seconds=61))
    assert not Mark("r", "s", now(), machine=here, process=os.getpid()).is_active(now())


def test_a_mark_that_cannot_be_read_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "rebuild.json").write_text("{")
    with pytest.raises(StoreError, match=r"rebuild\.json"):
        rebuild_mark.read(Home(str(tmp_path), "docs"))


def test_a_small_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    uri = str(tmp_path / "deep" / "file")
    assert small_files.read(uri) is None
    for data in (b"one", b"two"):
        small_files.replace(uri, data)
        assert small_files.read(uri) == data
    assert os.listdir(tmp_path / "deep") == ["file"]


def test_a_run_clears_what_is_left_of_a_switched_rebuild_and_nothing_else(tmp_path: Path) -> None:
    home = Home(str(tmp_path), "docs")
    metadata = {beside.REBUILT_AS: "r1"}
    LanceTable.create(home.index, WIDER, metadata=metadata)
    left = Path(home.checkpoint("rebuild")) / "offsets"
    left.mkdir(parents=True)
    for rebuild, is_gone in (("r2", False), ("r1", True)):
        with Keeper(home, now) as keeper:
            keeper.become(Mark(rebuild, "s", now()))
            beside.tidy(home, now())
            assert left.exists(), "somebody is at it"
        beside.tidy(home, now())
        assert left.exists() is not is_gone
    assert rebuild_mark.read(home) is None
    assert beside.rebuilt_as(home) == "r1"


# --- what a fenced run does ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("is_active", "is_rebuilt", "is_held", "course"),
    [
        (True, False, True, Course.WAIT),
        (True, True, True, Course.WAIT),
        (False, True, True, Course.RELOAD),
        (False, True, False, Course.RELOAD),
        (False, False, True, Course.TAKE_BACK),
        (False, False, False, Course.FAIL),
        (True, False, False, Course.FAIL),
    ],
)
def test_a_fenced_run_waits_reloads_takes_back_or_fails(
    is_active: bool, is_rebuilt: bool, is_held: bool, course: Course
) -> None:
    decided = decide(is_active=is_active, is_rebuilt=is_rebuilt, is_held_by_rebuild=is_held)
    assert decided is course
