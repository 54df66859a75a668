"""A disk that is really full in the middle of an action: nothing is lost, and all goes on later."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from clocks import ManualClock
from due import AT_ONCE, DUE, due_on, targets_of
from freshet.clock import utc_now
from freshet.errors import StoreError
from freshet.optimizer import Action, Done, Kind, RunReport
from optimized import OptimizedIndex, keys

SIZE = 128 << 20
NEARLY = 96 << 10
"""So little is enough for a lock and a record, and for nothing else."""


@dataclass(frozen=True)
class Disk:
    """A file system of its own, with a ballast that leaves as much room as it should."""

    folder: Path

    def leave(self, free: int) -> None:
        (self.folder / "ballast").unlink(missing_ok=True)
        with (self.folder / "ballast").open("wb") as ballast:
            os.posix_fallocate(ballast.fileno(), 0, shutil.disk_usage(self.folder).free - free)

    def make_room(self) -> None:
        (self.folder / "ballast").unlink()

    @property
    def is_full(self) -> bool:
        return (self.folder / "ballast").exists()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["/bin/mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, check=False, text=True)
    if done.returncode != 0:
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
    yield Disk(folder)
    subprocess.run(["/bin/umount", "--lazy", str(folder)], check=True)


def index_on(disk: Disk, kind: Kind, **settings: str) -> OptimizedIndex:
    due = next(due for due in DUE if due.kind is kind)
    made = due.at(disk.folder / "made")
    index = made.copied(disk.folder, **settings)
    shutil.rmtree(disk.folder / "made")
    return index


def run_until_full(
    index: OptimizedIndex, disk: Disk, kind: Kind, free: int, clock: ManualClock
) -> RunReport:
    """The disk fills up when the plan is made and the action begins."""

    def fill(when: str, action: Action) -> None:
        if when == "before" and action.kind is kind:
            disk.leave(free)

    optimizer = index.optimizing(fill, clock).optimizer()
    add = optimizer.records.add

    def add_if_there_is_room(done: Done) -> None:
        if disk.is_full:
            disk.leave(free)  # the failed action gave room back
        add(done)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(optimizer.records, "add", add_if_there_is_room)
        return optimizer.run()


@pytest.mark.parametrize(
    "kind",
    [
        Kind.BUILD,
        Kind.COMPACT,
        pytest.param(Kind.EXTEND, marks=pytest.mark.long),
        pytest.param(Kind.MERGE, marks=pytest.mark.long),
    ],
)
def test_an_action_that_fills_the_disk_fails_and_is_done_when_there_is_room(
    disk: Disk, kind: Kind
) -> None:
    index, clock = index_on(disk, kind, orphan_age=AT_ONCE), ManualClock(utc_now())
    before = index.rows()
    report = run_until_full(index, disk, kind, NEARLY, clock)
    failed = [done for done in report.done if done.status == "failed"]
    assert kind in {done.action for done in failed}
    assert all("No space left on device" in (done.error or "") for done in failed)
    records = index.optimizing().optimizer().records.latest(clock())
    assert set(failed) == {done for done in records if done.status == "failed"}
    assert index.rows() == before
    assert index.problems() == []

    many = keys(1_500, 50_000)
    with pytest.raises(StoreError):
        index.put(*many)
    assert index.rows() == before
    disk.make_room()
    index.put(*many)
    assert index.problems() == []

    clock.advance(timedelta(minutes=1))
    report = index.optimizing(clock=clock).run()
    assert not report.is_failed
    assert (report.waiting, report.refusals) == ((), ())
    assert due_on(index).actions == (), "something is left to do, or to sweep"
    assert index.problems() == []


def test_a_failure_that_cannot_even_be_recorded_costs_the_time_until_the_lock_expires(
    disk: Disk,
) -> None:
    index = index_on(disk, Kind.COMPACT, lock_expiry="1 second", orphan_age=AT_ONCE)
    before, clock = index.rows(), ManualClock(utc_now())
    assert run_until_full(index, disk, Kind.COMPACT, 0, clock).is_failed
    assert index.rows() == before
    assert index.problems() == []
    disk.make_room()
    time.sleep(1)
    report = index.optimizing(clock=clock).run()
    assert report.busy is None
    assert not report.is_failed
    assert due_on(index).actions == ()
    assert index.problems() == []


def test_on_a_disk_without_any_room_nothing_is_begun(disk: Disk) -> None:
    index = index_on(disk, Kind.CLEAN)
    files = index.files()
    disk.leave(0)
    with pytest.raises(StoreError, match="No space left on device"):
        index.optimizing().run()
    assert index.files() == files
    disk.make_room()
    assert index.optimizing().run().busy is None


@pytest.mark.parametrize("kind", [Kind.BUILD, pytest.param(Kind.COMPACT, marks=pytest.mark.long)])
def test_an_action_that_would_fill_the_disk_is_refused_and_told(disk: Disk, kind: Kind) -> None:
    index = index_on(disk, kind)
    disk.leave(63 << 20)
    version = index.version
    report = index.optimizing().run()
    assert not any(Kind(done.action).needs_room for done in report.done)
    assert kind in {refusal.action.kind for refusal in report.refusals}
    assert all("the disk has " in refusal.why for refusal in report.refusals)
    assert index.version == version
    disk.make_room()
    assert kind in {done.action for done in index.optimizing().run().done}
    assert targets_of(due_on(index)) == set()
