"""The `debezium` envelope: before, after, source and op, with or without the schema wrapper."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from freshet import variants
from freshet.changes import versions
from freshet.changes.envelope import TOMBSTONE, Chosen, Envelope, Marks, change, key_of

_WITH_AFTER: Final = ("c", "u", "r")
_DELETE: Final = "d"


def _recognise(value: Column) -> Column:
    """Whether a record looks like a Debezium event or a tombstone."""
    event = _event(value)
    is_event = variants.text(event, "op").isNotNull() & variants.field(event, "source").isNotNull()
    return F.coalesce(F.is_variant_null(event) | is_event, F.lit(False))


def _prepare(rows: DataFrame, value: Column, chosen: Chosen) -> DataFrame:
    """Opens the event, so that its parts are looked up once."""
    opened = variants.with_columns(rows, __event=_event(value))
    event = F.col("__event")
    op = F.when(F.is_variant_null(event), TOMBSTONE).otherwise(variants.text(event, "op"))
    image = F.when(variants.text(event, "op") == _DELETE, variants.field(event, "before"))
    return variants.with_columns(
        opened,
        __op=op,
        __image=F.coalesce(image, variants.field(event, "after")),
        __source=variants.field(event, "source"),
        __order=versions.whole(variants.text(event, "transaction", "total_order")),
        __sequence=F.try_parse_json(variants.text(event, "source", "sequence")),
    )


def _understand(value: Column, chosen: Chosen) -> Column:
    """Inserts, updates, snapshot reads, deletes and tombstones as changes."""
    return change(
        key=key_of(F.col("__image"), chosen.key),
        op=F.col("__op"),
        is_deleted=F.coalesce(F.col("__op") == _DELETE, F.lit(False)),
        position=versions.composed(_position(), F.col("__order")),
        error=_error(F.col("__op"), F.col("__image")),
        changed_at=F.timestamp_millis(_source("ts_ms").try_cast("bigint")),
        record=F.to_json(F.col("__image")),
    )


def _event(value: Column) -> Column:
    """The event itself: bare, below `payload`, or below `value` (there perhaps as text)."""
    wrapped = variants.field(value, "value")
    unwrapped = F.when(
        variants.field(value, "key").isNotNull() & wrapped.isNotNull(),
        F.coalesce(F.try_parse_json(variants.text(value, "value")), wrapped),
    ).otherwise(value)
    return F.coalesce(variants.field(unwrapped, "payload"), unwrapped)


def _error(op: Column, image: Column) -> Column:
    has_image = F.coalesce(~F.is_variant_null(image), F.lit(False))
    known = op.isin(*_WITH_AFTER, _DELETE, TOMBSTONE)
    return (
        F.when(op.isNull(), F.lit("not a Debezium event: there is no op"))
        .when(~known, F.concat(F.lit("the Debezium op "), op, F.lit(" is not understood")))
        .when((op == _DELETE) & ~has_image, F.lit("a Debezium delete without before"))
        .when((op != TOMBSTONE) & ~has_image, F.lit("a Debezium event without after"))
    )


def _source(name: str) -> Column:
    return variants.text(F.col("__source"), name)


def _position() -> Column:
    """Three components whatever the source, so that positions of one stream compare."""
    commit_lsn, lsn = (
        F.try_variant_get(F.col("__sequence"), f"$[{part}]", "string") for part in (0, 1)
    )
    nothing = F.lit(None).cast("string")
    postgres = versions.composed(
        versions.whole(commit_lsn), versions.whole(F.coalesce(lsn, _source("lsn"))), nothing
    )
    mysql = versions.composed(
        versions.words(_source("file")),
        versions.whole(_source("pos")),
        versions.whole(_source("row")),
    )
    sql_server = versions.composed(
        versions.words(_source("commit_lsn")),
        versions.words(_source("change_lsn")),
        versions.whole(_source("event_serial_no")),
    )
    return (
        F.when(F.coalesce(lsn, _source("lsn")).isNotNull(), postgres)
        .when(_source("pos").isNotNull(), mysql)
        .when(_source("commit_lsn").isNotNull(), sql_server)
        .otherwise(versions.composed(versions.whole(_source("ts_ms")), nothing, nothing))
    )


DEBEZIUM: Final = Envelope(
    name="debezium",
    guarantee="Events of one key are ordered by the source's own position (Postgres: the two "
    "numbers of `source.sequence`, never the LSN alone; MySQL: binlog file, position and row; SQL "
    "Server: commit and change LSN; else the source's time), then by the order inside the "
    "transaction, then by arrival.",
    marks=Marks(
        tuple(
            tuple((*way, name) for name in ("op", "source"))
            for way in ((), ("payload",), ("value",), ("value", "payload"))
        )
    ),
    recognise=_recognise,
    prepare=_prepare,
    understand=_understand,
)
