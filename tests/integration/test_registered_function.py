"""A function of LanceDB's registry makes the vectors of a pipeline, on Spark's workers."""

import json
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

import registered_function
from freshet import Pipeline, Settings


def test_a_function_of_ones_own_fills_the_index(
    spark: SparkSession, tmp_path: Path, settings: Callable[..., Settings]
) -> None:
    # Workers must be able to import what registers it.
    spark.sparkContext.addPyFile(registered_function.__file__)
    told = {"provider": "lancedb", "function": "words-of-tests", "window_tokens": 64}
    pipeline = Pipeline(
        settings(embedding=told | {"imports": ["registered_function"]}), spark=spark
    )
    titles = ["a river", "a mill", f"an {registered_function.POISON} weir"]
    rows = [
        {"id": f"k{place}", "record_version": 1, "title": title}
        for place, title in enumerate(titles)
    ]
    (tmp_path / "landing" / "a.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pipeline.run(once=True)
    assert pipeline.ledger()[-1]["rows_embedded"] == 2
    assert [one.key for one in pipeline.refused()] == ["k2"]
    assert pipeline.search("a river", k=1)[0].key == "k0"
    assert pipeline.verify().ok
