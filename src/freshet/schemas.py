"""The columns of every table, written once. Stages meet here and nowhere else."""

from collections.abc import Iterable, Mapping

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
        ("reading", pa.int64()),  # 0, or how often the file had been read before
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
        ("how", pa.string()),  # listing, event, existing (not to be read), retry, bronze (rebuilt)
        ("retry_of", pa.int64()),  # the number that the file had when it was first read
        ("reading", pa.int64()),  # 0, or the number of the retry
    ]
)

FILE_READ = "read"
"""`what` of a step of the history: a committed batch has read these files."""

FILES_HISTORY = pa.schema(
    [
        ("what", pa.string()),  # read, archived or deleted
        ("first_seq", pa.int64()),
        ("end_seq", pa.int64()),  # the first file that it is not true of
        ("batch", pa.int64()),
        ("at", UTC_TIME),
        ("place", pa.string()),  # where archived files lie
    ]
)

FILES_RETRIES = pa.schema([("seq", pa.int64()), ("path", pa.string()), ("requested_at", UTC_TIME)])

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
        ("envelope", pa.string()),  # as what it was understood
        ("old_key", pa.string()),  # what the record was called before this event gave it its key
        ("unavailable", pa.string()),  # fields whose values the tool left out, as a JSON array
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
        ("offsets", pa.string()),  # when the batch was planned and where it ends
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

LOCK = pa.schema(
    [
        ("owner", pa.string()),
        ("purpose", pa.string()),
        ("host", pa.string()),
        ("process", pa.int64()),
        ("until", UTC_TIME),  # unless it is renewed
    ]
)

OPTIMIZER = pa.schema(
    [
        ("pipeline", pa.string()),
        ("run_id", pa.string()),
        ("action", pa.string()),
        ("target", pa.string()),
        ("reasons", pa.string()),
        ("status", pa.string()),  # done, lost (a writer was faster) or failed
        ("rows", pa.int64()),  # that it read
        ("seconds", pa.float64()),
        ("memory_bytes", pa.int64()),  # the most above what the process had before
        ("version_before", pa.int64()),
        ("fragments_before", pa.int64()),
        ("bytes_before", pa.int64()),
        ("error", pa.string()),
        ("started_at", UTC_TIME),
        ("finished_at", UTC_TIME),
    ]
)

HEALTH = pa.schema(
    [
        ("pipeline", pa.string()),
        ("at", UTC_TIME),
        ("version", pa.int64()),
        ("rows", pa.int64()),
        ("deleted_rows", pa.int64()),  # that still take room in the data files
        ("fragments", pa.int64()),
        ("unindexed_rows", pa.int64()),  # that a vector search compares one by one
        ("index_parts", pa.int64()),
        ("versions", pa.int64()),
        ("bytes", pa.int64()),
        ("manifest_bytes", pa.int64()),
        ("query_p50_ms", pa.float64()),  # null between probes, as all that follows
        ("query_p95_ms", pa.float64()),
        ("query_p99_ms", pa.float64()),
        ("recall", pa.float64()),
    ]
)

SCHEMA_HISTORY = pa.schema(
    [
        ("version", pa.int64()),  # of the schema; what changed together shares one
        ("place", pa.int64()),  # number of the entry
        ("at", UTC_TIME),
        ("what", pa.string()),
        ("column", pa.string()),  # a path, such as `address.zip` or `tags[]`
        ("from_type", pa.string()),  # null if the column was not there
        ("to_type", pa.string()),  # null if the column leaves
        ("file", pa.string()),  # that first had it in this batch
        ("seq", pa.int64()),  # the file's discovery number
        ("row", pa.int64()),
        ("last_seq", pa.int64()),  # the last file of the batch that had it, or that a rollback saw
        ("batch_id", pa.int64()),
        ("records", pa.int64()),  # of the batch
        ("example", pa.string()),  # a value, as JSON
    ]
)

