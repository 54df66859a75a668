"""A model behind HTTP: whatever its server does, records are embedded once or the run says so."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from embedding_server import EmbeddingServer, serving
from freshet import Pipeline, Settings
from freshet.errors import StreamFailedError

MakeSettings = Callable[..., Settings]
RECORDS = 400


def land(folder: Path, name: str, versions: dict[str, int]) -> None:
    (folder / "landing").mkdir(exist_ok=True)
    rows = (
        {"id": key, "record_version": version, "title": f"on {key}", "body": f"version {version}"}
        for key, version in versions.items()
    )
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "landing" / name).write_text(text)


def pipeline_with(
    server: EmbeddingServer, spark: SparkSession, settings: MakeSettings, **more: Any
) -> Pipeline:
    told = server.settings | {"timeout": "1 second", "batch_tokens": 256} | more
    return Pipeline(settings(embedding=told), spark=spark)


def embedded_by(pipeline: Pipeline) -> int:
    return sum(batch["rows_embedded"] for batch in pipeline.ledger())


@pytest.mark.long
def test_troubles_of_the_server_cost_time_and_nothing_else(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    land(tmp_path, "a.json", {f"k{number}": 1 for number in range(RECORDS)})
    with serving() as server:
        chooser = random.Random(3)
        troubles = ["429", "500", "503", "drop", "drop", "hang"] * 2
        server.troubles = chooser.sample(troubles, len(troubles))
        pipeline = pipeline_with(server, spark, settings, retries=12)
        pipeline.run(once=True)
        assert not server.troubles
        assert len(set(server.answered)) == RECORDS
        assert embedded_by(pipeline) == RECORDS
        verdict = pipeline.verify()
    assert verdict.ok
    assert verdict.index == RECORDS


def test_a_dead_server_stops_the_run_and_nothing_is_lost(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    land(tmp_path, "a.json", {f"k{number}": 1 for number in range(RECORDS)})
    with serving() as server:
        pipeline = pipeline_with(server, spark, settings, retries=1)
        pipeline.run(once=True)
        port = server.server_address[1]
    land(tmp_path, "b.json", {f"k{number}": 2 for number in range(10, 30)})
    with pytest.raises(StreamFailedError, match="does not answer"):
        pipeline.run(once=True)
    assert embedded_by(pipeline) == RECORDS
    with serving(port) as server:
        again = pipeline_with(server, spark, settings, retries=1)
        again.run(once=True)
        assert sorted(server.answered) == sorted(f"on k{n}\nversion 2" for n in range(10, 30))
        assert embedded_by(again) == RECORDS + 20
        assert again.verify().ok
