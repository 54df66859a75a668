"""How fresh a real pipeline is: known landings, what status and the record say, the watch."""

import json
import logging
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from freshet import Pipeline, Settings, schemas
from freshet.cli.app import app
from freshet.monitor.ways import Stage
from freshet.pipeline import slo_watch
from freshet.stores import delta_upkeep
from freshet.stores.delta_tables import SmallTable

MakeSettings = Callable[..., Settings]


def land(folder: Path, name: str, keys: range, *, ago: float = 0.0) -> datetime:
    """A file that landed a known time ago; returns when."""
    (folder / "landing").mkdir(exist_ok=True)
    hidden = folder / "landing" / f".{name}"
    records = [{"id": f"k{key}", "record_version": 1, "title": f"title {key}"} for key in keys]
    hidden.write_text("".join(json.dumps(record) + "\n" for record in records))
    when = time.time() - ago
    os.utime(hidden, (when, when))
    hidden.rename(folder / "landing" / name)
    return datetime.fromtimestamp(when, UTC)


def backfilled(spark: SparkSession, folder: Path, settings: Settings) -> Pipeline:
    """A pipeline that has read what was there before it first ran."""
    land(folder, "old.json", range(3), ago=200_000)
    pipeline = Pipeline(settings, spark=spark)
    pipeline.run(once=True)
    return pipeline


def begin_a_day_ago(home: str) -> None:
    """Makes the first discovery a day older, as if the pipeline had run since."""
    uri = f"{home}/files"
    rows = SmallTable(uri, schemas.FILES).read()
    SmallTable(uri, schemas.FILES).forget("seq >= 0")
    day = timedelta(days=1)
    SmallTable(uri, schemas.FILES).append(
        [row | {"discovered_at": row["discovered_at"] - day} for row in rows]
    )


