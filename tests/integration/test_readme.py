"""The code in the README runs as it stands there."""

import json
import re
from pathlib import Path

import lancedb
import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent.parent


def test_the_parts_work_alone_as_the_readme_shows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    event = {"op": "c", "before": None, "after": {"id": 7, "t": "x"}, "source": {"lsn": 1}}
    (tmp_path / "in" / "a.json").write_text(f"{json.dumps(event)}\nnull\n")
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    # Spark's working folder is not the test's, so the README's relative paths are made absolute.
    here = re.sub(r'"(in|out/|state/)', rf'"{tmp_path}/\1', code)
    exec(compile(here, "README.md", "exec"), {"spark": spark})  # noqa: S102 - our own words
    [query] = spark.streams.active
    query.processAllAvailable()
    query.stop()
    rows = lancedb.connect(tmp_path / "out").open_table("mine").to_arrow().to_pylist()
    assert [(row["key"], json.loads(row["record"])) for row in rows] == [("7", {"id": 7, "t": "x"})]