TOMBSTONES = pa.schema(
    [("key", pa.string()), ("record_version", pa.string()), ("deleted_at", UTC_TIME)]
)

WATCHED = pa.schema(
    [
        ("key", pa.string()),  # an event of this key …
        ("dependent", pa.string()),  # … may tell something of this record
        ("reason", pa.string()),  # held: it waits for a value; lent: it has one of the key's
        ("since", UTC_TIME),
    ]
)

GOLD = pa.schema(
    [
        ("key", pa.string()),
        ("record_version", pa.string()),
        ("is_deleted", pa.bool_()),
        ("record", pa.string()),  # JSON of the row image; null, as all that follows, if deleted
        ("text", pa.string()),
        ("changed_at", UTC_TIME),  # at the source, where the event tells it
        ("updated_at", UTC_TIME),  # when Freshet wrote the row
    ]
)
"""The kept Gold table; its attributes follow."""

ATTRIBUTE_TYPES: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": UTC_TIME,
}

JSON_KINDS: Mapping[str, str | None] = {
    "VOID": None,
    "BOOLEAN": "boolean",
    "BIGINT": "long",
    "DECIMAL": "decimal",
    "DOUBLE": "double",
    "STRING": "string",
    "ARRAY": "array",
    "OBJECT": "struct",
    "VARIANT": "mixed",
}
"""The types of JSON values: Spark's names → ours."""

CHUNK_START = "chunk_start"
"""The index column that says where in its record's text a piece begins, in characters."""
EMBEDDING_ERROR = "embedding_error"
"""The index column that says why a row lacks a vector that it should have."""
IS_REFUSED = f"{EMBEDDING_ERROR} IS NOT NULL"
RESCUED = "rescued"
"""The index column of values that are not of their attribute's type."""
IMAGE = "row_image"
"""The index column of a record's values as its events tell them, in the record's first row. Only
for tools that may leave them out later."""
FILLED = "row_filled"
"""The index column that says which of those values come from which earlier event."""
IMAGES = (IMAGE, FILLED)
INDEX_COLUMNS = (
    *("key", "chunk", CHUNK_START, "text", "vector", "record_version", "content_hash"),
    *("updated_at", EMBEDDING_ERROR, *IMAGES),
)
ALL_ATTRIBUTES = "*"
ATTRIBUTES_KEY = "freshet.attributes"
"""Where a table's metadata says that its attributes are all columns of the records."""
VECTORS_KEY = "freshet.vectors"
"""Where a table's metadata says which further vectors it has, of which columns, as JSON."""


def hash_of(vector: str) -> str:
    """The column that names the text of a further vector."""
    return f"{vector}_hash"


def index(
    dimension: int,
    attributes: Mapping[str, str],
    *,
    vectors: Iterable[str] = (),
    keeps_images: bool = False,
) -> pa.Schema:
    """The columns of an index: fixed ones around further vectors and attributes (name → type)."""
    further = [(name, pa.list_(pa.float32(), dimension)) for name in vectors]
    hashes = [(hash_of(name), pa.string()) for name, _ in further]
    images = [pa.field(name, pa.string()) for name in IMAGES] if keeps_images else []
    return pa.schema(
        [
            pa.field("key", pa.string(), nullable=False),
            pa.field("chunk", pa.int32(), nullable=False),
            pa.field(CHUNK_START, pa.int32()),
            pa.field("text", pa.string()),
            pa.field("vector", pa.list_(pa.float32(), dimension)),
            *(pa.field(name, kind) for name, kind in (*further, *hashes)),
            *(pa.field(name, ATTRIBUTE_TYPES[kind]) for name, kind in attributes.items()),
            pa.field("record_version", pa.string(), nullable=False),
            pa.field("content_hash", pa.string()),
            pa.field("updated_at", UTC_TIME),
            pa.field(EMBEDDING_ERROR, pa.string()),
            *images,
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
