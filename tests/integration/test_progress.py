"""While a batch is worked on, people see how many of its tasks are done."""

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pyarrow as pa
from pyspark.sql import SparkSession

from freshet.cli.run import RunDisplay
from freshet.pipeline.progress import stage_of

WORKING = {"isTriggerActive": True, "message": "Processing new data"}


def test_the_tasks_of_a_query_are_counted_and_not_those_of_another(spark: SparkSession) -> None:
    def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(0.4 + 0.15 * batch.column(0)[0].as_py())  # not in step
            yield batch

    def work() -> None:
        spark.sparkContext.setJobGroup("run-1", "embed batch 12")
        spark.range(0, 8, 1, 8).mapInArrow(slowly, "id long").toArrow()

    own = SimpleNamespace(name="index", runId="run-1", status=WORKING)
    other = SimpleNamespace(name="ingest", runId="run-2", status=WORKING)
    said: list[str] = []
    tick = RunDisplay(as_json=False).ticker(SimpleNamespace(update=said.append))
    working = threading.Thread(target=work)
    working.start()
    while working.is_alive():
        tick([other, own])
        time.sleep(0.1)
    shown = [line.removeprefix("ingest: processing new data · index: ") for line in said]
    counts = [int(line.split()[3]) for line in shown if line.startswith("batch 12, embedding ")]
    assert counts == sorted(counts)
    assert len(set(counts)) > 2
    assert f"batch 12, embedding {counts[-1]} of 8 tasks" in shown
    assert stage_of(own) is None  # type: ignore[arg-type]


def test_without_a_terminal_nothing_is_asked() -> None:
    RunDisplay(as_json=False).ticker(None)([SimpleNamespace()])
