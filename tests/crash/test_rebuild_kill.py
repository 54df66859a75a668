"""A real run, and a rebuild beside it that is killed: the run goes on, and the next ends it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import lancedb
import pytest

from freshet.sink import Ledger
from freshet.testing import Driver
from histories import settings_text, shuffled_history

pytestmark = [pytest.mark.crash, pytest.mark.long, pytest.mark.timeout(900)]

FRESHET = [sys.executable, "-c", "from freshet.cli import main; main()"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("landing", "running"):
        (tmp_path / name).mkdir()
    choose(tmp_path, chunk_tokens=32)
    return tmp_path


@pytest.fixture
def run(folder: Path) -> Iterator[Driver]:
    """A continuous run, in a folder of its own: what is left of a killed rebuild is not it."""
    driver = Driver.start(folder / "running", *FRESHET, "run", "--config", "../freshet.toml")
    yield driver
    if driver.is_alive:
        driver.end()


def choose(folder: Path, *, chunk_tokens: int) -> None:
    text = settings_text(
        pipeline={"max_rows_per_batch": 400},
        landing={"max_files_per_trigger": 1_000},
        gold={"chunk_tokens": chunk_tokens, "chunk_overlap": 0},
    )
    (folder / "freshet.toml").write_text(text)


def land(folder: Path, lines: list[str], name: str) -> None:
    hidden = folder / "landing" / f".{name}"
    hidden.write_text("".join(f"{line}\n" for line in lines))
    hidden.rename(folder / "landing" / name)


def wait_until(driver: Driver, is_done: Callable[[], bool], patience_s: float = 240) -> None:
    deadline = time.monotonic() + patience_s
    while not is_done():
        assert driver.is_alive, "it ended by itself"
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def finish(folder: Path, *arguments: str) -> dict[str, object]:
    done = subprocess.run(
        [*FRESHET, *arguments, "--json"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def pieces(folder: Path) -> str:
    """How the index is cut now."""
    table = lancedb.connect(folder / "home/index").open_table("docs")
    return str(table.schema.metadata[b"freshet.chunk_tokens"].decode())


def has(folder: Path, key: str) -> bool:
    if not list((folder / "home/index").glob("docs.lance/_versions/*")):
        return False
    table = lancedb.connect(folder / "home/index").open_table("docs")
    return bool(table.count_rows(f"key = '{key}'"))


def batches(folder: Path, sink: str) -> int:
    rows = Ledger(str(folder / "home/ledger")).rows("docs", sink)
    return sum(row["status"] == "committed" for row in rows)


def last_word(folder: Path, key: str) -> None:
    """One more record, by which a test sees that everything before it is indexed."""
    event = {"id": key, "record_version": 1, "title": key, "body": "the last", "section": "s"}
    land(folder, [json.dumps(event)], f"{key}.json")


def test_a_rebuild_killed_halfway_and_run_again_switches_under_a_run_that_never_ends(
    folder: Path, run: Driver
) -> None:
    files = shuffled_history(keys=800, events=4_000, files=20, seed=7).files
    for number, lines in enumerate(files[:10]):
        land(folder, lines, f"part-{number:02d}.json")
    last_word(folder, "first-half")
    wait_until(run, lambda: has(folder, "first-half"))
    choose(folder, chunk_tokens=8)

    rebuild = Driver.start(folder, *FRESHET, "rebuild")
    wait_until(rebuild, lambda: batches(folder, "rebuild") >= 1)
    rebuild.kill()
    assert run.is_alive
    assert pieces(folder) == "32"
    status = finish(folder, "status")["rebuild"]
    assert isinstance(status, dict)
    assert 0 < status["events"] < status["of_events"], "it was not killed halfway"
    assert not status["is_active"]

    rebuild = Driver.start(folder, *FRESHET, "rebuild", "--json")
    for number, lines in enumerate(files[10:], 10):
        land(folder, lines, f"part-{number:02d}.json")
        time.sleep(0.5)
    assert rebuild.finished() == 0, (folder / "output.log").read_text()
    assert pieces(folder) == "8"
    assert '"is_continued": true' in (folder / "output.log").read_text()

    last_word(folder, "second-half")
    wait_until(run, lambda: has(folder, "second-half"))
    os.killpg(run.process.pid, signal.SIGINT)
    assert run.finished() == 0, "the run that was there from the beginning"
    assert finish(folder, "verify")["ok"]
    assert not list((folder / "home/index").glob("docs_rebuild*"))
