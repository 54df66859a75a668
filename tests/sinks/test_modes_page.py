"""The page of output modes says what `modes.py` says, and names a test of every pair."""

import importlib
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from freshet.sink.modes import PAIRS, Allowed, Kind, Pair, Refused
from freshet.sink.target import Mode

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs/modes.md"


class Cell(NamedTuple):
    """What the page says of a pair."""

    says: str
    file: str
    test: str


def cells() -> dict[tuple[str, str], Cell]:
    row = r"^\| `(\w+)` \| `(\w+)` \| (.+) \| `(tests/[\w/]+\.py)::(\w+)` \|$"
    found = re.findall(row, PAGE.read_text(), re.MULTILINE)
    assert len(found) == len({one[:2] for one in found}), "a pair is there twice"
    return {(kind, mode): Cell(*told) for kind, mode, *told in found}


def test_every_pair_stands_on_the_page_with_its_own_words() -> None:
    said = {pair: cell.says for pair, cell in cells().items()}
    assert said == {
        pair: found.guarantee if isinstance(found, Allowed) else f"No: {found.sentence}."
        for pair, found in PAIRS.items()
    }


def test_no_pair_is_left_open() -> None:
    assert set(PAIRS) == {(kind, mode) for kind in Kind for mode in Mode}


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_every_pair_names_a_test_that_runs_it(pair: Pair) -> None:
    cell = cells()[pair]
    assert (ROOT / cell.file).parent == Path(__file__).parent
    test = getattr(importlib.import_module(Path(cell.file).stem), cell.test)
    [mark] = [one for one in test.pytestmark if one.name == "parametrize"]
    assert runs(cell.test, mark.args, pair)


def runs(test: str, parameters: tuple[Any, Any], pair: Pair) -> bool:
    """Whether a test with these parameters is run for the pair."""
    names, values = parameters
    if names == ("kind", "mode"):
        return pair in values
    shown = pair[0].replace("_", " ").split()
    return names == "mode" and set(shown) <= set(test.split("_")) and pair[1] in values


def test_an_impossible_pair_says_what_to_use() -> None:
    refused = [found for found in PAIRS.values() if isinstance(found, Refused)]
    assert refused
    for found in refused:
        assert re.search(r"\b(LanceSink|DeltaSink|PostgresSink)\b", found.instead), found
        assert "|" not in found.sentence


def queries(spark: SparkSession, folder: Path) -> list[DataFrame]:
    """One for each row of the page's first table."""
    clicks = spark.readStream.schema("user string, at timestamp").json(str(folder))
    known = spark.createDataFrame([("ann", 1)], "user string, level int")
    timed = clicks.withWatermark("at", "1 minute")
    return [
        clicks.where("user IS NOT NULL").join(known, "user"),
        timed.groupBy(F.window("at", "1 hour")).count(),
        clicks.groupBy("user").count(),
        timed.groupBy(F.session_window("at", "1 hour"), "user").count(),
    ]


def test_a_query_takes_the_modes_that_the_page_says(spark: SparkSession, tmp_path: Path) -> None:
    [table] = re.findall(r"^\| your query .*\n\|[-|]+\n((?:\|.*\n)+)", PAGE.read_text(), re.M)
    said = [re.findall(r"\| (yes|no)\b", line) for line in table.splitlines()]
    found = [
        ["yes" if starts(rows, mode) else "no" for mode in ("append", "update", "complete")]
        for rows in queries(spark, tmp_path)
    ]
    assert found == said


def starts(rows: DataFrame, mode: str) -> bool:
    """Whether Spark starts a query in a mode."""
    try:
        rows.writeStream.format("console").outputMode(mode).start().stop()
    except AnalysisException:
        return False
    return True


def test_the_page_of_the_sinks_links_to_it() -> None:
    assert "](modes.md)" in (ROOT / "docs/sinks.md").read_text()
