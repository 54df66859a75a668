"""Changes that tell less, or more, than one record: left-out values, key changes, truncates.

Most batches have none of them, and are passed on as they are. `facts_of` tells that, in one small
job.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from freshet import schemas
from freshet.gold.missing_text import leaves_out
from freshet.gold.settling_executor import FAMILY, GIVEN, SETTLED, Settling

_SETTLED_DDL: Final = schemas.spark_ddl(SETTLED)
_IS_MOVE: Final = "old_key IS NOT NULL AND key IS NOT NULL AND old_key != key"


@dataclass(frozen=True)
class Facts:
    """What is special in some changes."""

    floor: str = ""
    """The newest truncate: everything of a lower version is deleted."""
    has_moves: bool = False
    """Whether a record changed its key."""
    gaps: frozenset[tuple[str, str | None]] = frozenset()
    """Keys of events that leave a value out which matters, each with its old key if it has one."""


def facts_of(changes: DataFrame, needed: frozenset[str] | None) -> Facts:
    """One job; what comes back is bounded by the keys whose events leave values out."""
    row = (
        changes.where("error IS NULL")
        .agg(
            F.expr("max(CASE WHEN op = 'truncate' THEN record_version END) AS floor"),
            F.expr(f"coalesce(bool_or({_IS_MOVE}), false) AS has_moves"),
            F.expr(
                f"collect_set(CASE WHEN {_is_gap(needed)} THEN struct(key, old_key) END) AS gaps"
            ),
        )
        .collect()[0]
    )
    gaps = frozenset((gap["key"], gap["old_key"]) for gap in row["gaps"])
    return Facts(row["floor"] or "", row["has_moves"], gaps)


def _is_gap(needed: frozenset[str] | None) -> str:
    is_gap = "unavailable IS NOT NULL AND key IS NOT NULL AND NOT is_deleted"
    if needed is None:
        return is_gap
    return f"{is_gap} AND {leaves_out(sorted(needed))}"


def with_moves(changes: DataFrame) -> DataFrame:
    """The changes, and a delete of the old key for each that gave a record a new one."""
    left = changes.where(f"error IS NULL AND {_IS_MOVE}")
    replaced = {"key": "old_key", "is_deleted": "true", "op": "'d'"}
    emptied = dict.fromkeys(("record", "raw", "old_key", "unavailable"), "CAST(NULL AS STRING)")
    deletes = left.selectExpr(
        *(f"{(replaced | emptied).get(name, name)} AS {name}" for name in changes.columns)
    )
    return changes.unionByName(deletes)


def above_floor(latest: DataFrame, floor: str) -> DataFrame:
    """The newest changes of their keys, without what a truncate has deleted."""
    return latest.where(F.col("record_version") >= floor) if floor else latest


def families(gaps: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Each key that leaves values out or lends them → the name of its family."""
    parent: dict[str, str] = {}

    def root(key: str) -> str:
        while parent.setdefault(key, key) != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    for key, old_key in gaps:
        parent[root(key)] = root(key if old_key is None else old_key)
    return {key: root(key) for key in parent}


def parted(changes: DataFrame, family: Mapping[str, str]) -> tuple[DataFrame, DataFrame]:
    """The changes of keys that belong to a family, with its name; and all others."""
    spark = changes.sparkSession
    members = pa.table({"key": list(family), FAMILY: list(family.values())})
    known = F.broadcast(spark.createDataFrame(members))
    usable = changes.where("error IS NULL AND key IS NOT NULL")
    return usable.join(known, "key"), changes.join(known.select("key"), "key", "left_anti")


def settle(members: DataFrame, task: Settling) -> DataFrame:
    """One row for each key of some families: what its record is. `SETTLED` are its columns."""
    tasks = members.sparkSession.sparkContext.defaultParallelism
    whole = members.select(*GIVEN.names).repartition(tasks, FAMILY).sortWithinPartitions(FAMILY)
    return whole.mapInArrow(task, _SETTLED_DDL)
