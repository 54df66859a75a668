"""`freshet profile` on real files: what it measures, writes, and leaves alone."""

import json
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from freshet.cli.app import app
from freshet.errors import ProfileError, SettingsError, SetupError
from freshet.pipeline import Pipeline
from freshet.settings import Settings, load

PNG = b"\x89PNG\r\n\x1a\n"
SETTINGS = """\
# a profile may write here
[pipeline]
name = "docs"
home = "./home"
trigger = "1 hour"          # seldom
[landing]
path = "./landing"
[changes]
envelope = "plain"
key = ["id"]
[gold]
text = ["title", "body"]
vectors = { title_vector = ["title"] }
[embedding]
provider = "fake"
batch_tokens = 3000         # odd
"""

Freshet = Callable[..., Result]


@pytest.fixture
def freshet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Freshet:
    monkeypatch.chdir(tmp_path)
    Path("freshet.toml").write_text(SETTINGS)
    Path("landing").mkdir()
    for number in range(3):
        land(Path(f"landing/{number}.json"), number)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments), catch_exceptions=True)

    return run


def land(file: Path, number: int) -> None:
    """Ten records of 5, 15, … 95 words, a delete and one that cannot be understood."""
    records = [
        {
            "id": f"{number}-{n}",
            "title": "t",
            "body": f"w{number}{n} " * (10 * n + 4),
            "record_version": 1,
        }
        for n in range(10)
    ]
    gone = {"id": f"{number}-gone", "is_deleted": True, "record_version": 1}
    lines = [json.dumps(record) for record in (*records, gone)]
    file.write_text("\n".join([*lines, "no record"]) + "\n")


def contents(folder: str) -> dict[str, bytes]:
    files = (path for path in Path(folder).rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in files}


def profile(freshet: Freshet, *options: str) -> dict[str, object]:
    done = freshet("profile", "--seconds", "0.05", "--json", *options)
    assert done.exit_code == 0, done.exception
    told: dict[str, object] = json.loads(done.stdout)
    return told


def test_a_fresh_pipeline_is_profiled_from_its_files_and_nothing_is_made_but_reports(
    freshet: Freshet, spark: SparkSession
) -> None:
    told = profile(freshet)
    evidence = told["evidence"]
    assert isinstance(evidence, dict)
    assert evidence["source"] == "landing"
    assert (evidence["events"], evidence["records"]) == (36, 30)
    assert evidence["tokens"] == {"p50": 45, "p90": 85, "p99": 95, "max": 95}
    assert evidence["texts"]["max"] == 3  # two pieces, and the title's own vector
    assert evidence["file_records"] == {"p50": 12, "p90": 12, "p99": 12, "max": 12}
    assert [rate["batch_tokens"] for rate in evidence["rates"]] == [
        512,
        1_024,
        2_048,
        3_000,
        4_096,
        8_192,
    ]
    assert all(rate["one_worker"] > 0 and rate["all_cores"] > 0 for rate in evidence["rates"])
    assert evidence["cores"] == 2
    assert evidence["fixed_of_batches"] == 0
    assert sorted(contents("home")) == sorted(
        str(Path(str(told[name])).relative_to(Path.cwd())) for name in ("report", "plot")
    )
    assert Path(str(told["plot"])).read_bytes().startswith(PNG)
    kept = json.loads(Path(str(told["report"])).read_text())
    assert kept["derived"] == told["derived"]
    assert Path("freshet.toml").read_text() == SETTINGS


def test_a_pipeline_that_ran_is_profiled_from_bronze_and_left_as_it_is(
    freshet: Freshet, spark: SparkSession
) -> None:
    assert freshet("run", "--once").exit_code == 0
    shutil.rmtree("landing")  # as if files were archived
    Path("landing").mkdir()
    before = contents("home")
    told = profile(freshet, "--plot", "there.png", "--records", "20")
    evidence = told["evidence"]
    assert isinstance(evidence, dict)
    assert evidence["source"] == "bronze"
    assert 0 < evidence["events"] <= 20
    assert evidence["records_per_file"] == 12
    assert evidence["file_bytes"]["max"] > 1_000
    assert evidence["fixed_of_batches"] == 1
    assert Path("there.png").read_bytes().startswith(PNG)
    after = contents("home")
    assert {name: after[name] for name in before} == before
    assert [Path(name).suffix for name in after.keys() - before.keys()] == [".json"]


