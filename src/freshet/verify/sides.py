"""The two sides of the comparison: what Gold says, and what the index holds. One row a key."""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from freshet import schemas
from freshet.stores.lance_fragments_executor import to_dataframe
from freshet.stores.lance_tables import LanceTable
from freshet.verify.hashing_executor import CutAndHash, Digest, HashText, Pieces


def expected(records: DataFrame, attributes: Sequence[str], pieces: Pieces) -> DataFrame:
    """Gold, one row a key, with its texts cut and hashed."""
    alive = records.where(~F.col("is_deleted"))
    flat = alive.select("key", "record_version", _json_of(attributes).alias("attributes"), "text")
    return flat.mapInArrow(
        CutAndHash(pieces),
        "key string, record_version string, attributes string, pieces array<string>",
    )


def actual(
    spark: SparkSession, table: LanceTable, attributes: Mapping[str, str], digest: Digest
) -> DataFrame:
    """The index, one row a key, its pieces in order; texts are hashed anew, not believed.

    An attribute (name → type) that the index does not have yet is null in all its rows.
    """
    own = ["key", "chunk", "text", "record_version", "content_hash"]
    there = [name for name in attributes if name in table.schema.names]
    rows = to_dataframe(spark, table, [*own, *there])
    typed = rows.select(
        *own,
        *(
            (_column(name) if name in there else F.lit(None))
            .cast(schemas.spark_type(schemas.ATTRIBUTE_TYPES[kind]))
            .alias(name)
            for name, kind in attributes.items()
        ),
    )
    flat = typed.select(*own, _json_of(tuple(attributes)).alias("attributes")).mapInArrow(
        HashText(digest),
        "key string, chunk int, text_hash string, record_version string, "
        "content_hash string, attributes string",
    )
    return flat.groupBy("key").agg(
        F.collect_set("record_version").alias("versions"),
        F.collect_set("attributes").alias("attributes"),
        F.array_sort(F.collect_list(F.struct("chunk", "text_hash"))).alias("pieces"),
        F.max((F.col("text_hash") != F.col("content_hash")).cast("int")).alias("has_wrong_hash"),
        (F.count("chunk") - F.count_distinct("chunk")).alias("copies"),
    )


def _json_of(attributes: Sequence[str]) -> Column:
    if not attributes:
        return F.lit("{}")
    return F.to_json(F.struct(*(_column(name) for name in attributes)))


def _column(name: str) -> Column:
    return F.col(f"`{name}`")
