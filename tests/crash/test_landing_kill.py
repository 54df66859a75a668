"""Killed in the middle of discovery, of the files table's append, of archiving: nothing is lost."""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import landing_steps
import pytest
from pyspark.sql import SparkSession
from test_kill import FRESHET, finish

from freshet import Pipeline, Settings
from freshet.landing import LandingOptions
from freshet.stores import delta_tables
from freshet.testing import Driver
from histories import settings_text

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

STEPS = Path(landing_steps.__file__)


@pytest.fixture
def pipeline(tmp_path: Path, spark: SparkSession, settings: Callable[..., Settings]) -> Pipeline:
    chosen = settings(
        landing={
            "after_read": "archive",
            "archive_path": str(tmp_path / "archive"),
            "retention": "0 seconds",
            "max_files_per_trigger": 4,
        }
    )
    return Pipeline(chosen, spark=spark)


def land(folder: Path, numbers: range, rows: int = 3) -> None:
    """Files of several records; every second one lies deeper."""
    for number in numbers:
        file = folder / "landing" / ("deep/er" if number % 2 else "") / f"{number:03d}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = [
            json.dumps({"id": f"{number}-{row}", "record_version": 1, "title": "t", "body": "b"})
            for row in range(rows)
        ]
        file.write_text("".join(f"{line}\n" for line in lines))


def ids_landed(folder: Path) -> Counter[str]:
    """Every record of every file, wherever it lies now: what Bronze must hold, once each."""
    files = [*folder.glob("landing/**/*.json"), *folder.glob("archive/**/*.json")]
    return Counter(
        json.loads(line)["id"] for file in files for line in file.read_text().splitlines()
    )


def ids_in_bronze(folder: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for batch in delta_tables.scan(str(folder / "home/bronze"), ("raw",)):
        found.update(json.loads(raw)["id"] for raw in batch.column("raw").to_pylist())
    return found


def killed_at(folder: Path, options: LandingOptions, moment: str) -> None:
    (folder / "options.json").write_text(json.dumps(asdict(options)))
    done = subprocess.run(
        [sys.executable, str(STEPS), str(folder / "options.json"), moment],
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


@pytest.mark.parametrize(
    "moment",
    [
        "append",
        pytest.param("after:move:3", marks=pytest.mark.long),
        pytest.param("before:number:1", marks=pytest.mark.long),
        pytest.param("after:number:1", marks=pytest.mark.long),
        pytest.param("before:move:2", marks=pytest.mark.long),
        pytest.param("before:history:1", marks=pytest.mark.long),
    ],
)
def test_every_record_is_in_bronze_once_after_a_kill(
    pipeline: Pipeline, tmp_path: Path, moment: str
) -> None:
    """Ten files are read and archived; of ten more the killed process knows as much as it can."""
    land(tmp_path, range(10))
    pipeline.run(once=True)
    if "move" in moment or "history" in moment:
        # As if the query had ended before it could archive the newest batches.
        unarchive(tmp_path)
    land(tmp_path, range(10, 20))
    killed_at(tmp_path, pipeline._ingest.options, moment)
    land(tmp_path, range(20, 25))
    pipeline.run(once=True)
    assert ids_in_bronze(tmp_path) == ids_landed(tmp_path)
    assert len(ids_landed(tmp_path)) == 75
    assert set(ids_landed(tmp_path).values()) == {1}, "a file lies in two places"
    assert list(tmp_path.glob("landing/**/*.json")) == [], "archiving has not gone on"


def unarchive(folder: Path) -> None:
    """Puts files back, and takes back what the history says of their archiving."""
    from deltalake import DeltaTable

    for file in folder.glob("archive/**/*.json"):
        file.rename(folder / "landing" / file.relative_to(folder / "archive"))
    DeltaTable(str(folder / "home/files_history")).delete("what = 'archived'")


@pytest.mark.long
def test_a_running_stream_that_archives_is_killed_again_and_again(tmp_path: Path) -> None:
    archive = {"after_read": "archive", "archive_path": "./archive", "retention": "0 seconds"}
    text = settings_text(landing={"max_files_per_trigger": 3} | archive)
    (tmp_path / "freshet.toml").write_text(text)
    land(tmp_path, range(12))
    for wanted in (2, 14):
        driver = Driver.start(tmp_path, *FRESHET, "run")
        deadline = time.monotonic() + 150
        while len(list(tmp_path.glob("archive/**/*.json"))) < wanted:
            assert driver.is_alive, (tmp_path / "output.log").read_text()[-2_000:]
            assert time.monotonic() < deadline
            time.sleep(0.01)
        driver.kill()
        land(tmp_path, range(12 + 4 * wanted, 24 + 4 * wanted))
    assert list(tmp_path.glob("landing/**/*.json")), "nothing was left to do"
    finish(tmp_path, "run", "--once")
    assert ids_in_bronze(tmp_path) == ids_landed(tmp_path)
    assert set(ids_landed(tmp_path).values()) == {1}
    assert json.loads(finish(tmp_path, "verify", "--json"))["ok"]
