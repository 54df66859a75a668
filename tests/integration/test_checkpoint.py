"""A whole pipeline whose checkpoints and small tables are lost, damaged, older or put back."""

import json
import logging
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from checkpoints import go_back_to
from freshet import Pipeline, Settings
from freshet.cli.app import app
from freshet.errors import StoreError
from freshet.pipeline.recovering import Recovery
from freshet.recovery import is_well
from freshet.settings import from_values
from freshet.stores import checkpoints, delta_tables
from histories import indexed, recount

SMALL_TABLES = ("files", "files_history", "files_retries", "ledger", "ledger_leases")


@dataclass
class Place:
    """A landing zone and a home; every run is a new driver in the session of all tests."""

    spark: SparkSession
    landing: Path
    home: Path
    landed: list[Path] = field(default_factory=list)

    def land(self, name: str, *keys: str, version: int = 1) -> None:
        rows = [
            {"id": key, "record_version": version, "title": key, "body": "on it", "section": "s"}
            | {"is_deleted": False}
            for key in keys
        ]
        self.landed.append(self.landing / name)
        self.landed[-1].write_text("".join(json.dumps(row) + "\n" for row in rows))

    def settings(self) -> Settings:
        return from_values(
            {
                "pipeline": {"name": "docs", "home": str(self.home)},
                "landing": {"path": str(self.landing), "settle": "0 seconds"},
                "changes": {"envelope": "plain", "key": ["id"], "version": "record_version"},
                "gold": {"text": ["title", "body"], "attributes": ["section"]},
                "embedding": {"provider": "fake"},
            }
        )

    @property
    def pipeline(self) -> Pipeline:
        return Pipeline(self.settings(), spark=self.spark)

    def run(self) -> None:
        self.pipeline.run(once=True)

    def checkpoint(self, query: str) -> Path:
        return self.home / "checkpoints" / query

    def lose(self, *names: str) -> None:
        for name in names:
            shutil.rmtree(self.home / name, ignore_errors=True)

    def check(self) -> None:
        """Bronze has every landed record once, the index is what it must be, all is in step."""
        found = Counter(
            (row["file"], row["row"])
            for batch in delta_tables.scan(str(self.home / "bronze"), ["file", "row"])
            for row in batch.to_pylist()
        )
        landed = Counter(
            (str(file), number)
            for file in self.landing.glob("*.json")
            for number, _ in enumerate(file.read_text().splitlines())
        )
        assert found == landed
        assert indexed(self.home) == recount(self.landing)
        findings = self.pipeline.recovery.verify()
        assert is_well(findings), findings


