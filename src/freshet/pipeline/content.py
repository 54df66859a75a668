"""What the index should hold: Gold of all of Bronze, or of some keys, as rows are made of it."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from freshet.embedding import IndexRows
from freshet.gold.settling import facts_of, families
from freshet.pipeline.settling import settled_gold
from freshet.verify import Sample

Mark = Callable[[DataFrame, str, str], DataFrame]
"""Adds a column that is true where the key in another column is wanted: `mark(rows, key, name)`."""
_OWN: Final = "__freshet_own"
_OLD: Final = "__freshet_old"
_FAMILY: Final = "__freshet_family"


@dataclass(frozen=True)
class Content:
    """How the rows of an index are made of the events in Bronze, by the schema as it is now."""

    rows: IndexRows
    needed: frozenset[str] | None
    """Fields that matter; None: all."""
    records: Callable[[DataFrame], DataFrame]
    """Changes as records."""

    def gold(self, events: DataFrame, mark: Mark | None = None) -> DataFrame:
        """Gold, one row a key, deletes left in: of all keys, or of those that are marked."""
        if mark is None:
            return self.records(settled_gold(events, self.needed))
        changes = settled_gold(self._narrowed(events, mark), self.needed)
        marked = mark(changes, "key", _OWN)
        return self.records(marked.where(f"coalesce({_OWN}, false)").drop(_OWN))

    def _narrowed(self, events: DataFrame, mark: Mark) -> DataFrame:
        """The events that Gold of the marked keys depends on, before anything heavy is done.

        These are their own, those that took their key away, those of records that lend values to
        each other, and truncates.
        """
        marked = mark(mark(events, "key", _OWN), "old_key", _OLD)
        family = self._family(events)
        if family:
            marked = listed(marked.sparkSession, family)(marked, "key", _FAMILY)
        flags = [_OWN, _OLD, *([_FAMILY] if family else [])]
        some = " OR ".join(f"coalesce({flag}, false)" for flag in flags)
        return marked.where(f"{some} OR op = 'truncate'").drop(*flags)

    def _family(self, events: DataFrame) -> Collection[str]:
        """Keys of records that lend values to each other; of most tools there are none."""
        return families(facts_of(events, self.needed).gaps) if self.rows.keeps_images else ()


def sampled(sample: Sample) -> Mark:
    """Marks the keys of a sample."""
    return lambda rows, column, flag: rows.withColumn(flag, sample.holds(column))


def listed(spark: SparkSession, keys: Collection[str]) -> Mark:
    """Marks some keys, which are sent to all executors."""
    known = spark.createDataFrame(pa.table({"key": pa.array(sorted(keys), pa.string())}))

    def mark(rows: DataFrame, column: str, flag: str) -> DataFrame:
        names = rows.columns
        wanted = known.select(F.col("key").alias(flag))
        joined = rows.join(F.broadcast(wanted), F.col(column) == F.col(flag), "left")
        return joined.select(*names, F.col(flag).isNotNull().alias(flag))

    return mark
