"""Several sinks in one pipeline: each equals Gold, and none depends on another."""

import json
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from freshet.errors import SettingsError, SinkError
from freshet.pipeline import Pipeline
from freshet.settings import Settings, from_values
from histories import indexed, recount, shuffled_history
from looking_at_sinks import in_delta, in_lance, in_postgres
from postgres_server import Server, postgres_server


def settings_of(folder: Path, *sinks: dict[str, Any], **gold: Any) -> Settings:
    (folder / "landing").mkdir(exist_ok=True)
    return from_values(
        {
            "pipeline": {"name": "docs", "home": str(folder / "home"), "trigger": "1 second"},
            "landing": {"path": str(folder / "landing"), "settle": "0 seconds"},
            "changes": {"envelope": "plain", "key": ["id"], "version": "record_version"},
            "gold": {"text": ["title", "body"], "attributes": ["section"], **gold},
            "embedding": {"provider": "fake"},
            "optimizer": {"in_run": False},
            "sinks": list(sinks),
        }
    )


def lake(folder: Path) -> dict[str, Any]:
    return {"name": "lake", "kind": "delta", "path": str(folder / "lake")}


def rows(folder: Path) -> dict[str, Any]:
    return {"name": "rows", "kind": "lance", "path": str(folder / "rows.lance")}


def database(address: str) -> dict[str, Any]:
    return {"name": "database", "kind": "postgres", "address": address, "table": "docs"}


def land(folder: Path, name: str, *events: dict[str, Any]) -> None:
    lines = "".join(f"{json.dumps(event)}\n" for event in events)
    (folder / "landing" / name).write_text(lines)


def event(key: str, version: int, **more: Any) -> dict[str, Any]:
    told = {"id": key, "record_version": version, "title": key, "body": f"at {version}"}
    return told | {"section": "s", "is_deleted": False} | more


def test_three_sinks_equal_gold_and_one_that_comes_later_is_filled(
    spark: SparkSession, tmp_path: Path, database_server: Server
) -> None:
    history = shuffled_history(keys=60, events=400, files=4, seed=5)
    history.land(tmp_path / "landing")
    first = settings_of(tmp_path, lake(tmp_path), rows(tmp_path))
    Pipeline(first, spark=spark).run(once=True)
    must = recount(tmp_path / "landing")
    assert indexed(tmp_path / "home") == must
    assert in_delta(tmp_path) == must
    assert in_lance(tmp_path) == must

    land(tmp_path, "z1.json", event("k1", 900, body="new"), event("k2", 900, is_deleted=True))
    told = (lake(tmp_path), rows(tmp_path), database(database_server.address))
    pipeline = Pipeline(settings_of(tmp_path, *told), spark=spark)
    pipeline.run(once=True)
    must = recount(tmp_path / "landing")
    assert in_delta(tmp_path) == in_lance(tmp_path) == in_postgres(database_server) == must
    status = {one.name: one.last_batch for one in pipeline.status().sinks}
    assert {name: row["status"] for name, row in status.items() if row} == dict.fromkeys(
        ("lake", "rows", "database"), "committed"
    )


@pytest.fixture
def database_server(database: Server) -> Server:
    """The fixture, under a name that does not hide the settings' one."""
    return database


def test_a_sink_that_fails_holds_up_no_other_and_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    with postgres_server() as server:
        told = (database(server.address), lake(tmp_path))
        chosen = settings_of(tmp_path, *told)
        land(tmp_path, "1.json", event("a", 1), event("b", 1))
        Pipeline(chosen, spark=spark).run(once=True)
        server.kill()
        land(tmp_path, "2.json", event("a", 2), event("b", 2, is_deleted=True), event("c", 1))
        with pytest.raises(SinkError, match=r"1 of 2 sinks failed: database: .*refused"):
            Pipeline(chosen, spark=spark).run(once=True)
        must = recount(tmp_path / "landing")
        assert indexed(tmp_path / "home") == in_delta(tmp_path) == must
        failed = {one.name: one.last_batch for one in Pipeline(chosen).status().sinks}
        assert failed["database"] is not None
        assert failed["database"]["status"] == "failed"
        server.restart()
        Pipeline(chosen, spark=spark).run(once=True)
        assert in_postgres(server) == must