@pytest.fixture(scope="module")
def original(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A home after three runs, how it was after the first one, and a file that came since."""
    folder = tmp_path_factory.mktemp("original")
    (folder / "landing").mkdir()
    place = Place(spark, folder / "landing", folder / "home")
    for number, keys in enumerate([("a", "b"), ("c",), ("d",)]):
        place.land(f"{number}.json", *keys)
        place.run()
        shutil.copytree(place.home, folder / f"home after run {number}")
    place.land("3.json", "e")
    return place


@pytest.fixture
def place(original: Place, tmp_path: Path) -> Iterator[Place]:
    """A copy of the home for one test: all of a home can move together."""
    shutil.copytree(original.home, tmp_path / "home")
    copy = Place(original.spark, original.landing, tmp_path / "home")
    yield copy
    for file in copy.landed:
        file.unlink(missing_ok=True)


def rebuilt(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.fields["query"]  # type: ignore[attr-defined]
        for record in caplog.records
        if record.message in {"checkpoint_rebuilt", "files_rebuilt"}
    ]


def rows_in(place: Place) -> list[int]:
    return [row["rows_in"] for row in place.pipeline.ledger()]


def test_a_healthy_start_makes_nothing_anew(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    ids = [checkpoints.query_id(str(place.checkpoint(query))) for query in ("ingest", "index")]
    place.land("4.json")  # without records
    place.run()
    place.land("5.json", "f")
    place.run()
    assert rebuilt(caplog) == []
    assert ids == [
        checkpoints.query_id(str(place.checkpoint(query))) for query in ("ingest", "index")
    ]
    place.check()


def test_a_lost_ingest_checkpoint_reads_no_file_again_and_misses_none(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.lose("checkpoints/ingest")
    place.run()
    assert rebuilt(caplog) == ["ingest"]
    place.check()
    caplog.clear()
    place.land("4.json", "f")
    place.run()
    assert rebuilt(caplog) == []
    place.check()


def test_a_lost_index_checkpoint_goes_on_where_the_ledger_ends(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    query = checkpoints.query_id(str(place.checkpoint("index")))
    place.lose("checkpoints/index")
    place.run()
    assert rebuilt(caplog) == ["index"]
    assert rows_in(place)[3:] == [1]
    assert checkpoints.query_id(str(place.checkpoint("index"))) == query
    place.check()


def test_without_checkpoints_files_table_and_ledger_bronze_and_index_tell_enough(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.lose("checkpoints", *SMALL_TABLES)
    place.run()
    assert rebuilt(caplog) == ["files", "ingest", "index"]
    assert rows_in(place) == [1]
    place.check()


@pytest.mark.parametrize("query", ["ingest", pytest.param("index", marks=pytest.mark.long)])
def test_a_damaged_checkpoint_is_moved_aside_and_made_anew(
    place: Place, query: str, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = place.checkpoint(query) / "offsets"
    newest = max(offsets.glob("[0-9]*"), key=lambda file: int(file.name))
    newest.write_text(newest.read_text()[:40])
    assert not is_well(place.pipeline.recovery.verify())
    place.run()
    assert rebuilt(caplog) == [query]
    (aside,) = place.checkpoint("").glob(f"{query}.replaced-*")
    assert (aside / "offsets" / newest.name).exists()
    place.check()


@pytest.mark.long
def test_an_older_ingest_checkpoint_is_not_gone_on_from(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Delta would skip its next batch, which has a number that it knows, with all its files."""
    go_back_to(place.checkpoint("ingest"), 1)
    place.run()
    assert rebuilt(caplog) == ["ingest"]
    place.check()


@pytest.mark.long
def test_an_older_files_table_numbers_no_file_as_read(place: Place, original: Place) -> None:
    """Files without records leave no trace in Bronze, so numbers that were read are given again."""
    place.land("4.json")
    place.run()
    place.lose("files", "files_history")
    shutil.copytree(original.home.with_name("home after run 1") / "files", place.home / "files")
    (place.landing / "4.json").unlink()
    place.land("5.json", "f")
    place.land("6.json", "g")
    place.run()
    place.check()


def test_ledger_and_index_checkpoint_of_an_older_time_lose_no_row(
    place: Place, original: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """The table has a commit of the next batch's number, but that was another batch."""
    old = original.home.with_name("home after run 1")
    for name in ("ledger", "checkpoints/index"):
        place.lose(name)
        shutil.copytree(old / name, place.home / name)
    place.land("4.json", "f")
    place.run()
    assert "checkpoint_older" in caplog.messages
    place.check()


@pytest.mark.long
def test_a_bronze_that_was_set_back_is_filled_again(place: Place, original: Place) -> None:
    place.lose("bronze")
    shutil.copytree(original.home.with_name("home after run 0") / "bronze", place.home / "bronze")
    place.run()
    place.check()


def test_a_backup_is_put_back_and_reconciled_with_what_came_since(
    place: Place, original: Place, caplog: pytest.LogCaptureFixture
) -> None:
    old = Place(place.spark, place.landing, original.home.with_name("home after run 0"))
    made = old.pipeline.recovery.backup(str(place.home / "backups"))
    place.land("4.json", "f", "g")
    place.run()
    done = place.pipeline.recovery.restore(force=True)
    assert done.backup.name == made.name
    assert [one.what for one in done.rebuilt] == ["files", "ingest"]
    assert done.aside is not None
    assert (Path(done.aside) / "checkpoints/ingest/metadata").exists()
    place.land("5.json", "h")
    place.run()
    place.check()


@pytest.mark.long
def test_a_backup_without_bronze_makes_the_next_run_read_everything(
    place: Place, tmp_path: Path
) -> None:
    made = place.pipeline.recovery.backup()
    (tmp_path / "other").mkdir()
    done = place.pipeline.recovery.restore(made.name, to=str(tmp_path / "other"), force=True)
    assert "reads every file of the landing zone again" in done.notes[0]
    other = Place(place.spark, place.landing, tmp_path / "other")
    other.run()
    other.check()


def test_a_restore_is_refused_while_a_run_seems_active(place: Place) -> None:
    newest = checkpoints.read(str(place.checkpoint("index"))).newest_plan
    assert newest is not None
    soon = Recovery(place.settings(), clock=lambda: newest.at + timedelta(seconds=5))
    soon.backup()
    with pytest.raises(StoreError, match=r"seems to be active.* began a batch .*--force"):
        soon.restore()
    assert not list(place.home.glob("replaced-*"))


def test_the_commands_back_up_list_verify_and_restore(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "freshet.toml").write_text(
        f"""\
[pipeline]
name = "docs"
home = "./home"
[landing]
path = "{place.landing}"
[changes]
key = ["id"]
[gold]
text = ["title", "body"]
attributes = ["section"]
[embedding]
provider = "fake"
"""
    )
    monkeypatch.chdir(tmp_path)

    def freshet(*arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, ["checkpoint", *arguments])
        assert done.exit_code == code, done.output
        return done.stdout

    made = json.loads(freshet("backup", "--json"))
    assert Path(made["backup"], "manifest.json").exists()
    assert made["queries"]["ingest"]["end"]["seq"] == 3
    (listed,) = json.loads(freshet("list", "--json"))
    assert listed["backup"] == made["backup"]
    assert Path(made["backup"]).name in freshet("list")
    assert json.loads(freshet("verify", "--json"))["ok"]
    assert json.loads(freshet("verify", Path(made["backup"]).name, "--json"))["ok"]
    place.lose("checkpoints/ingest")
    assert "there is no checkpoint, but files have been read" in freshet("verify", code=1)
    assert "go on with" in freshet("restore", "--force")
    assert json.loads(freshet("verify", "--json"))["ok"]
    Path(made["backup"], "checkpoints/ingest/metadata").write_text("{}")
    assert "does not fit its checksum" in freshet("verify", made["backup"], code=1)


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.INFO, "freshet"):
        yield
