"""What a keyed batch does to a Delta table, by Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from freshet import schemas
from freshet.errors import SchemaMismatchError
from freshet.ordering import latest
from freshet.sink.named_columns import check_told_apart
from freshet.stores import delta_tables
from freshet.stores.delta_tables import SmallTable

_ROWS: Final = "__freshet_rows"
_VERSIONS: Final = "__freshet_versions"
_MOST_VALUES: Final = 100
_FORGET_EVERY: Final = 100


@dataclass(frozen=True)
class Extent:
    """What one look at the events of a batch tells."""

    rows: int
    deletes: int
    """Of keys; of several events of one, the newest counts."""
    least: Any
    """Of the keys, as is the greatest; None if there are none."""
    greatest: Any
    texts: tuple[str, str]
    """The same two of the keys as texts, by which tombstones are known."""
    values: Mapping[str, Sequence[str]]
    """Of each column to prune by that is never null, all values."""


@dataclass(frozen=True)
class Merge:
    """How the newest events of a batch get into a table."""

    DELETED: ClassVar[str] = "__freshet_deleted"
    VERSION: ClassVar[str] = "__freshet_version"

    uri: str
    key: str
    version: str | None
    columns: tuple[str, ...]
    is_pruned: bool = True
    """Whether files that cannot have a key of the batch are left alone."""
    prune_by: tuple[str, ...] = ()
    """Columns that never change for a key, by which further files are left alone."""
    retention: timedelta | None = None
    tombstones: SmallTable = field(init=False)

    def __post_init__(self) -> None:
        """The side table of deleted keys; made with the first of them."""
        uri = f"{self.uri.rstrip('/')}_tombstones"
        object.__setattr__(self, "tombstones", SmallTable(uri, schemas.TOMBSTONES))

    @property
    def table(self) -> str:
        """The table, as SQL names it."""
        return named(self.uri)

    def newest(self, events: DataFrame) -> DataFrame:
        """One event a key, with what must be known of those that it beats."""
        of_key = Window.partitionBy(self._key)
        told = {_ROWS: F.count(F.lit(1)).over(of_key)}
        told[_VERSIONS] = F.count(F.col(self.VERSION)).over(of_key)
        return latest(
            events.withColumns(told), key=self.key, version=self.VERSION, deleted=self.DELETED
        )

    def extent(self, newest: DataFrame) -> Extent:
        """All that is asked of the events before they are merged, by one job."""
        text = self._key.cast("string")
        asked = [F.coalesce(F.sum(one), F.lit(0)) for one in (_ROWS, _VERSIONS)]
        asked += [F.sum(F.when(self._key.isNotNull(), F.col(_ROWS))), F.count(self._key)]
        asked += [F.count_if(F.col(self.DELETED)), F.min(self._key), F.max(self._key)]
        asked += [F.min(text), F.max(text)]
        for column in self.prune_by if self.is_pruned else ():
            value = F.col(quoted(column))
            asked += [F.collect_set(value.cast("string")), F.count_if(value.isNull())]
        (rows, versions, with_key, keys, *found) = newest.agg(*asked).collect()[0]
        filled = {self.key: with_key or 0, self.version or self.key: versions}
        check_told_apart(rows, filled, self.key, keys, self.version)
        (deletes, least, greatest, first, last, *found) = found
        values = zip(self.prune_by, found[::2], found[1::2], strict=False)
        told = {column: sorted(texts) for column, texts, nulls in values if not nulls}
        return Extent(rows, deletes, least, greatest, (first, last), told)

    def bury(self, newest: DataFrame, extent: Extent, at: datetime, number: int) -> None:
        """Deleted keys and their versions are written down before their rows leave."""
        if self.version is None:
            return
        if extent.deletes:
            gone = newest.where(self.DELETED).select(
                self._key.cast("string").alias("key"), F.col(self.VERSION).alias("record_version")
            )
            rows = [row.asDict() | {"deleted_at": at} for row in gone.toLocalIterator()]
            self.tombstones.append(rows)
        if self.retention is not None and number % _FORGET_EVERY == 0:
            self._forget(newest.sparkSession, at - self.retention)

    def run(self, newest: DataFrame, extent: Extent) -> None:
        """One MERGE: deletes, updates and inserts, each by its version."""
        source, view = self._alive(newest, extent), f"freshet_{uuid4().hex}"
        source.createOrReplaceTempView(view)
        version = f"s.{quoted(self.VERSION)}"
        held = f"t.{quoted(self.version)}" if self.version else ""
        newer, not_older = (f"{version} {sign} {held}" if held else "true" for sign in (">", ">="))
        chosen = [quoted(name) for name in self.columns]
        changes = ", ".join(f"t.{name} = s.{name}" for name in chosen)
        gone = f"s.{quoted(self.DELETED)}"
        try:
            newest.sparkSession.sql(
                f"MERGE INTO {self.table} t USING {view} s ON {self._condition(extent)} "
                f"WHEN MATCHED AND {gone} AND {not_older} THEN DELETE "
                f"WHEN MATCHED AND NOT {gone} AND {newer} THEN UPDATE SET {changes} "
                f"WHEN NOT MATCHED AND NOT {gone} THEN INSERT ({', '.join(chosen)}) "
                f"VALUES ({', '.join(f's.{name}' for name in chosen)})"
            )
        finally:
            newest.sparkSession.catalog.dropTempView(view)

    @property
    def _key(self) -> Column:
        return F.col(quoted(self.key))

    def _alive(self, newest: DataFrame, extent: Extent) -> DataFrame:
        """Without the events that a tombstone beats; a delete that equals its own counts."""
        if self.version is None or not delta_tables.exists(self.tombstones.uri):
            return newest
        stored = newest.sparkSession.read.format("delta").load(self.tombstones.uri)
        buried = stored.where(F.col("key").between(*map(F.lit, extent.texts))).select(
            F.col("key").alias("__buried_key"), F.col("record_version").alias("__buried_at")
        )
        version, then = F.col(self.VERSION), F.col("__buried_at")
        is_beaten = (version < then) | ((version == then) & ~F.col(self.DELETED))
        is_same = self._key.cast("string") == F.col("__buried_key")
        return newest.join(buried, is_same & is_beaten, "left_anti")

    def _condition(self, extent: Extent) -> str:
        """Same key; and, for Delta to leave files alone, where such keys can be at all."""
        key = f"t.{quoted(self.key)}"
        conditions = [f"{key} = s.{quoted(self.key)}"]
        if self.is_pruned and extent.least is not None:
            least, greatest = literal(extent.least), literal(extent.greatest)
            conditions.append(f"{key} >= {least} AND {key} <= {greatest}")
        for column, values in extent.values.items():
            if 0 < len(values) <= _MOST_VALUES:
                among = ", ".join(map(literal, values))
                conditions.append(f"CAST(t.{quoted(column)} AS STRING) IN ({among})")
        return " AND ".join(conditions)

    def _forget(self, spark: SparkSession, before: datetime) -> None:
        if delta_tables.exists(self.tombstones.uri):
            then = f"TIMESTAMP {literal(before.isoformat())}"
            spark.sql(f"DELETE FROM {named(self.tombstones.uri)} WHERE deleted_at < {then}")


def fit(uri: str, rows: DataFrame, partition_by: tuple[str, ...]) -> None:
    """A table with at least the columns of the rows: made if absent, widened if it lacks some."""
    spark = rows.sparkSession
    if not delta_tables.exists(uri):
        writer = rows.limit(0).write.format("delta").mode("ignore")
        (writer.partitionBy(*partition_by) if partition_by else writer).save(uri)
        return
    have = {one.name: one.dataType for one in spark.read.format("delta").load(uri).schema}
    wanted: StructType = rows.schema
    others = [
        f"column {one.name} is {have[one.name].simpleString()} there, and "
        f"{one.dataType.simpleString()} here"
        for one in wanted
        if one.name in have and have[one.name].simpleString() != one.dataType.simpleString()
    ]
    if others:
        raise SchemaMismatchError(table=uri, problems=others)
    lacking = [one for one in wanted if one.name not in have]
    if lacking:
        told = ", ".join(f"{quoted(one.name)} {one.dataType.simpleString()}" for one in lacking)
        spark.sql(f"ALTER TABLE {named(uri)} ADD COLUMNS ({told})")


def named(uri: str) -> str:
    """A Delta table at a place, as SQL names it."""
    return f"delta.{quoted(uri)}"


def quoted(name: str) -> str:
    """A name, quoted."""
    return "`" + name.replace("`", "``") + "`"


def literal(value: Any) -> str:
    """A number or a text as SQL has it."""
    if isinstance(value, int):
        return str(value)
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
