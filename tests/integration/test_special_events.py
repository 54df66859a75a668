"""Left-out values, key changes, truncates: the index equals the table, whatever the way there."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pytest
from pyspark.sql import SparkSession

from freshet import Pipeline, Settings
from freshet.bronze import table as bronze_table
from freshet.errors import StreamFailedError
from freshet.sink import Step
from freshet.testing import FailAt, Moment
from sources import PLACEHOLDER, Source, indexed, land

MakeSettings = Callable[..., Settings]


@pytest.fixture
def debezium(settings: MakeSettings, monkeypatch: pytest.MonkeyPatch) -> MakeSettings:
    """Settings of a pipeline whose index batches are small: one file of Bronze each."""
    monkeypatch.setattr(bronze_table, "FILES_PER_BATCH", 1)

    def make(**sections: dict[str, Any]) -> Settings:
        own: dict[str, dict[str, Any]] = {
            "changes": {"envelope": "debezium", "key": ["id"], "version": None},
            "gold": {"attributes": ["views:long"]},
        }
        return settings(
            **{name: own.get(name, {}) | sections.get(name, {}) for name in {**own, **sections}}
        )

    return make


def held(pipeline: Pipeline) -> int:
    return pipeline.status().index.held


# --- the laws ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seed", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)]
)
@pytest.mark.timeout(600)
def test_any_order_any_split_any_repetition_and_a_crash_give_the_table(
    spark: SparkSession, tmp_path: Path, debezium: MakeSettings, seed: int
) -> None:
    source = Source(seed)
    source.live(500)
    chooser = random.Random(seed)
    source.land(tmp_path / "landing", files=8, order=chooser, again=0.1)
    chosen = debezium(landing={"max_files_per_trigger": 4})
    for moment in (Moment("after", Step.COMMIT, 1), Moment("after", Step.PREPARE, 2)):
        probe = FailAt(moment)
        with pytest.raises(StreamFailedError):
            Pipeline(chosen, spark=spark, probe=probe).run(once=True)
        assert probe.struck
    pipeline = Pipeline(chosen, spark=spark)
    pipeline.run(once=True)
    assert indexed(tmp_path / "home") == source.expected()
    assert held(pipeline) == 0
    assert pipeline.verify().ok


@pytest.mark.long
def test_the_same_events_in_order_and_in_one_batch_give_the_table(
    spark: SparkSession, tmp_path: Path, debezium: MakeSettings
) -> None:
    source = Source(4)
    source.live(1_500)
    source.land(tmp_path / "landing", files=1)
    pipeline = Pipeline(debezium(), spark=spark)
    pipeline.run(once=True)
    assert indexed(tmp_path / "home") == source.expected()
    assert pipeline.verify().ok


# --- one by one ----------------------------------------------------------------------------------


def event(op: str, key: str, at: int, row: dict[str, Any] | None = None, **header: str) -> str:
    """An event as Debezium writes it, at a place in the log."""
    image = None if row is None else {"id": key} | row
    value = {
        "op": op,
        "before": {"id": key} if op == "d" else None,
        "after": image,
        "source": {"connector": "postgresql", "sequence": json.dumps([str(at), str(at)])},
    }
    headers = [
        {"key": f"__debezium.{name}", "value": json.dumps({"id": was})}
        for name, was in header.items()
    ]
    record = {"key": {"id": key}, "value": value, "headers": headers}
    return json.dumps(record)


def truncate(at: int) -> str:
    source = {"connector": "postgresql", "sequence": json.dumps([str(at), str(at)])}
    value = {"op": "t", "before": None, "after": None, "source": source}
    return json.dumps({"key": None, "value": value, "headers": []})


class Feed:
    """A pipeline that is given one batch after the other."""

    def __init__(self, spark: SparkSession, folder: Path, chosen: Settings) -> None:
        self.pipeline = Pipeline(chosen, spark=spark)
        self._folder = folder
        self._files = 0

    def give(self, *lines: str) -> dict[str, tuple[str, Any]]:
        """Lands a file, runs, and returns what is in the index then."""
        self._files += 1
        land(self._folder / "landing", f"{self._files}.json", list(lines))
        self.pipeline.run(once=True)
        return indexed(self._folder / "home")


def test_a_large_text_that_is_left_out_stays_and_is_not_embedded_again(
    spark: SparkSession, tmp_path: Path, debezium: MakeSettings
) -> None:
    body = " ".join(f"word{number}" for number in range(6_000))
    assert len(body) > 50_000
    chosen = debezium(gold={"text": ["body"], "attributes": ["title"]})
    pipeline = Pipeline(chosen, spark=spark)
    land(tmp_path / "landing", "1.json", [event("c", "a", 1, {"title": "one", "body": body})])
    pipeline.run(once=True)
    first = rows_of(tmp_path)
    land(
        tmp_path / "landing", "2.json", [event("u", "a", 2, {"title": "two", "body": PLACEHOLDER})]
    )
    pipeline.run(once=True)
    assert [(row["chunk"], row["text"], row["vector"]) for row in rows_of(tmp_path)] == [
        (row["chunk"], row["text"], row["vector"]) for row in first
    ]
    assert {row["title"] for row in rows_of(tmp_path)} == {"two"}
    last = pipeline.ledger()[-1]
    assert (last["rows_embedded"], last["rows_reused"]) == (0, len(first))
    assert pipeline.verify().ok


def rows_of(folder: Path) -> list[dict[str, Any]]:
    rows = lance.dataset(str(folder / "home/index/docs.lance")).to_table().to_pylist()
    return sorted(rows, key=lambda row: (row["key"], row["chunk"]))


@pytest.mark.long
def test_what_cannot_be_filled_waits_and_is_completed(
    spark: SparkSession, tmp_path: Path, debezium: MakeSettings
) -> None:
    feed = Feed(spark, tmp_path, debezium())
    gap = {"title": "new", "body": PLACEHOLDER, "views": 3}
    assert feed.give(event("u", "a", 3, gap), event("c", "b", 1, {"title": "b", "body": "b"})) == {
        "b": ("b\nb", None)
    }
    assert held(feed.pipeline) == 1
    assert feed.pipeline.verify().ok, "what waits is not in Gold either"
    # The event that it builds on, and then one between the two, which has a newer text.
    landed = feed.give(event("c", "a", 1, {"title": "old", "body": "first", "views": 1}))
    assert landed["a"] == ("new\nfirst", 3)
    assert held(feed.pipeline) == 0
    landed = feed.give(event("u", "a", 2, {"title": "mid", "body": "second", "views": 2}))
    assert landed["a"] == ("new\nsecond", 3)
    landed = feed.give(event("c", "a", 1, {"title": "old", "body": "first", "views": 1}))
    assert landed["a"] == ("new\nsecond", 3)
    assert feed.pipeline.verify().ok


@pytest.mark.parametrize(
    "order",
    [(2, 0, 1), (0, 1, 2), (2, 1, 0)],
    ids=lambda order: "".join(map(str, order)),
)
@pytest.mark.long
def test_a_key_change_is_seen_whole_whatever_comes_first(
    spark: SparkSession, tmp_path: Path, debezium: MakeSettings, order: tuple[int, ...]
) -> None:
    feed = Feed(spark, tmp_path, debezium())
    events = [
        event("c", "old", 1, {"title": "t", "body": "the text", "views": 1}),
        event("d", "old", 2, newkey="new"),
        event("c", "new", 2, {"title": "moved", "body": PLACEHOLDER, "views": 2}, oldkey="old"),
    ]
    for place in order:
        landed = feed.give(events[place])
    assert landed == {"new": ("moved\nthe text", 2)}
    # A late event of the old key has a newer text, and an update of the new one leaves it out.
    feed.give(event("u", "old", 1, {"title": "t", "body": "a newer text", "views": 1}))
    landed = feed.give(event("u", "new", 3, {"title": "again", "body": PLACEHOLDER, "views": 3}))
    assert landed == {"new": ("again\na newer text", 3)}
    assert held(feed.pipeline) == 0
    assert feed.pipeline.verify().ok


@pytest.mark.long
def test_a_truncate_deletes_what_is_older_and_nothing_else(
    spark: SparkSession, tmp_path: Path, debezium: MakeSettings
) -> None:
    feed = Feed(spark, tmp_path, debezium())
    row = {"title": "t", "body": "b", "views": 1}
    feed.give(*(event("c", f"k{n}", n, row) for n in range(1, 8)))
    landed = feed.give(
        event("c", "kept", 20, row),
        truncate(10),
        event("u", "k1", 11, row),
        event("u", "k2", 9, row),
    )
    assert set(landed) == {"kept", "k1"}
    assert set(feed.give(event("c", "late", 5, row), event("c", "next", 13, row))) == {
        "kept",
        "k1",
        "next",
    }
    assert set(feed.give(truncate(12), event("d", "next", 14))) == {"kept"}
    assert feed.pipeline.verify().ok
    assert feed.pipeline.ledger()[-1]["rows_deleted"] == 2


@pytest.mark.long
def test_an_update_that_tells_of_the_old_key_deletes_it(
    spark: SparkSession, tmp_path: Path, debezium: MakeSettings
) -> None:
    """Estuary tells a key change by one event; the envelope is named, and not `auto`."""
    chosen = debezium(changes={"envelope": "estuary", "key": ["id"], "version": None})
    feed = Feed(spark, tmp_path, chosen)

    def document(op: str, key: str, at: int, **before: Any) -> str:
        meta = {"op": op, "source": {"loc": [at, at, at]}} | ({"before": before} if before else {})
        row = {"id": key, "title": "t", "body": "b", "views": at}
        return json.dumps(row | {"_meta": meta})

    assert set(feed.give(document("c", "old", 1), document("c", "other", 1))) == {"old", "other"}
    assert set(feed.give(document("u", "new", 2, id="old"))) == {"new", "other"}
    assert feed.pipeline.verify().ok