def test_the_ways_are_those_that_the_files_went(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    chosen = settings(pipeline={"max_rows_per_batch": 40})
    pipeline = backfilled(spark, tmp_path, chosen)
    before = pipeline.timing.look()
    assert [(way.seq, way.is_backfill) for way in before.ways] == [(0, True)]
    assert before.waiting.files == 0

    started = datetime.now(UTC)
    small = land(tmp_path, "1.json", range(10, 12))
    land(tmp_path, "2-empty.json", range(0))
    large = land(tmp_path, "3.json", range(100, 200))
    assert pipeline.status().freshness.waiting.files == 3  # type: ignore[union-attr]
    pipeline.run(once=True)
    found = pipeline.timing.look()
    live = {way.seq: way for way in found.live}
    [one, other] = live.values()
    for way, landed_at in ((one, small), (other, large)):
        assert abs(way.landed_at - landed_at) < timedelta(microseconds=2)
    batches = [row for row in pipeline.ledger() if row["finished_at"] > started]
    assert len(batches) > 2, "the large file takes several batches"
    for way in (one, other):
        moments = (way.landed_at, way.discovered_at, way.bronze_at, way.searchable_at)
        assert list(moments) == sorted(moments)
        assert way.searchable_at in {row["finished_at"] for row in batches}
        assert way.changed_at is None
    assert other.searchable_at == batches[-1]["finished_at"], (
        "all of it is searchable with the last"
    )
    assert found.waiting.files == 0

    pipeline.run(once=True)
    delta_upkeep.fold(pipeline.home.bronze, 1 << 20)
    assert Pipeline(chosen, spark=spark).timing.look().ways == found.ways
    land(tmp_path, "4.json", range(300, 301))
    pipeline.run(once=True)
    assert [way.seq for way in pipeline.timing.look().live] == [one.seq, other.seq, 4]


def test_the_sources_time_is_told_where_the_envelope_tells_it(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    def event(key: str, changed: datetime) -> dict[str, Any]:
        source = {"ts_ms": int(changed.timestamp() * 1_000), "lsn": 1, "connector": "postgresql"}
        after = {"id": key, "title": f"on {key}"}
        return {"op": "c", "before": None, "after": after, "source": source, "ts_ms": 1}

    def write(name: str, *events: dict[str, Any]) -> None:
        (tmp_path / "landing" / name).write_text("".join(json.dumps(one) + "\n" for one in events))

    chosen = settings(
        changes={"envelope": "debezium", "key": ["id"], "version": None},
        slo={"changed_to_searchable": "1 hour"},
    )
    write("old.json", event("a", datetime.now(UTC)))
    pipeline = Pipeline(chosen, spark=spark)
    pipeline.run(once=True)
    changed = datetime.now(UTC) - timedelta(minutes=3)
    write("1.json", event("b", changed + timedelta(minutes=1)), event("c", changed))
    pipeline.run(once=True)
    [way] = pipeline.timing.look().live
    assert way.changed_at is not None
    assert abs(way.changed_at - changed) <= timedelta(milliseconds=1)
    assert 175 < (way.seconds(Stage.CHANGED_TO_LANDED) or 0.0) < 240
    [verdict] = pipeline.timing.verdicts()
    assert not verdict.is_missed


CONFIG = """
[pipeline]
name = "docs"
home = "home"
[landing]
path = "landing"
settle = "0 seconds"
[changes]
envelope = "plain"
key = "id"
version = "record_version"
[gold]
text = ["title"]
[embedding]
provider = "fake"
[optimizer]
in_run = false
"""


def test_a_missed_target_is_a_non_zero_exit_and_the_record_is_written(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("freshet.toml").write_text(CONFIG)

    def freshet(*arguments: str) -> Any:
        return CliRunner().invoke(app, list(arguments))

    land(tmp_path, "old.json", range(3), ago=200_000)
    assert freshet("run", "--once").exit_code == 0
    begin_a_day_ago("home")
    untargeted = freshet("status", "--check")
    assert untargeted.exit_code == 0
    assert "no target is set" in untargeted.stderr
    assert "no file was timed" in untargeted.stdout
    assert freshet("sla", "--json").exit_code == 0, "there is nothing to promise yet"

    Path("freshet.toml").write_text(CONFIG + '[slo]\nlanded_to_searchable = "10 minutes"\n')
    land(tmp_path, "1.json", range(10, 12), ago=500)
    waiting = freshet("status", "--check")
    assert (waiting.exit_code, waiting.stderr) == (0, "")
    land(tmp_path, "2.json", range(20, 22), ago=700)
    late = freshet("status", "--check", "--json")
    assert late.exit_code == 1
    assert "landed_to_searchable missed by 10" in late.stderr
    told = json.loads(late.stdout)["freshness"]
    assert told["waiting"]["files"] == 2
    assert told["verdicts"][0]["is_missed"] is True
    assert freshet("status").exit_code == 0, "only a check is a verdict"

    assert freshet("run", "--once").exit_code == 0
    found = freshet("status", "--check")
    assert found.exit_code == 1, "p95 of two is the slower one"
    assert "landed → searchable" in found.stdout
    assert max(map(len, found.stdout.splitlines())) <= 80
    Path("freshet.toml").write_text(CONFIG + '[slo]\nlanded_to_searchable = "1 hour"\n')
    assert freshet("status", "--check").exit_code == 0

    shown = freshet("sla", "--out", "contract.md")
    assert shown.exit_code == 0
    assert "no promise, of so few files" in shown.stdout
    text = Path("contract.md").read_text()
    assert "2 change files, 4 events in 1 batches. Left out are files that were there" in text
    assert "landed_to_searchable met" in text
    assert not list(Path("home/reports").glob("sla-*.md"))[1:], "one of the first, none of this"
    nowhere = freshet("sla", "--out", "no/where.md")
    assert "there is no folder" in str(nowhere.exception)


def test_a_promise_is_written_into_the_settings(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("freshet.toml").write_text(CONFIG)
    land(tmp_path, "old.json", range(3), ago=200_000)
    CliRunner().invoke(app, ["run", "--once"])
    begin_a_day_ago("home")
    for number in range(20):
        land(tmp_path, f"{number}.json", range(number, number + 1), ago=5)
    CliRunner().invoke(app, ["run", "--once"])
    told = json.loads(CliRunner().invoke(app, ["sla", "--write", "--json"]).stdout)
    [promise] = [one for one in told["contract"]["promises"] if one["percentile"] == 95]
    assert told["written"] == ["slo.landed_to_searchable"]
    assert f'landed_to_searchable = "{promise["within"]}"' in Path("freshet.toml").read_text()
    assert Path(told["record"]).read_text().startswith("# Freshness of `docs`")
    assert CliRunner().invoke(app, ["status", "--check"]).exit_code == 0


def test_a_running_pipeline_tells_that_a_target_is_missed_and_that_it_is_met_again(
    spark: SparkSession,
    tmp_path: Path,
    settings: MakeSettings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(slo_watch, "_EVERY_S", 0.2)
    monkeypatch.setattr(slo_watch, "_SHARE", 1.0)
    slo = {"landed_to_searchable": "30 minutes", "percentile": 50}
    begin_a_day_ago(backfilled(spark, tmp_path, settings()).home.root)
    pipeline = Pipeline(settings(pipeline={"trigger": "1 second"}, slo=slo), spark=spark)
    stop = threading.Event()

    def events() -> list[str]:
        names = [record.message for record in caplog.records]
        return [name for name in names if name.startswith("slo_")]

    def until(count: int) -> None:
        deadline = time.monotonic() + 120
        while len(events()) < count and time.monotonic() < deadline:
            time.sleep(0.1)

    def play() -> None:
        try:
            land(tmp_path, "late.json", range(10, 12), ago=3_000)
            until(1)
            for number in range(2):
                land(tmp_path, f"{number}.json", range(20 + number, 21 + number))
            until(2)
            time.sleep(2)
        finally:
            stop.set()

    with caplog.at_level(logging.INFO, "freshet"):
        player = threading.Thread(target=play)
        player.start()
        pipeline.run(stop=stop)
        player.join()
    assert events() == ["slo_missed", "slo_met"]
    missed = next(record for record in caplog.records if record.message == "slo_missed")
    assert missed.levelno == logging.WARNING
    assert missed.__dict__["fields"]["target"] == "landed_to_searchable"
