"""`freshet calibrate` on a real index: what it measures, writes, and leaves alone."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copytree

import pytest
from typer.testing import CliRunner, Result

from freshet.cli.app import app
from freshet.errors import CalibrationError, SettingsError, TableMissingError
from freshet.layout import Home
from freshet.settings import load
from freshet.sink import BatchReport, Ledger
from freshet.sink.stamps import Counts
from freshet.stores.lance_shape import shape_of
from indexes import SmallIndex

PNG = b"\x89PNG\r\n\x1a\n"
ROWS = 2_400
SETTINGS = """\
# a calibration may write here
[pipeline]
name = "docs"
home = "./home"
[landing]
path = "./landing"
[changes]
key = ["id"]
[gold]
text = ["title"]
[embedding]
provider = "fake"
[optimizer]
cadence = "7 seconds"       # odd
"""

Freshet = Callable[..., Result]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of an index of some rows, with an hour of batches on record."""
    root = tmp_path_factory.mktemp("calibrated") / "home"
    home = Home(str(root), "docs")
    index = SmallIndex(home.index)
    index.add({f"k{n}": f"river {n} and weir {n % 97}" for n in range(ROWS)})
    ledger, start = Ledger(home.ledger), datetime(2026, 7, 1, 12, tzinfo=UTC)
    for number in range(4):
        ledger.record(batch(number, start + timedelta(minutes=20 * number)))
    return root


def batch(number: int, at: datetime) -> BatchReport:
    """A batch of 300 records that ended at some time and took one minute."""
    return BatchReport(
        pipeline="docs",
        sink="index",
        query_id="q",
        batch_id=number,
        status="committed",
        table_version=number,
        counts=Counts(rows_in=300, rows_upserted=300),
        embed_s=1.0,
        write_s=1.0,
        commit_s=1.0,
        total_s=60.0,
        started_at=at - timedelta(minutes=1),
        finished_at=at,
    )


@pytest.fixture
def freshet(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Freshet:
    monkeypatch.chdir(tmp_path)
    Path("freshet.toml").write_text(SETTINGS)
    copytree(made, "home")

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["calibrate", "--seconds", "0.02", *arguments])

    return run


def contents(folder: str) -> dict[str, bytes]:
    files = (path for path in Path(folder).rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in files}


def test_an_index_is_calibrated_on_a_copy_and_left_as_it_is(freshet: Freshet) -> None:
    before = contents("home")
    done = freshet("--json", "--scratch", "elsewhere")
    assert done.exit_code == 0, done.exception
    told = json.loads(done.stdout)
    evidence, derived = told["evidence"], told["derived"]
    assert (evidence["rows"], evidence["copied"], evidence["dimension"]) == (ROWS, ROWS, 32)
    assert evidence["indexes"] == ["key_idx", "vector_idx", "text_idx"]
    assert evidence["growth"]["batches"] == 4
    assert evidence["growth"]["rows_per_hour"] == pytest.approx(1_200 * 60 / 61, abs=1)
    shapes = [
        (one["unindexed_rows"], one["fragments"], one["parts"]) for one in evidence["latencies"]
    ]
    assert shapes == [(0, 0, 1), (500, 1, 1), (1_000, 1, 1), (1_000, 16, 1), (0, 0, 4), (0, 0, 8)]
    assert all(0 < one["p50_ms"] <= one["p95_ms"] <= one["p99_ms"] for one in evidence["latencies"])
    actions = [(took["action"], took["rows"]) for took in evidence["actions"]]
    assert actions == [
        ("build", ROWS),
        *(("extend", 500), ("extend", 1_000)),
        *(("merge", 4 * 150), ("merge", 4 * 300)),
        *(("compact", 500), ("compact", 1_000)),
        ("clean", 0),
    ]
    assert all(took["seconds"] > 0 for took in evidence["actions"])
    assert derived["held_ms"] <= derived["target_ms"] + 0.01
    names = ["index_parts", "cadence", "unindexed_rows", "small_fragments"]
    assert [one["setting"] for one in derived["settings"]] == [f"optimizer.{n}" for n in names]
    after = contents("home")
    assert {name: after[name] for name in before} == before
    new = {Path(name).suffix: name for name in after.keys() - before.keys()}
    assert sorted(new) == [".json", ".png"]
    assert after[new[".png"]].startswith(PNG)
    assert json.loads(after[new[".json"]])["derived"] == derived
    assert list(Path("elsewhere").iterdir()) == []
    assert Path("freshet.toml").read_text() == SETTINGS


def test_what_is_written_loads_and_keeps_comments(
    freshet: Freshet, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Path("home/calibration-20200101T000000.000Z")
    old.mkdir()
    monkeypatch.setenv("FRESHET_OPTIMIZER__UNINDEXED_ROWS", "7")
    done = freshet(
        "--write", "--latency", "10 s", "--rows-per-hour", "3600000", "--max-rows", "2000"
    )
    assert done.exit_code == 0, done.exception
    assert "2,000 of 2,400 rows copied" in done.stdout
    assert "measured on 2,000 of 2,400 rows" in done.stdout
    assert "FRESHET_OPTIMIZER__UNINDEXED_ROWS is set, and hides" in done.stdout
    monkeypatch.delenv("FRESHET_OPTIMIZER__UNINDEXED_ROWS")
    text = Path("freshet.toml").read_text()
    assert "# a calibration may write here\n" in text
    assert "# odd\n" in text
    assert '"7 seconds"' not in text
    found = load("freshet.toml").optimizer
    assert f"optimizer.cadence 7 seconds → {found.cadence}" in done.stdout
    assert not list(Path("home").glob("calibration-*"))


def test_what_cannot_be_calibrated_is_said_in_a_sentence(
    freshet: Freshet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def problem(*arguments: str) -> str:
        error = freshet(*arguments).exception
        assert isinstance(error, CalibrationError | SettingsError | TableMissingError), error
        return str(error)

    assert "not a duration" in problem("--latency", "soon")
    with monkeypatch.context() as patched:
        patched.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1_000}))
        assert "name another folder with `--scratch`" in problem()
    Path("home/ledger").rename("home/away")
    assert "`--rows-per-hour N`" in problem()
    Path("freshet.toml").write_text(SETTINGS + '[index]\nkind = "none"\n')
    assert "nothing to calibrate" in problem()
    Path("freshet.toml").write_text(SETTINGS + "[index]\nmin_rows = 4_000\n")
    assert "the index has 2,400 rows, and a calibration takes 4,000" in problem()
    Path("home/index").rename("home/gone")
    assert "there is no index" in problem()
    assert not list(Path("home").glob("calibration-*"))
    assert not Path("home/reports").exists()


def test_an_interrupted_calibration_leaves_no_copy(freshet: Freshet) -> None:
    version = shape_of("home/index/docs.lance").version
    main = "from freshet.cli import main; main()"
    command = [sys.executable, "-c", main, "calibrate", "--seconds", "60"]
    with subprocess.Popen(command) as running:
        while not list(Path("home").glob("calibration-*/*.lance/_indices/*")):
            assert running.poll() is None
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130
    assert not list(Path("home").glob("calibration-*"))
    assert shape_of("home/index/docs.lance").version == version
