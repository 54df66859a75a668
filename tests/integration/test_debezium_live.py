"""Debezium's own engine on a real PostgreSQL, killed in the middle: the index is the final SELECT.

`make test-debezium` runs it. The seed is printed, and `SEED=…` repeats the statements; what the
processes do at the same time is left to chance.
"""

import json
import os
import random
import shutil
from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path

import lancedb
import pytest
from pyspark.sql import SparkSession

from debezium.engine import Engine, events_of
from debezium.replay import Event, Row, is_unavailable, old_key, replayed, version_of
from debezium.story import KEYS, Source, Story, live
from freshet import Pipeline, Settings
from postgres_server import postgres_server

pytestmark = [pytest.mark.debezium, pytest.mark.timeout(900)]

MakeSettings = Callable[..., Settings]

TEXTS = {"articles": ("title", "body"), "translations": ("body",)}
ATTRIBUTES = {"articles": ("title", "tags", "price", "published"), "translations": ("lang",)}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(10**9))
    print(f"SEED={seed}")  # noqa: T201
    with postgres_server() as server, server.session() as session, server.session() as late:
        engine = Engine(server, tmp_path_factory.mktemp("debezium"), tuple(KEYS))
        try:
            return live(engine, Source(session, late, seed))
        finally:
            engine.end()


def test_the_kill_struck_in_the_middle_of_a_file_and_its_events_came_again(story: Story) -> None:
    for table in KEYS:
        again = [identity(event) for event in events_of(story.later_files(table))]
        assert {identity(event) for event in story.half_at_kill[table]} <= set(again)
    assert any(story.half_at_kill.values())


def identity(event: Event) -> str:
    """What an event is, whenever and by whichever start of the engine it was sent."""
    value = event["value"] or {}
    kept = {name: value.get(name) for name in ("op", "before", "after", "source", "transaction")}
    return json.dumps([event["key"], old_key(event), kept], sort_keys=True)


def test_the_events_have_everything_that_makes_them_hard_to_follow(story: Story) -> None:
    for table in KEYS:
        events = [event for event in story.events(table) if event["value"]]
        ops = {event["value"]["op"] for event in events}
        assert ops == {"r", "c", "u", "d"} | ({"t"} if table == "translations" else set())
        assert any(map(old_key, events))
        assert any(not event["value"] for event in story.events(table))  # a tombstone
    left_out = {
        event["value"]["op"]
        for event in story.events("articles")
        if event["value"] and event["value"]["after"]
        if any(map(is_unavailable, event["value"]["after"].values()))
    }
    assert left_out == {"c", "u"}


def test_versions_grow_as_the_events_are_sent(story: Story) -> None:
    """What the order of the events rests on, and what a restart must not change."""
    for table in KEYS:
        for files in (story.whole_at_kill[table], story.later_files(table)):
            versions = [version_of(event) for event in events_of(files) if event["value"]]
            assert versions == sorted(versions)


@pytest.mark.parametrize("table", KEYS)
def test_replayed_without_freshet_the_files_give_the_final_select(story: Story, table: str) -> None:
    events = story.events(table)
    assert replayed(events) == story.final[table]
    assert replayed(reversed(events)) == story.final[table]


@pytest.mark.parametrize("table", KEYS)
def test_the_index_is_the_final_select(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings, story: Story, table: str
) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    pipeline = Pipeline(settings_of(settings, table), spark=spark)
    half = [file for file in story.landings[table].iterdir() if file.name.startswith(".")]
    for file in (*half, *story.whole_at_kill[table]):
        shutil.copy2(file, landing)
    pipeline.run(once=True)
    midway = replayed(events_of(story.whole_at_kill[table]))
    assert indexed(pipeline) == as_indexed(table, midway)
    for file in story.later_files(table):
        shutil.copy2(file, landing)
    pipeline.run(once=True)
    assert indexed(pipeline) == as_indexed(table, story.final[table])
    assert pipeline.verify().ok
    assert pipeline.status().bronze.errors == 0
    assert len(pipeline.ledger()) > 2


def settings_of(settings: MakeSettings, table: str) -> Settings:
    return settings(
        pipeline={"max_rows_per_batch": 200},
        landing={"max_files_per_trigger": 8},
        changes={"envelope": "debezium", "key": list(KEYS[table]), "version": None},
        gold={
            "text": list(TEXTS[table]),
            "attributes": list(ATTRIBUTES[table]),
            "chunk_overlap": 0,
        },
    )


def as_indexed(table: str, rows: Mapping[str, Row]) -> dict[str, Row]:
    """Rows of the database as the index should hold them: key → text and attributes."""
    return {
        index_key([row[name] for name in KEYS[table]]): {
            "text": "\n".join(row[name] for name in TEXTS[table] if row[name] is not None),
            **{name: as_text(row[name]) for name in ATTRIBUTES[table]},
        }
        for row in rows.values()
    }


def index_key(parts: list[object]) -> str:
    texts = [str(part) for part in parts]
    return texts[0] if len(texts) == 1 else as_text(texts) or ""


def as_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def indexed(pipeline: Pipeline) -> dict[str, Row]:
    """What the index holds, opened as its users open it, with the pieces of a text joined."""
    table = lancedb.connect(pipeline.home.index_folder).open_table("docs").to_arrow()
    rows = sorted(table.to_pylist(), key=lambda row: (row["key"], row["chunk"]))
    found = {}
    for key, group in groupby(rows, key=lambda row: row["key"]):
        pieces = list(group)
        assert [piece["chunk"] for piece in pieces] == list(range(len(pieces)))
        names = pipeline.settings.gold.attribute_types
        [attributes] = {tuple(piece[name] for name in names) for piece in pieces}
        text = " ".join(piece["text"] for piece in pieces)
        found[key] = {"text": text, **dict(zip(names, attributes, strict=True))}
    return found
