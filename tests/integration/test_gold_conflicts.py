"""Two drivers that write Gold at once, as when one was killed and its Spark lives on."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from freshet import schemas
from freshet.gold.table import GoldTable
from freshet.stores.delta_tables import scan

ROUNDS, KEYS = 3, 50


def records(spark: SparkSession, version: int) -> DataFrame:
    """The same keys, in a version."""
    rows = [(f"k{number}", f"P{version:03d}", False) for number in range(KEYS)]
    told = spark.createDataFrame(rows, "key string, record_version string, is_deleted boolean")
    others = [name for name in schemas.GOLD.names if name not in told.columns]
    return told.selectExpr("*", *(f"CAST(NULL AS {_type(name)}) AS {name}" for name in others))


def _type(name: str) -> str:
    return "timestamp" if name.endswith("_at") else "string"


def test_a_merge_that_met_another_one_is_done_again(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "gold")
    first, second = (GoldTable(uri, definition="d") for _ in range(2))
    first.fill(records(spark, 1))
    with ThreadPoolExecutor(2) as both:
        for number in range(ROUNDS):
            older, newer = records(spark, 2 * number + 2), records(spark, 2 * number + 3)
            # Each has a session of its own, as every query has.
            sessions = (spark.newSession(), spark.newSession())
            writing = [
                both.submit(table.merge, session.createDataFrame(rows.collect(), rows.schema))
                for table, session, rows in zip(
                    (first, second), sessions, (older, newer), strict=True
                )
            ]
            for one in writing:
                one.result()
            found = {
                row["key"]: row["record_version"]
                for batch in scan(uri, ["key", "record_version"])
                for row in batch.to_pylist()
            }
            assert found == {f"k{key}": f"P{2 * number + 3:03d}" for key in range(KEYS)}
