"""Events that Debezium really wrote, through the whole pipeline: they end in the final tables."""

import json
import random
from collections.abc import Callable
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any

import lancedb
import pytest
from pyspark.sql import SparkSession

from freshet import Pipeline, Settings
from freshet.bronze import table as bronze_table
from sources import land

MakeSettings = Callable[..., Settings]
DATA = Path(__file__).parent.parent / "data" / "debezium"
ENVELOPES = {"envelope": "debezium", "flat": "debezium-flat"}
KEYS = {"articles": ["id"], "translations": ["article_id", "lang"]}
TEXTS = {"articles": ["title", "body"], "translations": ["body"]}
ATTRIBUTES = {"articles": ["tags", "published", "meta"], "translations": []}
# No event tells of these: a column that was added with a default, and a spelling of Postgres.
YEARS_BC = {"106"}


def lines_of(form: str, table: str) -> list[str]:
    """The events in the order in which they were written. Not `splitlines`: U+2028 is text."""
    return (DATA / form / f"{table}.jsonl").read_text().split("\n")[:-1]


def in_files(lines: list[str], way: str) -> list[list[str]]:
    if way == "one batch":
        return [lines]
    if way == "shuffled":
        lines = random.Random(5).sample(lines, len(lines))
    return [lines[start : start + 25] for start in range(0, len(lines), 25)]


def key_of(row: dict[str, Any], table: str) -> str:
    parts = [str(row[name]) for name in KEYS[table]]
    return parts[0] if len(parts) == 1 else json.dumps(parts, separators=(",", ":"))


def final_table(form: str, table: str) -> dict[str, dict[str, Any]]:
    """The rows of the last SELECT; the flattened form does not tell of the truncates."""
    rows = [json.loads(line) for line in lines_of("expected", table)]
    found = {key_of(row, table): row for row in rows}
    if (form, table) != ("flat", "translations"):
        return found
    kept: dict[str, dict[str, Any]] = {}
    for line in lines_of(form, table):
        row = json.loads(line)["value"]
        kept.pop(key_of(row, table), None)
        if row["__deleted"] == "false":
            kept[key_of(row, table)] = row
    assert len(kept.keys() - found.keys()) == 22
    return kept


def text_of(row: dict[str, Any], table: str) -> str:
    return "\n".join(row[name] for name in TEXTS[table] if row[name] is not None)


WAYS = ("one batch", "a few a batch", "shuffled")
# The hardest way here; all others with `make crash`.
SHORT = {("envelope", "articles", "shuffled")}
CASES = [
    pytest.param(*case, marks=() if case in SHORT else pytest.mark.long)
    for case in product(ENVELOPES, KEYS, WAYS)
]


@pytest.mark.parametrize(("form", "table", "way"), CASES)
def test_the_events_end_in_the_final_table(  # noqa: PLR0917 - fixtures and parameters
    spark: SparkSession,
    tmp_path: Path,
    settings: MakeSettings,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    table: str,
    way: str,
) -> None:
    monkeypatch.setattr(bronze_table, "FILES_PER_BATCH", 1)
    for number, lines in enumerate(in_files(lines_of(form, table), way)):
        land(tmp_path / "landing", f"{number:03d}.json", lines)
    is_told = (table, way) != ("translations", "one batch")
    chosen = settings(
        landing={"max_files_per_trigger": 1},
        changes={
            "envelope": ENVELOPES[form] if is_told else "auto",
            "key": KEYS[table],
            "version": None,
        },
        gold={"text": TEXTS[table], "attributes": ATTRIBUTES[table]},
    )
    pipeline = Pipeline(chosen, spark=spark)
    pipeline.run(once=True)
    rows = lancedb.connect(tmp_path / "home" / "index").open_table("docs").to_arrow().to_pylist()
    expected = final_table(form, table)
    assert {row["key"]: row["text"] for row in rows} == {
        key: text_of(row, table) for key, row in expected.items()
    }
    for row in rows:
        was = expected[row["key"]]
        for name in ATTRIBUTES[table]:
            if row["key"] not in YEARS_BC:
                assert as_value(row[name], name) == as_read(was[name], name)
    assert pipeline.status().index.held == 0
    assert pipeline.verify().ok


def as_value(text: str | None, name: str) -> object:
    """An attribute as a value; `meta` is JSON inside of JSON."""
    return as_read(text if text is None or name == "published" else json.loads(text), name)


def as_read(value: Any, name: str) -> object:
    is_moment = name == "published" and value not in {None, "infinity"}
    return datetime.fromisoformat(value) if is_moment else value
