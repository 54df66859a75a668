"""The two sides of the comparison: what Gold says, and what the index holds. One row a key."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from freshet import schemas
from freshet.stores.lance_fragments_executor import to_dataframe
from freshet.stores.lance_tables import LanceTable
from freshet.verify.hashing_executor import NO_TEXT, CutAndHash, Digest, HashText, Heads, Pieces
from freshet.verify.rows_executor import KeyReader, RowReader
from freshet.verify.sampling import Sample


def expected(
    records: DataFrame,
    attributes: Sequence[str],
    pieces: Pieces,
    heads: Heads,
    vectors: Sequence[str] = (),
) -> DataFrame:
    """Gold, one row a key, with its texts cut and hashed, those of further vectors at the end."""
    alive = records.where(~F.col("is_deleted"))
    flat = alive.select(
        "key", "record_version", _json_of(attributes).alias("attributes"), "text", *vectors
    )
    return flat.mapInArrow(
        CutAndHash(pieces, heads, tuple(vectors)),
        "key string, record_version string, attributes string, pieces array<string>",
    )


def actual(
    spark: SparkSession,
    table: LanceTable,
    attributes: Mapping[str, str],
    digest: Digest,
    sample: Sample | None = None,
    *,
    vectors: Sequence[str] = (),
) -> DataFrame:
    """The index, one row a key, its pieces in order; texts are hashed anew, not believed.

    An attribute (name → type) that the index does not have yet is null in all its rows. Of keys
    that are not in the sample nothing but the key is read.
    """
    own = ["key", "chunk", "text", "record_version", "content_hash"]
    own += [schemas.hash_of(name) for name in vectors]
    there = [name for name in attributes if name in table.schema.names]
    has = [name for name in own if name in table.schema.names]
    rows = _rows(spark, table, [*has, *there], sample)
    typed = rows.select(
        *has,
        *(F.lit(None).cast("string").alias(name) for name in own if name not in has),
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
        "content_hash string, "
        + "".join(f"{schemas.hash_of(name)} string, " for name in vectors)
        + "attributes string",
    )
    pieces = F.array_sort(F.collect_list(F.struct("chunk", "text_hash")))
    return flat.groupBy("key").agg(
        F.collect_set("record_version").alias("versions"),
        F.collect_set("attributes").alias("attributes"),
        F.concat(pieces, *map(_heads, vectors)).alias("pieces"),
        F.max((F.col("text_hash") != F.col("content_hash")).cast("int")).alias("has_wrong_hash"),
        (F.count("chunk") - F.count_distinct("chunk")).alias("copies"),
    )


def _rows(
    spark: SparkSession, table: LanceTable, columns: Sequence[str], sample: Sample | None
) -> DataFrame:
    if sample is None:
        return to_dataframe(spark, table, columns)
    fragments = spark.createDataFrame([(number,) for number in table.fragment_ids], "id int")
    spread = fragments.repartition(spark.sparkContext.defaultParallelism)
    keys = spread.mapInArrow(KeyReader(table.uri, table.version), "key string, id bigint")
    schema = pa.schema([table.schema.field(name) for name in columns])
    reader = RowReader(table.uri, table.version, tuple(columns))
    return keys.where(sample.holds()).mapInArrow(reader, schemas.spark_ddl(schema))


def _heads(vector: str) -> Column:
    """The hashes of a further vector's texts, as further pieces; a record has one."""
    digest = F.coalesce(F.col(schemas.hash_of(vector)), F.lit(NO_TEXT))
    shown = F.concat(digest, F.lit(f" of {vector}")).alias("text_hash")
    return F.collect_list(F.when(F.col("chunk") == 0, F.struct("chunk", shown)))


def _json_of(attributes: Sequence[str]) -> Column:
    if not attributes:
        return F.lit("{}")
    return F.to_json(F.struct(*(_column(name) for name in attributes)))


def _column(name: str) -> Column:
    return F.col(f"`{name}`")
