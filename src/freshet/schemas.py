"""The columns of every table, written once. Stages meet here and nowhere else."""

from collections.abc import Mapping

import pyarrow as pa

UTC_TIME = pa.timestamp("us", "UTC")

LANDING = pa.schema(
    [
        ("record", pa.string()),  # the raw text of one record
        ("file", pa.string()),
        ("row", pa.int64()),  # ordinal in the file, counted from 0
        ("seq", pa.int64()),  # the file's discovery number
        ("modified_at", UTC_TIME),
        ("error", pa.string()),  # why the record could not be read; null when it could
    ]
)

FILES = pa.schema(
    [
        ("seq", pa.int64()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("modified_at", UTC_TIME),
        ("etag", pa.string()),
        ("discovered_at", UTC_TIME),
        ("how", pa.string()),
    ]
)

CHANGES = pa.schema(
    [
        ("key", pa.string()),
        ("record_version", pa.string()),
        ("is_deleted", pa.bool_()),
        ("op", pa.string()),
        ("record", pa.string()),  # JSON of the row image; null where it is the raw text itself
        ("changed_at", UTC_TIME),
        ("file", pa.string()),
        ("row", pa.int64()),
        ("seq", pa.int64()),
        ("error", pa.string()),  # why the event could not be understood; null when it could
        ("raw", pa.string()),
    ]
)

BRONZE = pa.schema([*CHANGES, ("ingested_at", UTC_TIME), ("pipeline", pa.string())])

LEDGER = pa.schema(
    [
        ("pipeline", pa.string()),
        ("sink", pa.string()),
        ("query_id", pa.string()),
        ("batch_id", pa.int64()),
        ("status", pa.string()),
        ("table_version", pa.int64()),
        ("rows_in", pa.int64()),
        ("rows_upserted", pa.int64()),
        ("rows_deleted", pa.int64()),
        ("rows_stale", pa.int64()),
        ("rows_unchanged", pa.int64()),
        ("rows_reused", pa.int64()),
        ("rows_embedded", pa.int64()),
        ("embed_s", pa.float64()),
        ("write_s", pa.float64()),
        ("commit_s", pa.float64()),
        ("total_s", pa.float64()),
        ("started_at", UTC_TIME),
        ("finished_at", UTC_TIME),
        ("error", pa.string()),
        ("offsets", pa.string()),  # digest of when the batch was planned and where it ends
        ("table_id", pa.string()),  # another table at the same place has another id
    ]
)

LEASES = pa.schema(
    [
        ("pipeline", pa.string()),
        ("sink", pa.string()),
        ("epoch", pa.int64()),  # the greatest one holds the lease
        ("owner", pa.string()),  # of two in one epoch, the greater one
        ("host", pa.string()),
        ("table_uri", pa.string()),
        ("taken_at", UTC_TIME),
    ]
)

TOMBSTONES = pa.schema(
    [("key", pa.string()), ("record_version", pa.string()), ("deleted_at", UTC_TIME)]
)

ATTRIBUTE_TYPES: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": UTC_TIME,
}

INDEX_COLUMNS = ("key", "chunk", "text", "vector", "record_version", "content_hash", "updated_at")


def index(dimension: int, attributes: Mapping[str, str]) -> pa.Schema:
    """The columns of an index: fixed ones around the attributes (name → type)."""
    return pa.schema(
        [
            pa.field("key", pa.string(), nullable=False),
            pa.field("chunk", pa.int32(), nullable=False),
            pa.field("text", pa.string()),
            pa.field("vector", pa.list_(pa.float32(), dimension)),
            *(pa.field(name, ATTRIBUTE_TYPES[kind]) for name, kind in attributes.items()),
            pa.field("record_version", pa.string(), nullable=False),
            pa.field("content_hash", pa.string()),
            pa.field("updated_at", UTC_TIME),
        ]
    )


_SPARK_TYPES: Mapping[pa.DataType, str] = {
    pa.string(): "string",
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.date32(): "date",
    UTC_TIME: "timestamp",
}


def spark_type(kind: pa.DataType) -> str:
    """Spark's name of a column type used in these tables."""
    return _SPARK_TYPES[kind]


def spark_ddl(schema: pa.Schema) -> str:
    """The schema as Spark writes it."""
    return ", ".join(f"`{field.name}` {spark_type(field.type)}" for field in schema)
