"""Gold as a table: the latest version of every record, whole, for those who want to read it.

Guarantee: a row never changes to an older version of its record, so a batch that is written again,
late or by two drivers changes nothing that a newer one has written. It is written before the
batch's commit to the index: a crash between leaves Gold one batch ahead, until the batch is run
again. Rows of deleted keys stay, empty and marked, for as long as tombstones are kept.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from freshet import schemas, variants
from freshet.clock import utc_now
from freshet.events import emit, warn
from freshet.ordering import latest
from freshet.stores import delta_tables
from freshet.stores.delta_conflicts import SPARK_ERRORS, came_first

COLUMNS: Final = frozenset(schemas.GOLD.names)
"""The table's own columns; an attribute of such a name is in `record` only."""

_DEFINITION: Final = "freshet.gold"
"""The property of the table that says what its rows are made of."""
_PROPERTIES: Final = {
    # A batch then costs what it changes, and not the files that it touches.
    "delta.enableDeletionVectors": "true",
    "delta.autoOptimize.autoCompact": "true",
}
_FEED: Final = "delta.enableChangeDataFeed"
"""The property by which Delta writes down what every commit changed, for the sinks."""
_KEPT_OF_DELETED: Final = frozenset(
    ("key", "record_version", "is_deleted", "changed_at", "updated_at")
)
_UPKEEP_EVERY: Final = 64
_MOST_TRIES: Final = 5
_VIEW: Final = "freshet_gold_changes"


