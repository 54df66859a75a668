"""Two real drivers on one checkpoint: one hangs, the other takes over, the first wakes up."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from changes import Feed, contents, difference, recount

from freshet.testing import Driver, Moment
from freshet.testing.program import Workplace

pytestmark = [pytest.mark.long, pytest.mark.crash, pytest.mark.timeout(600)]


def start(folder: Path, place: Workplace, mode: str, *options: str) -> Driver:
    folder.mkdir()
    program = (sys.executable, "-m", "freshet.testing.program")
    return Driver.start(folder, *program, str(place.folder), mode, *options)


def wait_until_stopped(driver: Driver) -> None:
    deadline = time.monotonic() + 120
    status = Path(f"/proc/{driver.process.pid}/status")
    while "T (stopped)" not in status.read_text():
        assert driver.is_alive, "it ended before it came to its pause"
        assert time.monotonic() < deadline, "it never came to its pause"
        time.sleep(0.05)


@pytest.mark.parametrize("mode", ["append", "update"])
def test_a_driver_that_hung_while_another_took_over_is_fenced(tmp_path: Path, mode: str) -> None:
    place = Workplace(tmp_path / "shared")
    Feed(place.input, seed=3).land(4)
    paused = start(tmp_path / "paused", place, mode, "--pause-at", "before:commit:1")
    try:
        wait_until_stopped(paused)
        assert start(tmp_path / "successor", place, mode).finished() == 0
        must = recount(mode, place.input)
        assert difference(must, contents(mode, place.table)) == ""
        os.kill(paused.process.pid, signal.SIGCONT)
        assert paused.finished() != 0
    finally:
        paused.end()
    assert "FencedError" in (tmp_path / "paused/output.log").read_text()
    assert difference(must, contents(mode, place.table)) == ""
    assert str(Moment.parse("before:commit:1")) in (place.folder / "steps.log").read_text()
