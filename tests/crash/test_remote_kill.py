"""The whole pipeline with landing zone and home on S3, killed for real: nothing lost or doubled.

The server runs in a process of its own, and outlives every driver.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from freshet.sink import Ledger
from freshet.stores import delta_tables
from freshet.stores.lance_tables import LanceTable
from freshet.testing import Driver
from freshet.testing.faults import StepLog
from histories import History, indexed, recount, settings_text, shuffled_history
from servers import counting_s3_server

pytestmark = [pytest.mark.crash, pytest.mark.timeout(900)]

HOME, ZONE = "s3://crash/home", "s3://crash/landing"
RUN = """\
import sys
from pathlib import Path
from freshet.pipeline import Pipeline
from freshet.settings import load
from freshet.testing.faults import KillAt, Moment, StepLog, together
probes = [StepLog(Path("steps.log")), *(KillAt(Moment.parse(told)) for told in sys.argv[1:])]
Pipeline(load(), probe=together(*probes)).run(once=True)
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with counting_s3_server() as running:
        running.make_bucket("crash")
        for name, value in {**running.access, "AWS_ALLOW_HTTP": "true"}.items():
            monkeypatch.setenv(name, value)
        yield running


def land(server: Any, history: History, folder: Path) -> None:
    """In S3, and in a folder for the recount."""
    history.land(folder / "landing")
    for file in sorted((folder / "landing").glob("*.json")):
        server.put("crash", f"landing/{file.name}", file.read_bytes())


def start(folder: Path, code: str, *arguments: str) -> Driver:
    # Freshet finds out by itself that this server is asked without encryption.
    return Driver.start(
        folder, "/usr/bin/env", "-u", "AWS_ALLOW_HTTP", sys.executable, "-c", code, *arguments
    )


def kill_and_go_on(server: Any, folder: Path, moments: list[str]) -> list[dict[str, Any]]:
    """Kills one process at each moment, runs to the end, recounts; the ledger's landed rows."""
    told: dict[str, dict[str, Any]] = {
        "pipeline": {"home": HOME, "max_rows_per_batch": 400},
        "landing": {"path": ZONE, "max_files_per_trigger": 2},
        "optimizer": {"in_run": False},
    }
    (folder / "freshet.toml").write_text(settings_text(**told))
    land(server, shuffled_history(keys=300, events=2_400, files=6, seed=5, unreadable=1), folder)
    for moment in moments:
        start(folder, RUN, moment).killed()
        assert str(StepLog(folder / "steps.log").moments()[-1]) == moment, "killed elsewhere"
    assert not is_whole(folder), "nothing was left to do"
    output = folder / "output.log"
    assert start(folder, RUN).finished() == 0, output.read_text()[-3_000:]
    assert is_whole(folder)
    rows = Ledger(f"{HOME}/ledger").rows("docs", "index")
    landed = [row for row in rows if row["status"] != "failed"]
    numbers = [row["batch_id"] for row in landed]
    assert numbers == list(range(len(numbers))), "a batch landed twice or never"
    return landed


def is_whole(folder: Path) -> bool:
    if not LanceTable.exists(f"{HOME}/index/docs.lance"):
        return False
    return indexed(HOME) == recount(folder / "landing")


def test_killed_between_commit_and_ledger_on_s3_the_batch_is_recovered_and_not_doubled(
    server: Any, tmp_path: Path
) -> None:
    landed = kill_and_go_on(server, tmp_path, ["after:commit:0"])
    assert [row["status"] for row in landed[:2]] == ["recovered", "committed"]


@pytest.mark.long
def test_killed_before_and_after_every_step_on_s3_nothing_is_lost_or_doubled(
    server: Any, tmp_path: Path
) -> None:
    moments = [
        "before:skip:0",
        "after:recover:0",
        "before:prepare:0",
        "after:prepare:0",
        "after:bury:0",
        "before:commit:0",
        "after:commit:1",
        "before:record:2",
        "after:record:3",
    ]
    landed = kill_and_go_on(server, tmp_path, moments)
    how = [row["status"] for row in landed[:5]]
    assert how == ["committed", "recovered", "recovered", "committed", "committed"]


@pytest.mark.long
def test_killed_while_bronze_is_written_on_s3_every_event_is_there_once(
    server: Any, tmp_path: Path
) -> None:
    """At the server's commits of Bronze's log, whatever the driver is doing then."""
    zone = {"path": ZONE, "max_files_per_trigger": 1}
    (tmp_path / "freshet.toml").write_text(settings_text(pipeline={"home": HOME}, landing=zone))
    land(server, shuffled_history(keys=300, events=2_000, files=12, seed=6), tmp_path)
    seen = 0
    for _ in range(3):
        driver, deadline = start(tmp_path, RUN), time.monotonic() + 180
        while (delta_tables.newest_version(f"{HOME}/bronze") or 0) < seen + 2:
            assert driver.is_alive, "it ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.02)
        driver.kill()
        seen = delta_tables.newest_version(f"{HOME}/bronze") or 0
    assert not is_whole(tmp_path), "nothing was left to do"
    assert start(tmp_path, RUN).finished() == 0
    assert is_whole(tmp_path)
    rows, _ = delta_tables.rows_and_nulls(f"{HOME}/bronze", "error", "Bronze")
    assert rows == 2_000
