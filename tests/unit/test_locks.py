"""A lock that processes share: one of them holds it at a time, and a dead one loses it."""

import multiprocessing
import os
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from multiprocessing.synchronize import Barrier
from pathlib import Path

import lance
import pytest

from clocks import ManualClock
from freshet.clock import utc_now
from freshet.errors import StoreError
from freshet.stores.lance_tables import LanceTable
from freshet.stores.locks import ExpiringLock, Holder

MINUTE = timedelta(minutes=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make(tmp_path: Path, clock: ManualClock) -> Callable[..., ExpiringLock]:
    """Another hand on the same lock."""

    def make(purpose: str = "a test", name: str = "lock") -> ExpiringLock:
        return ExpiringLock(str(tmp_path / f"{name}.lance"), purpose, MINUTE, clock)

    return make


Make = Callable[..., ExpiringLock]


def test_the_first_one_gets_it_and_the_second_is_told_who_has_it(make: Make) -> None:
    first, second = make("an optimizer"), make("a writer")
    assert first.holder() is None
    assert first.take() is None
    other = second.take()
    assert other is not None
    assert other.sentence.startswith(f"an optimizer, process {os.getpid()} on ")
    assert second.holder() == first.holder() == other


def test_what_was_given_back_can_be_taken(make: Make) -> None:
    first, second = make(), make()
    first.take()
    first.release()
    assert first.holder() is None
    assert second.take() is None
    assert first.take() is not None


def test_only_its_holder_can_give_it_back(make: Make) -> None:
    first, second = make(), make()
    first.take()
    second.release()
    assert second.take() is not None


def test_it_expires_unless_it_is_renewed(make: Make, clock: ManualClock) -> None:
    first, second = make(), make()
    first.take()
    clock.advance(MINUTE * 0.9)
    assert first.take() is None, "a holder can always renew"
    clock.advance(MINUTE * 0.9)
    assert second.take() is not None
    clock.advance(MINUTE * 0.1)
    assert second.take() is None
    assert first.take() is not None, "the one that came too late is out"


def dead_process() -> int:
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    return ended.pid


def test_a_process_that_died_on_this_machine_has_lost_it_at_once(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as then:
        then.setattr(os, "getpid", dead_process)
        make().take()
    assert make().take() is None


def test_a_process_of_another_machine_has_lost_it_when_it_expires(
    make: Make, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as then:
        then.setattr(os, "getpid", dead_process)
        then.setattr("platform.node", lambda: "elsewhere")
        make("an optimizer").take()
    second = make()
    other = second.take()
    assert other is not None
    assert other.sentence.endswith(" on elsewhere")
    clock.advance(MINUTE * 0.99)
    assert second.take() is not None
    clock.advance(MINUTE * 0.01)
    assert second.take() is None


def test_it_is_renewed_as_long_as_the_work_takes_and_then_given_back(tmp_path: Path) -> None:
    expiry = timedelta(seconds=0.3)
    first, second = (ExpiringLock(str(tmp_path / "l"), "x", expiry, utc_now) for _ in range(2))
    first.take()
    began = time.monotonic()
    with first.renewed():
        while time.monotonic() < began + 3 * expiry.total_seconds():
            assert second.take() is not None, f"lost after {time.monotonic() - began:.2f} s"
            time.sleep(0.02)
    assert second.take() is None


def test_it_is_given_back_when_the_work_fails(make: Make) -> None:
    first = make()
    first.take()
    with pytest.raises(ValueError, match="the work"), first.renewed():
        raise ValueError("the work")
    assert make().take() is None


def test_work_that_is_done_stays_done_when_the_lock_cannot_be_given_back(
    make: Make, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, done = make(), []
    first.take()

    def refuse(*_: object, **__: object) -> int:
        raise StoreError("overwrite", "the lock", "disk full")

    with monkeypatch.context() as full:
        full.setattr(LanceTable, "overwrite", refuse)
        with first.renewed():
            done.append(1)
    assert done
    assert make().take() is not None
    clock.advance(MINUTE)
    assert make().take() is None


def test_its_table_stays_small(tmp_path: Path) -> None:
    uri = str(tmp_path / "lock.lance")
    # What is younger than the expiry stays, and a fast disk writes a lot of that in a longer one.
    lock = ExpiringLock(uri, "x", timedelta(milliseconds=5), utc_now)
    for _ in range(100):
        assert lock.take() is None
        lock.release()
    assert len(lance.dataset(uri).versions()) < 100
    assert lock.take() is None


# --- at the same moment --------------------------------------------------------------------------


def winners(takers: int, rounds: int, lock_of: Callable[[int], ExpiringLock]) -> list[int]:
    """How many get the lock in each round, all of them trying at once."""
    start, end = threading.Barrier(takers), threading.Barrier(takers)

    def run(_: int) -> list[bool]:
        got = []
        for number in range(rounds):
            lock = lock_of(number)
            start.wait(5)
            got.append(lock.take() is None)
            end.wait(5)
            lock.release()
        return got

    with ThreadPoolExecutor(takers) as pool:
        return [sum(together) for together in zip(*pool.map(run, range(takers)), strict=True)]


def test_of_many_that_see_it_free_one_gets_it(make: Make) -> None:
    assert winners(6, 30, lambda _: make()) == [1] * 30


def test_of_many_that_are_the_first_ever_one_gets_it(make: Make) -> None:
    assert winners(6, 20, lambda number: make(name=f"lock{number}")) == [1] * 20


def take_in_rounds(uri: str, rounds: int, start: Barrier, end: Barrier) -> list[bool]:
    lock, got = ExpiringLock(uri, "a process", MINUTE, utc_now), []
    for _ in range(rounds):
        start.wait(30)
        got.append(lock.take() is None)
        end.wait(30)
        lock.release()
    return got


def test_of_many_processes_one_gets_it(tmp_path: Path) -> None:
    uri, rounds, takers = str(tmp_path / "lock.lance"), 40, 3
    spawn = multiprocessing.get_context("spawn")
    with spawn.Manager() as shared, spawn.Pool(takers) as pool:
        start, end = shared.Barrier(takers), shared.Barrier(takers)
        arguments = [(uri, rounds, start, end)] * takers
        got = pool.starmap_async(take_in_rounds, arguments, chunksize=1).get(60)
    assert [sum(together) for together in zip(*got, strict=True)] == [1] * rounds
    assert len([one for one in got if any(one)]) > 1, "only one of them ever was quick enough"


def test_a_holder_is_there_until_its_time_is_over() -> None:
    until = datetime(2026, 1, 1, tzinfo=UTC)
    holder = Holder("o", "x", "elsewhere", 1, until)
    assert holder.is_there(until - timedelta(seconds=1))
    assert not holder.is_there(until)
