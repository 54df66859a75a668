"""Checkpoints, files table and ledger destroyed for real: put back from a backup, and from none."""

import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from freshet import Pipeline
from freshet.recovery import backups_in, is_well
from freshet.settings import load
from freshet.stores import delta_tables
from freshet.testing import Driver
from histories import indexed, recount, settings_text, shuffled_history

pytestmark = [pytest.mark.crash, pytest.mark.timeout(900)]

FRESHET = [sys.executable, "-c", "from freshet.cli import main; main()"]
SETTINGS = settings_text(
    pipeline={"trigger": "200 milliseconds", "max_rows_per_batch": 800},
    landing={"max_files_per_trigger": 4, "settle": "0 seconds"},
    checkpoint={"backup_interval": "2 seconds", "backup_keep": 1000},
)
STATE = ("checkpoints", "files", "files_history", "files_retries", "ledger", "ledger_leases")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "freshet.toml").write_text(SETTINGS)
    (tmp_path / "landing").mkdir()
    return tmp_path


def freshet(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [*FRESHET, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def land(folder: Path, files: list[list[str]], first: int) -> None:
    for number, lines in enumerate(files, first):
        hidden = folder / "landing" / f".part-{number:04d}.json"
        hidden.write_text("".join(f"{line}\n" for line in lines))
        hidden.rename(hidden.with_name(f"part-{number:04d}.json"))


def in_bronze(folder: Path) -> Counter[tuple[str, int]]:
    """How often each record of each file stands in Bronze."""
    return Counter(
        (Path(row["file"]).name, row["row"])
        for batch in delta_tables.scan(str(folder / "home/bronze"), ["file", "row"])
        for row in batch.to_pylist()
    )


def files_in_bronze(folder: Path) -> int:
    return len({name for name, _ in in_bronze(folder)})


def landed(folder: Path) -> Counter[tuple[str, int]]:
    return Counter(
        (file.name, number)
        for file in (folder / "landing").glob("*.json")
        for number, _ in enumerate(file.read_text().splitlines())
    )


def wait_until(driver: Driver, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not is_so():
        assert driver.is_alive, (driver.folder / "output.log").read_text()[-2_000:]
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.05)


def destroy(folder: Path) -> None:
    for name in STATE:
        shutil.rmtree(folder / "home" / name, ignore_errors=True)


def check(folder: Path, spark: SparkSession) -> None:
    """Every record of every file once in Bronze; the index equals a recount, and Gold."""
    assert in_bronze(folder) == landed(folder)
    assert indexed(folder / "home") == recount(folder / "landing")
    pipeline = Pipeline(load(folder / "freshet.toml"), spark=spark)
    assert pipeline.verify().ok
    findings = pipeline.recovery.verify()
    assert is_well(findings), findings


@pytest.mark.long
def test_destroyed_state_is_restored_from_a_backup_made_while_running_and_then_from_nothing(
    folder: Path, spark: SparkSession
) -> None:
    files = shuffled_history(keys=800, events=4_000, files=40, seed=11, unreadable=2).files
    land(folder, files[:10], 0)
    driver = Driver.start(folder, *FRESHET, "run")
    try:
        wait_until(driver, lambda: files_in_bronze(folder) >= 4)
        land(folder, files[10:20], 10)
        backup = json.loads(freshet(folder, "checkpoint", "backup", "--json"))
        land(folder, files[20:], 20)
        known = backup["queries"]["ingest"]["end"]["seq"]
        wait_until(driver, lambda: files_in_bronze(folder) > known + 4)
        driver.kill()
    finally:
        driver.end()
    made = backups_in(str(folder / "home/backups"), "docs")
    assert len(made) > 1, "the run made none on its schedule"
    assert [one.damage() for one in made] == [[]] * len(made)
    assert json.loads(freshet(folder, "checkpoint", "verify", backup["backup"], "--json"))["ok"]

    destroy(folder)
    done = json.loads(freshet(folder, "checkpoint", "restore", backup["backup"], "--json"))
    assert done["backup"] == backup["backup"]
    assert {one["what"] for one in done["rebuilt"]} >= {"ingest"}
    freshet(folder, "run", "--once")
    check(folder, spark)

    destroy(folder)
    shutil.rmtree(folder / "home/backups")
    freshet(folder, "run", "--once")
    check(folder, spark)