class GoldTable:
    """The Delta table of one pipeline's Gold. Memory on the driver is of constant size."""

    def __init__(
        self,
        uri: str,
        *,
        definition: str,
        retention: timedelta | None = None,
        has_feed: bool = False,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.uri = uri
        self._properties = _PROPERTIES | ({_FEED: "true"} if has_feed else {})
        self._name = f"delta.`{uri.replace('`', '``')}`"
        self._definition = definition
        self._retention = retention
        self._clock = clock
        self._commits = 0

    def fits(self, spark: SparkSession) -> bool:
        """Whether the table is there, and its rows are made of what they are to be made of."""
        if not delta_tables.exists(self.uri):
            return False
        [detail] = spark.sql(f"DESCRIBE DETAIL {self._name}").collect()
        self._commits = self._version(spark)
        if _FEED in self._properties and detail["properties"].get(_FEED) != "true":
            spark.sql(f"ALTER TABLE {self._name} SET TBLPROPERTIES ('{_FEED}' = 'true')")
        return bool(detail["properties"].get(_DEFINITION) == self._definition)

    def fill(self, records: DataFrame) -> None:
        """Makes the table of all records, one row a key, in one commit; deleted ones marked."""
        emit("gold", "table_filling", table=self.uri)
        writer = self._rows(records).writeTo(self._name).using("delta")
        for name, value in (self._properties | {_DEFINITION: self._definition}).items():
            writer = writer.tableProperty(name, value)
        writer.createOrReplace()

    def merge(self, records: DataFrame, *, floor: str = "", truncates: bool = False) -> None:
        """Writes the newest of some records where it is news, and none from below the floor.

        With `truncates`, the floor is new: all rows below it are deleted.
        """
        spark = records.sparkSession
        above = records.where(F.col("record_version") >= floor) if floor else records
        rows = self._rows(latest(above))
        self._again(lambda: self._fit(spark, dict(rows.dtypes)))
        if truncates:
            self._again(lambda: self._delete_below(spark, floor))
        rows.createOrReplaceTempView(_VIEW)
        try:
            self._again(lambda: spark.sql(self._merging(rows.columns)).collect())
        finally:
            spark.catalog.dropTempView(_VIEW)
        self._commits += 1
        if self._commits % _UPKEEP_EVERY == 0:
            self._again(lambda: self._keep_up(spark))

    def differences(self, records: DataFrame) -> int:
        """Keys whose row is another than these records say, one a key; deleted ones left out."""
        spark = records.sparkSession
        names = [name for name in self._rows(records).columns if name != "updated_at"]
        wanted = self._rows(records).where(~F.col("is_deleted")).select(*map(_quoted, names))
        alive = spark.read.format("delta").load(self.uri).where(~F.col("is_deleted"))
        have = alive.select(*map(_quoted, names))
        other = wanted.exceptAll(have).union(have.exceptAll(wanted))
        return other.select("key").distinct().count()

    # --- steps -----------------------------------------------------------------------------------

    def _again(self, step: Callable[[], object]) -> None:
        """Takes a step, and once more where a commit came first, as by a driver that was killed.

        Its Spark may live for seconds longer, and go on with the merge that it was at. Every step
        looks at the table as it is, so it may be taken again.
        """
        for tries_left in range(_MOST_TRIES - 1, -1, -1):
            try:
                step()
            except SPARK_ERRORS as error:
                if not tries_left or not came_first(error):
                    raise
                warn("gold", "commit_came_first", table=self.uri, tries_left=tries_left)
            else:
                return

    def _rows(self, records: DataFrame) -> DataFrame:
        """The records as the table has them; nothing but its end is kept of a deleted one."""
        own = schemas.GOLD.names
        others = [name for name in records.columns if name not in COLUMNS]
        now = records.withColumn("updated_at", F.lit(self._clock()))
        return now.selectExpr(
            *(
                name
                if name in _KEPT_OF_DELETED
                else f"CASE WHEN NOT is_deleted THEN {_quoted(name)} END AS {_quoted(name)}"
                for name in (*own, *others)
            )
        )

    def _merging(self, columns: list[str]) -> str:
        names = [_quoted(name) for name in columns]
        told = (name for name in names if name != _quoted("updated_at"))
        is_same = " AND ".join(f"source.{name} <=> target.{name}" for name in told)
        # Of the same version, columns may have come that the table was filled without.
        is_news = (
            "source.record_version > target.record_version OR (source.record_version = "
            "target.record_version AND (source.is_deleted OR NOT target.is_deleted) "
            f"AND NOT ({is_same}))"
        )
        return (
            f"MERGE INTO {self._name} AS target USING {_VIEW} AS source "
            f"ON target.key = source.key WHEN MATCHED AND ({is_news}) "
            f"THEN UPDATE SET {', '.join(f'{name} = source.{name}' for name in names)} "
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) "
            f"VALUES ({', '.join(f'source.{name}' for name in names)})"
        )

    def _delete_below(self, spark: SparkSession, floor: str) -> None:
        """What a truncate deletes; done again, it finds nothing."""
        have = spark.read.format("delta").load(self.uri).columns
        values: dict[str, str] = {
            "is_deleted": "true",
            "record_version": variants.literal(floor),
            "updated_at": _moment(self._clock()),
        }
        values |= {name: "NULL" for name in have if name not in _KEPT_OF_DELETED}
        settings = ", ".join(f"{_quoted(name)} = {value}" for name, value in values.items())
        spark.sql(
            f"UPDATE {self._name} SET {settings} "
            f"WHERE record_version < {variants.literal(floor)} AND NOT is_deleted"
        )

    def _fit(self, spark: SparkSession, wanted: Mapping[str, str]) -> None:
        """Columns that come are added; one that leaves or widens has the table rewritten."""
        table = spark.read.format("delta").load(self.uri)
        have = dict(table.dtypes)
        kept = {name: kind for name, kind in wanted.items() if name in have}
        if any(wanted.get(name) != kind for name, kind in have.items()):
            emit("gold", "table_rewriting", table=self.uri)
            cast = (f"CAST({_quoted(n)} AS {kind}) AS {_quoted(n)}" for n, kind in kept.items())
            writer = table.selectExpr(*cast).write.format("delta").mode("overwrite")
            writer.option("overwriteSchema", "true").save(self.uri)
        if len(kept) < len(wanted):
            new = (f"{_quoted(n)} {kind}" for n, kind in wanted.items() if n not in have)
            spark.sql(f"ALTER TABLE {self._name} ADD COLUMNS ({', '.join(new)})")

    def _keep_up(self, spark: SparkSession) -> None:
        """Rows of keys that were deleted long ago leave, and so do files of old versions."""
        if self._retention is not None:
            then = _moment(self._clock() - self._retention)
            spark.sql(f"DELETE FROM {self._name} WHERE is_deleted AND updated_at < {then}")
        spark.sql(f"VACUUM {self._name} LITE")

    def _version(self, spark: SparkSession) -> int:
        [newest] = spark.sql(f"DESCRIBE HISTORY {self._name} LIMIT 1").collect()
        return int(newest["version"])


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _moment(at: datetime) -> str:
    return f"timestamp '{at.astimezone(UTC).strftime('%Y-%m-%d %H:%M:%S.%fZ')}'"
