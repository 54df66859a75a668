"""Real processes, killed for real: the index must come out as if nothing had happened."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from freshet.sink import Ledger
from freshet.stores import delta_tables
from freshet.testing import Driver
from histories import indexed, recount, settings_text, shuffled_history

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

FRESHET = [sys.executable, "-c", "from freshet.cli import main; main()"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "freshet.toml").write_text(settings_text())
    (tmp_path / "landing").mkdir()
    return tmp_path


def start(folder: Path, *arguments: str) -> Driver:
    return Driver.start(folder, *FRESHET, *arguments)


def finish(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [*FRESHET, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def kill_when(driver: Driver, is_time: Callable[[], bool]) -> None:
    """SIGKILL, once the moment has come and before the process could end by itself."""
    deadline = time.monotonic() + 120
    while not is_time():
        assert driver.is_alive, "it ended before it could be killed"
        assert time.monotonic() < deadline, "the moment never came"
        time.sleep(0.01)
    driver.kill()


def bronze_rows(folder: Path) -> int:
    try:
        return delta_tables.rows_and_nulls(str(folder / "home/bronze"), "error", "Bronze")[0]
    except Exception:  # noqa: BLE001 - not there yet, or in the middle of being made
        return 0


def batches(folder: Path) -> list[dict[str, Any]]:
    return Ledger(str(folder / "home/ledger")).rows("docs", "index")


@pytest.mark.long
def test_killed_three_times_and_continued_it_ends_as_if_never_killed(folder: Path) -> None:
    history = shuffled_history(keys=5_000, events=20_000, files=40, seed=2, unreadable=2)
    history.land(folder / "landing")
    kill_when(start(folder, "run", "--once"), lambda: 0 < bronze_rows(folder) < 20_002)
    kill_when(start(folder, "run", "--once"), lambda: len(batches(folder)) >= 1)
    seen = len(batches(folder))
    kill_when(start(folder, "run", "--once"), lambda: len(batches(folder)) >= seen + 2)
    assert indexed(folder / "home") != recount(folder / "landing"), "nothing was left to do"
    finish(folder, "run", "--once")
    assert indexed(folder / "home") == recount(folder / "landing")
    assert json.loads(finish(folder, "verify", "--json"))["ok"]
    status = json.loads(finish(folder, "status", "--json"))
    assert (status["bronze"]["rows"], status["bronze"]["errors"]) == (20_002, 2)
    landed = [row["batch_id"] for row in batches(folder) if row["status"] != "failed"]
    assert landed == sorted(set(landed))


@pytest.mark.parametrize(
    "moment", ["after:commit:1", pytest.param("after:bury:1", marks=pytest.mark.long)]
)
def test_killed_inside_the_protocol_the_batch_takes_effect_once(folder: Path, moment: str) -> None:
    history = shuffled_history(keys=800, events=4_000, files=20, seed=3)
    history.land(folder / "landing")
    killed = subprocess.run(
        [sys.executable, "-m", "freshet.testing.crash", "freshet.toml", moment],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    finish(folder, "run", "--once")
    assert indexed(folder / "home") == recount(folder / "landing")
    statuses = {row["batch_id"]: row["status"] for row in batches(folder)}
    assert statuses[1] == ("recovered" if moment == "after:commit:1" else "committed")


def test_ctrl_c_ends_a_continuous_run_cleanly(folder: Path) -> None:
    shuffled_history(keys=200, events=500, files=3, seed=4).land(folder / "landing")
    driver = start(folder, "run")
    deadline = time.monotonic() + 120
    while not batches(folder):
        assert driver.is_alive
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(driver.process.pid, signal.SIGINT)
    assert driver.finished(timeout_s=60) == 0
    output = (folder / "output.log").read_text()
    assert "stopped; the next run goes on from here" in output
    assert "Traceback" not in output
    finish(folder, "run", "--once")
    assert indexed(folder / "home") == recount(folder / "landing")
