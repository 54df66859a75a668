"""The command line, as a person or a script meets it."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from freshet.cli.app import app
from freshet.cli.init import TEMPLATE
from freshet.errors import FreshetError, PlotError, SearchError, SettingsError
from freshet.settings import load

SETTINGS = """\
[pipeline]
name = "docs"
home = "./home"
[landing]
path = "./landing"
[changes]
envelope = "plain"
key = ["id"]
[gold]
text = ["title"]
attributes = ["section"]
[embedding]
provider = "fake"
"""

Freshet = Callable[..., Result]


@pytest.fixture
def freshet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Freshet:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "freshet.toml").write_text(SETTINGS)
    (tmp_path / "landing").mkdir()
    record = {"id": "a", "title": "apples", "section": "fruit", "record_version": 1}
    (tmp_path / "landing" / "a.json").write_text(json.dumps(record))

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments), catch_exceptions=True)

    return run


def test_files_and_quarantine_answer_questions(freshet: Freshet, spark: SparkSession) -> None:
    Path("landing/bad.json").write_text("no record\n")
    assert freshet("run", "--once").exit_code == 0
    Path("landing/new.json").write_text('{"id": "n", "title": "new", "record_version": 1}\n')
    told = json.loads(freshet("files", "--json").stdout)
    assert [(Path(row["path"]).name, row["state"], row["rows"], row["errors"]) for row in told] == [
        ("new.json", "waiting", None, None),
        ("bad.json", "read", 1, 1),
        ("a.json", "read", 1, 0),
    ]
    assert len(json.loads(freshet("files", "--state", "read", "--json").stdout)) == 2
    assert "waiting" in freshet("files").stdout
    refused = freshet("files", "--state", "gone")
    assert "there is no state" in str(refused.exception)
    [bad] = json.loads(freshet("quarantine", "list", "--json").stdout)
    assert (Path(bad["file"]).name, bad["row"], bad["error"]) == ("bad.json", 0, "not JSON")
    assert "1 records. Mend the files" in freshet("quarantine", "list").stdout
    Path("landing/bad.json").write_text('{"id": "b", "title": "mended", "record_version": 1}\n')
    assert "1 files will be read again" in freshet("quarantine", "retry").stdout
    assert freshet("run", "--once").exit_code == 0
    assert "nothing is in quarantine" in freshet("quarantine", "list").stdout
    assert json.loads(freshet("status", "--json").stdout)["index"]["keys"] == 3


def test_the_way_of_a_new_user(freshet: Freshet, spark: SparkSession) -> None:
    ran = freshet("run", "--once")
    assert ran.exit_code == 0
    assert "1 batch, 1 events indexed" in ran.stdout
    status = json.loads(freshet("status", "--json").stdout)
    names = "pipeline files bronze schema index probe optimizer last_batch rebuild short_trigger"
    assert list(status) == [*names.split(), "sinks", "freshness"]
    assert status["index"]["keys"] == 1
    assert status["last_batch"]["rows_embedded"] == 1
    assert "1 records in 1 rows" in re.sub(r"\s+", " ", freshet("status").stdout)
    hits = json.loads(freshet("search", "apples", "--json").stdout)
    assert hits == [
        {"key": "a", "chunk": 0, "start": 0, "score": 1.0, "text": "apples", "section": "fruit"}
    ]
    assert json.loads(freshet("search", "x", "--where", "section = 'b'", "--json").stdout) == []
    assert "apples" in freshet("search", "apples", "--k", "1").stdout
    verified = freshet("verify", "--json")
    assert verified.exit_code == 0
    assert json.loads(verified.stdout)["ok"] is True
    assert "equal key by key" in freshet("verify").stdout


def test_status_tells_how_the_index_fares_and_draws_it(
    freshet: Freshet, spark: SparkSession, tmp_path: Path
) -> None:
    nothing = freshet("status", "--plot", "x.png")
    assert isinstance(nothing.exception, PlotError)
    nowhere = freshet("status", "--plot", "no/x.png")
    assert isinstance(nowhere.exception, SettingsError)
    assert "--plot: there is no folder" in str(nowhere.exception)
    assert not list(tmp_path.rglob("x.png*"))
    assert "room" not in freshet("status").stdout

    freshet("run", "--once")
    drawn = freshet("status", "--plot", "x.png", "--since", "6 hours", "--json")
    told = json.loads(drawn.stdout)
    assert told["plot"] == str(tmp_path / "x.png")
    assert Path("x.png").read_bytes().startswith(b"\x89PNG")
    assert told["index"]["versions"] == told["index"]["version"]
    assert told["index"]["unindexed_rows"] == 1
    assert told["probe"]["recall"] == 1.0
    assert told["optimizer"]["looked_at"] >= told["probe"]["at"]
    assert told["optimizer"]["last"]["target"] == "text_idx"
    assert told["optimizer"]["failure"] is None
    shown = freshet("status").stdout
    assert "recall@10 1.000" in shown
    assert "build: 1 times" in shown
    assert "lost races" not in shown
    assert "failed" not in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_search_by_words_by_both_and_as_of_then(
    freshet: Freshet, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(*arguments: str) -> list[str]:
        ran = freshet("search", *arguments, "--json")
        assert ran.exit_code == 0, ran.exception
        return [hit["key"] for hit in json.loads(ran.stdout)]

    freshet("run", "--once")
    version = json.loads(freshet("status", "--json").stdout)["index"]["version"]
    records = [
        {"id": "a", "title": "pears", "section": "fruit", "record_version": 2},
        {"id": "b", "title": "apples and cars", "section": "traffic", "record_version": 1},
    ]
    Path("landing/b.json").write_text("\n".join(map(json.dumps, records)))
    assert freshet("run", "--once").exit_code == 0

    assert found("apples", "--mode", "text") == ["b"]
    assert found("apples", "--mode", "hybrid") == ["b", "a"]
    assert found("apples", "--mode", "hybrid", "--where", "section = 'fruit'") == ["a"]
    for mode in ("vector", "text", "hybrid"):
        assert found("apples", "--mode", mode, "--as-of", str(version)) == ["a"]
    assert found('"apples" AND (', "--mode", "text", "--as-of", "0 seconds ago") == ["b"]
    assert found("pears", "--chunks", "--nprobes", "1", "--ef", "1", "--refine", "2")[0] == "a"
    assert found("", "--mode", "text") == []
    assert "nothing found" in freshet("search", "plums", "--mode", "text").stdout

    for when, sentence in (
        ("99", "version 99 of the index has never been. Kept are"),
        ("1 day ago", "had not been made yet"),
        ("2999-01-01", "is in the future"),
        ("soon", "is neither a version, such as 12, nor a moment"),
    ):
        refused = freshet("search", "apples", "--as-of", when)
        assert refused.exit_code != 0
        assert isinstance(refused.exception, SearchError)
        assert sentence in str(refused.exception)
    wrong = freshet("search", "apples", "--mode", "fuzzy")
    assert 'there is no mode "fuzzy"' in str(wrong.exception)

    assert sorted(found("apples")) == ["a", "b"]
    monkeypatch.setenv("FRESHET_SEARCH__MODE", "text")
    assert found("apples") == ["b"]


def test_verify_exits_with_an_error_when_the_index_is_not_right(
    freshet: Freshet, spark: SparkSession, tmp_path: Path
) -> None:
    import lance

    freshet("run", "--once")
    lance.dataset(str(tmp_path / "home/index/docs.lance")).delete("key = 'a'")
    verified = freshet("verify")
    assert verified.exit_code == 1
    assert "not equal" in verified.stdout
    assert json.loads(freshet("verify", "--json").stdout)["missing"] == 1


def test_run_prints_its_batches_as_json_for_scripts(freshet: Freshet, spark: SparkSession) -> None:
    [line] = freshet("run", "--once", "--json").stdout.strip().split("\n")
    assert json.loads(line)["rows_in"] == 1


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("home =", "hoem =", 'unknown key "hoem" in [pipeline]: did you mean "home"?'),
        ("./landing", "./elsewhere", "landing.path is"),
        ('["id"]', '["uuid"]', "changes.key names uuid, but none of the first 1 records has that"),
        ('"fake"', '"gpt"', "embedding.provider is \"gpt\", but must be 'minilm'"),
        ('"fake"', '"openai"', 'provider = "openai" needs model and dimension'),
    ],
)
def test_wrong_settings_are_one_sentence_and_create_nothing(
    freshet: Freshet, tmp_path: Path, old: str, new: str, sentence: str
) -> None:
    (tmp_path / "freshet.toml").write_text(SETTINGS.replace(old, new))
    ran = freshet("run", "--once")
    assert ran.exit_code != 0
    assert isinstance(ran.exception, SettingsError)
    assert sentence in str(ran.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["freshet.toml", "landing"]


def test_without_a_settings_file_every_command_says_how_to_write_one(
    freshet: Freshet, tmp_path: Path
) -> None:
    (tmp_path / "freshet.toml").unlink()
    for command in (["run"], ["status"], ["search", "x"], ["verify"]):
        ran = freshet(*command)
        assert ran.exit_code != 0
        assert isinstance(ran.exception, FreshetError)
        assert "`freshet init` writes one" in str(ran.exception)


def test_init_writes_settings_that_can_be_loaded_and_overwrites_none(
    freshet: Freshet, tmp_path: Path
) -> None:
    refused = freshet("init")
    assert isinstance(refused.exception, SettingsError)
    assert (tmp_path / "freshet.toml").read_text() == SETTINGS
    assert freshet("init", "--force").exit_code == 0
    assert (tmp_path / "freshet.toml").read_text() == TEMPLATE
    assert load(tmp_path / "freshet.toml").pipeline.name == "articles"


def test_the_commented_defaults_of_init_are_the_defaults(tmp_path: Path) -> None:
    """Uncommenting every line must change nothing but what cannot stand together."""
    file = tmp_path / "freshet.toml"
    file.write_text(TEMPLATE)
    plain = load(file)
    opened = re.sub(r"^# (?=[a-z_]+ = )", "", TEMPLATE, flags=re.MULTILINE)
    opened = re.sub(r"^template = .*\n", "", opened, flags=re.MULTILINE)
    opened = re.sub(r"^conf = .*\n", "", opened, flags=re.MULTILINE)
    file.write_text(opened)
    assert opened != TEMPLATE
    full = load(file).model_dump()
    examples = (("changes", "version"), ("gold", "chunk_tokens"), ("slo", "landed_to_searchable"))
    for section, key in examples:
        full[section][key] = None
    assert full == plain.model_dump()