def test_what_is_written_loads_and_keeps_comments_and_hidden_values_are_told(
    freshet: Freshet, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESHET_LANDING__MAX_FILES_PER_TRIGGER", "7")
    done = freshet("profile", "--seconds", "0.05", "--write", "--freshness", "10 seconds")
    assert done.exit_code == 0, done.exception
    assert "pipeline.trigger 1 hour → 3 seconds" in done.stdout
    assert "FRESHET_LANDING__MAX_FILES_PER_TRIGGER is set, and hides" in done.stdout
    assert "texts/s, 2 cores" in done.stdout
    text = Path("freshet.toml").read_text()
    assert "# a profile may write here\n" in text
    assert 'trigger = "3 seconds"          # seldom\n' in text
    monkeypatch.delenv("FRESHET_LANDING__MAX_FILES_PER_TRIGGER")
    found = load("freshet.toml")
    assert found.pipeline.trigger == "3 seconds"
    assert found.landing.max_files_per_trigger > 1
    assert found.embedding.batch_tokens in {512, 1_024, 2_048, 3_000, 4_096, 8_192}


def test_what_cannot_be_profiled_is_said_in_a_sentence(
    freshet: Freshet, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("freshet.toml").write_text(SETTINGS.replace('"title", "body"', '"title", "text"'))
    for file in Path("landing").iterdir():
        file.write_text('{"id": "a", "title": " "}\n')
    without_text = freshet("profile")
    assert isinstance(without_text.exception, ProfileError)
    assert "none of the 3 sampled records has a text" in str(without_text.exception)
    for file in Path("landing").iterdir():
        file.unlink()
    without_files = freshet("profile")
    assert isinstance(without_files.exception, ProfileError)
    assert "there are no files in" in str(without_files.exception)
    assert isinstance(freshet("profile", "--freshness", "soon").exception, SettingsError)

    def missing() -> None:
        raise SetupError("the weights are not installed")

    monkeypatch.setattr("freshet.embedding.fake.FakeProvider.check_installed", missing)
    assert isinstance(freshet("profile").exception, SetupError)
    assert not Path("home").exists()


@pytest.mark.long
def test_a_real_model_is_measured_through_the_same_door(
    settings: Callable[..., Settings], spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = Pipeline(settings(embedding={"provider": "minilm"}), spark=spark)
    land(tmp_path / "landing/a.json", 0)
    steps: list[str] = []
    found = pipeline.profile(records=8, seconds=0.05, on_progress=steps.append)
    assert found.evidence.model_id.startswith("minilm/")
    assert found.evidence.records == 8
    assert all(rate.all_cores > 0 for rate in found.evidence.rates)
    assert any("on 2 of 2 cores" in step for step in steps)
    kept = found.keep(pipeline.home)
    assert Path(kept.plot).read_bytes().startswith(PNG)
    assert [path.name for path in Path(pipeline.home.root).iterdir()] == ["reports"]


@pytest.mark.long
def test_a_continuous_run_says_that_its_trigger_is_too_short_and_so_does_the_status(
    settings: Callable[..., Settings],
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    monkeypatch.setattr(
        "freshet.pipeline.trigger_watch.warn", lambda *names, **fields: told.append(names[1])
    )
    landed, stop = list[int](), threading.Event()
    chosen = settings(pipeline={"trigger": "1 millisecond"})
    pipeline = Pipeline(chosen, spark=spark, on_batch=lambda report: landed.append(report.batch_id))
    running = threading.Thread(target=pipeline.run, kwargs={"stop": stop})
    running.start()
    try:
        for number in range(3):
            land(tmp_path / f"landing/{number}.json", number)
            while len(landed) <= number and running.is_alive():
                time.sleep(0.05)
    finally:
        stop.set()
        running.join()
    assert told == ["trigger_too_short"]
    found = pipeline.status().short_trigger
    assert found is not None
    assert found.is_behind
    assert "but the trigger is 1 millisecond" in found.sentence