@pytest.mark.long
def test_a_continuous_run_starts_a_failed_sink_again(
    spark: SparkSession, tmp_path: Path, until: Callable[..., None]
) -> None:
    with postgres_server() as server:
        chosen = settings_of(tmp_path, database(server.address), lake(tmp_path))
        land(tmp_path, "1.json", event("a", 1))
        stop, seen = Event(), list[str]()

        def tick(_: Any) -> None:
            """Each step once what it waits for has come."""
            if not seen and has(server, "a"):
                server.kill()
                land(tmp_path, "2.json", event("b", 1))
                seen.append("killed")
            elif seen == ["killed"] and "b" in in_delta(tmp_path):
                server.restart()
                seen.append("restarted")
            elif len(seen) == 2 and has(server, "b"):
                stop.set()

        until(lambda: Pipeline(chosen, spark=spark).run(on_tick=tick, stop=stop), stop)
        assert seen == ["killed", "restarted"]
        assert in_postgres(server) == in_delta(tmp_path) == recount(tmp_path / "landing")


def has(server: Server, key: str) -> bool:
    try:
        return key in in_postgres(server)
    except psycopg.Error:
        return False


@pytest.fixture
def until() -> Callable[..., None]:
    """Runs something that ends when it is told to, and tells it after two minutes at the latest."""
    from threading import Timer

    def run(action: Callable[[], None], stop: Event) -> None:
        timer = Timer(120, stop.set)
        timer.start()
        try:
            action()
        finally:
            timer.cancel()

    return run


@pytest.mark.long
def test_gold_made_anew_and_new_columns_reach_a_sink(spark: SparkSession, tmp_path: Path) -> None:
    plain = settings_of(tmp_path, lake(tmp_path), attributes="*")
    land(tmp_path, "1.json", event("a", 1), event("b", 1), event("c", 1))
    Pipeline(plain, spark=spark).run(once=True)
    land(tmp_path, "2.json", event("b", 2, extra="x"), event("c", 2, is_deleted=True))
    Pipeline(plain, spark=spark).run(once=True)
    found = {
        row["key"]: row for row in spark.read.format("delta").load(lake_of(tmp_path)).collect()
    }
    assert {key: row["extra"] for key, row in found.items()} == {"a": None, "b": "x"}
    other = settings_of(tmp_path, lake(tmp_path), attributes="*", text=["body"])
    pipeline = Pipeline(other, spark=spark)
    pipeline.rebuild()
    pipeline.run(once=True)
    found = {
        row["key"]: row for row in spark.read.format("delta").load(lake_of(tmp_path)).collect()
    }
    assert {key: row["text"] for key, row in found.items()} == {"a": "at 1", "b": "at 2"}


def lake_of(folder: Path) -> str:
    return str(folder / "lake")


@pytest.mark.long
def test_changes_are_appended_to_files_with_their_deletes(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = {"name": "feed", "kind": "json", "path": str(tmp_path / "feed"), "columns": ["section"]}
    chosen = settings_of(tmp_path, feed)
    land(tmp_path, "1.json", event("a", 1), event("b", 1))
    Pipeline(chosen, spark=spark).run(once=True)
    land(tmp_path, "2.json", event("a", 2, is_deleted=True))
    Pipeline(chosen, spark=spark).run(once=True)
    found = spark.read.json(feed["path"]).collect()
    assert sorted((row["key"], row["is_deleted"]) for row in found) == [
        ("a", False),
        ("a", True),
        ("b", False),
    ]
    assert set(found[0].asDict()) == {"key", "gold_version", "is_deleted", "section"}


@pytest.mark.parametrize(
    ("sink", "sentence"),
    [
        ({"kind": "delta"}, 'the sink "x" of kind delta needs path'),
        ({"kind": "postgres", "table": "t"}, 'the sink "x" of kind postgres needs address'),
        ({"kind": "kafka"}, "needs servers and topic"),
        ({"kind": "delta", "path": "p", "name": "index"}, "cannot be called"),
        ({"kind": "paper"}, "must be 'lance', 'delta'"),
        ({"kind": "delta", "path": "p", "colums": ["a"]}, "unknown key sinks.0.colums"),
    ],
)
def test_a_sink_that_cannot_be_is_refused_by_the_settings(
    tmp_path: Path, sink: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(SettingsError, match=sentence):
        settings_of(tmp_path, {"name": "x"} | sink)


def test_two_sinks_of_one_name_and_impossible_modes_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match="two sinks are called lake"):
        settings_of(tmp_path, lake(tmp_path), lake(tmp_path))
    files = {"name": "x", "kind": "parquet", "path": str(tmp_path / "x"), "mode": "update"}
    with pytest.raises(SettingsError, match="parquet"):
        Pipeline(settings_of(tmp_path, files), spark=spark).check()
    unknown = lake(tmp_path) | {"columns": ["nothing"]}
    land(tmp_path, "1.json", event("a", 1))
    with pytest.raises(SinkError, match="Gold has no column nothing"):
        Pipeline(settings_of(tmp_path, unknown), spark=spark).run(once=True)
