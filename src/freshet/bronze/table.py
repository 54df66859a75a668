"""The Bronze table: written by the ingest query, read by the index query.

Guarantee: every record of a landing batch is appended exactly once, also when the batch is run
again (Delta's streaming sink keeps the query's id and batch number in the same commit as the rows).
A crash may leave data files that no commit names; readers never see them.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from freshet import schemas
from freshet.stores import delta_facts, delta_tables

# A batch is admitted by files, so files are a fraction of the largest batch.
FILES_PER_BATCH: Final = 8


@dataclass(frozen=True)
class Counts:
    """What Bronze holds."""

    rows: int
    errors: int


def create(uri: str) -> None:
    """Makes the table if it is not there; one of an earlier release gets the columns it lacks."""
    delta_tables.create(uri, schemas.BRONZE)
    delta_tables.add_missing_columns(uri, schemas.BRONZE)


def count(uri: str) -> Counts:
    """Rows and quarantined rows, read from the table's log alone."""
    if not delta_tables.exists(uri):
        return Counts(0, 0)
    rows, without_error = delta_tables.rows_and_nulls(uri, "error", "Bronze table")
    return Counts(rows, rows - without_error)


def envelopes(uri: str) -> tuple[str, ...]:
    """As what the events were understood, from the log alone: two of each data file are told."""
    return tuple(sorted(delta_facts.bounds(uri, "envelope")))


def rows_to_append(changes: DataFrame, pipeline: str) -> DataFrame:
    """Changes as Bronze keeps them."""
    return changes.select(
        *schemas.CHANGES.names,
        _now().alias("ingested_at"),
        F.lit(pipeline).alias("pipeline"),
    )


def _now() -> Column:
    """The time of the batch, kept out of the code that Spark makes of the query.

    With the time in it every batch would have code of its own, which the JVM would compile anew and
    never make fast. Of a function on lists Spark makes no code.
    """
    return F.get(F.transform(F.array(F.col("seq")), lambda _: F.current_timestamp()), F.lit(0))


def write_stream(rows: DataFrame, *, checkpoint: str, max_rows_per_batch: int) -> DataStreamWriter:
    """A writer for the ingest query; its files are bounded in rows, so that batches can be."""
    return (
        rows.writeStream.format("delta")
        .outputMode("append")
        .option("checkpointLocation", checkpoint)
        .option("maxRecordsPerFile", max_rows_per_batch // FILES_PER_BATCH)
    )


def read_stream(spark: SparkSession, uri: str) -> DataFrame:
    """The events as a stream, in batches bounded by `write_stream`'s rows a batch."""
    return spark.readStream.format("delta").option("maxFilesPerTrigger", FILES_PER_BATCH).load(uri)
