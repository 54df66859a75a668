"""A Lance table as a DataFrame: executors read its fragments at one pinned version."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from freshet import schemas
from freshet.stores.lance_tables import LanceTable


@dataclass(frozen=True)
class FragmentReader:
    """Reads the fragments whose ids it is given. Pickled to the executors."""

    uri: str
    version: int
    columns: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the fragments, batch by batch."""
        table = LanceTable.open(self.uri, version=self.version)
        for batch in batches:
            yield from table.read(self.columns, batch.column(0).to_pylist())


def to_dataframe(spark: SparkSession, table: LanceTable, columns: Sequence[str]) -> DataFrame:
    """Some columns of a table, at the version that it was opened at."""
    schema = pa.schema([table.schema.field(name) for name in columns])
    tasks = spark.sparkContext.defaultParallelism
    ids = spark.createDataFrame([(number,) for number in table.fragment_ids], "id int")
    reader = FragmentReader(table.uri, table.version, tuple(columns))
    return ids.repartition(tasks).mapInArrow(reader, schemas.spark_ddl(schema))
