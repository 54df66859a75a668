"""The `debezium` envelope: before, after, source and op, with or without the schema wrapper."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from freshet import variants
from freshet.changes import debezium_position, decoding, mongodb, unavailable, versions, wrapper
from freshet.changes.envelope import (
    OTHER,
    TOMBSTONE,
    TRUNCATE,
    WITHOUT_KEY,
    Chosen,
    Envelope,
    Marks,
    change,
    is_of_table,
    key_of_texts,
)

_WITH_AFTER: Final = ("c", "u", "r")
_DELETE: Final = "d"
_OPS: Final = {"t": TRUNCATE, "m": OTHER}

_COLUMNS_IN: Final = f"array<struct<field:string,fields:{decoding.COLUMNS}>>"
_SEEN: Final = (
    "struct<op:string,source:struct<db:string>,ddl:string,event_count:variant,status:string>"
)
_KNOWN: Final = (
    r'^\{"op":"[^"]*","source":|^\{"source":.*"ddl":|^\{"event_count":.*"status":"(BEGIN|END)"\}$'
)


def _recognise(value: Column) -> Column:
    """Whether a record is a Debezium event, a tombstone, or says where a transaction begins."""
    # As JSON, in which absent fields do not stand, it is all looked up at once.
    seen = F.to_json(F.try_variant_get(wrapper.body_of(value), "$", _SEEN))
    inside = F.coalesce(wrapper.is_empty(value) | seen.rlike(_KNOWN), F.lit(False))
    bare = variants.field(value, "op").isNotNull() & variants.field(value, "source").isNotNull()
    return F.when(bare, F.lit(True)).otherwise(inside)


def _event_type(chosen: Chosen) -> str:
    """All that is looked at, taken out in one pass: looking up one field reads the names of all.

    Each value that is taken out costs, and more if it is converted: so numbers are asked for as
    numbers, and names of tables only if a table is chosen.
    """
    names = () if chosen.table is None else ("db", "schema", "table")
    source = debezium_position.typed("", "collection", *names)
    return (
        f"struct<op:string,before:variant,after:variant,source:struct<{source}>,"
        "transaction:struct<total_order:bigint>,"
        "status:string,event_count:variant,ddl:variant,tableChanges:variant,ts_ms:variant,"
        "key:variant,value:variant,headers:variant,payload:variant>"
    )


def _prepare(rows: DataFrame, value: Column, chosen: Chosen) -> DataFrame:
    """Opens the event, so that its parts are looked up once."""
    type_ = _event_type(chosen)
    rows = variants.with_columns(rows, __dbz_top=F.try_variant_get(value, "$", type_))
    top = F.col("__dbz_top")
    is_wrapped = top["value"].isNotNull() | top["payload"].isNotNull()
    rows = variants.with_columns(
        rows,
        __dbz_value=F.when(is_wrapped, wrapper.value_of(value)),
        __dbz_beside=F.when(top["key"].isNotNull(), wrapper.key_in(value)),
        __dbz_header=F.when(top["headers"].isNotNull(), wrapper.old_key_header(value)),
    )
    opened = F.try_variant_get(wrapper.payload_of(F.col("__dbz_value")), "$", type_)
    rows = variants.with_columns(
        rows, __dbz=F.when(F.col("__dbz_value").isNull(), top).otherwise(opened)
    )
    rows = variants.with_columns(rows, __dbz_op=_op(value, chosen), __dbz_image=_image())
    as_json = F.when(_has_image(), F.to_json(F.col("__dbz_image")))
    rows = variants.with_columns(
        rows, __dbz_json=as_json, __dbz_kinds=_kinds(chosen), __dbz_texts=_texts(chosen)
    )
    return variants.with_columns(rows, __dbz_key=_key(chosen))


def _understand(value: Column, chosen: Chosen) -> Column:
    """Inserts, updates, snapshot reads, deletes, truncates and tombstones as changes."""
    op, as_json = F.col("__dbz_op"), F.col("__dbz_json")
    is_deleted = F.coalesce(op.isin(_DELETE, TRUNCATE), F.lit(False))
    order = versions.whole(F.col("__dbz.transaction.total_order"))
    old_key = wrapper.old_key(F.col("__dbz_header"), chosen.key)
    return change(
        key=F.col("__dbz_key"),
        op=op,
        is_deleted=is_deleted,
        position=versions.composed(debezium_position.position(_source), order),
        error=_error(),
        changed_at=versions.since_1970(_source("ts_ms"), per_second=1_000),
        record=_record(),
        old_key=F.when((op == "c") & (old_key != F.col("__dbz_key")), old_key),
        unavailable=F.when(
            op.isin(*_WITH_AFTER), unavailable.fields_with(chosen.placeholder, as_json)
        ),
    )


def _source(name: str) -> Column:
    return F.col(f"__dbz.source.{name}")


def _is_of_table(chosen: Chosen) -> Column:
    if chosen.table is None:
        return F.lit(True)
    schema = F.coalesce(_source("schema"), _source("db"))
    return is_of_table(chosen, schema, F.coalesce(_source("table"), _source("collection")))


def _op(value: Column, chosen: Chosen) -> Column:
    """What an event is; of another table, or about something else than rows, it is `OTHER`."""
    event, op = F.col("__dbz"), F.col("__dbz.op")
    about_rows = F.when(~_is_of_table(chosen), F.lit(OTHER))
    for coded, meant in _OPS.items():
        about_rows = about_rows.when(op == coded, F.lit(meant))
    is_of_transaction = event["status"].isin("BEGIN", "END") & event["event_count"].isNotNull()
    is_heartbeat = event["source"].isNull() & event["ts_ms"].isNotNull()
    is_ddl = event["ddl"].isNotNull() | event["tableChanges"].isNotNull()
    body = wrapper.payload_of(F.coalesce(F.col("__dbz_value"), value))
    return (
        F.when(op.isNotNull(), about_rows.otherwise(op))
        .when(F.is_variant_null(body), F.lit(TOMBSTONE))
        .when(is_of_transaction | is_heartbeat | is_ddl, F.lit(OTHER))
    )


def _image() -> Column:
    event = F.col("__dbz")
    image = F.when(event["op"] == _DELETE, event["before"]).otherwise(event["after"])
    # MongoDB's documents are texts.
    document = F.try_parse_json(F.try_variant_get(image, "$", "string"))
    return F.when(_source("collection").isNotNull(), document).otherwise(image)


def _has_image() -> Column:
    image, op = F.col("__dbz_image"), F.col("__dbz_op")
    return op.isin(*_WITH_AFTER, _DELETE) & F.coalesce(~F.is_variant_null(image), F.lit(False))


def _kinds(chosen: Chosen) -> Column:
    fields = F.try_variant_get(F.col("__dbz_value"), "$['schema']['fields']", _COLUMNS_IN)
    place = F.nullif(F.array_position(fields["field"], "after"), F.lit(0)).cast("int")
    return decoding.kinds_of(F.try_element_at(fields["fields"], place), chosen.types)


def _texts(chosen: Chosen) -> Column:
    """The key's columns: from the image, else from the key that stands beside the event."""
    image, beside = F.col("__dbz_image"), F.col("__dbz_beside")
    of_row = [
        F.coalesce(variants.text(image, name), variants.text(beside, name)) for name in chosen.key
    ]
    if not mongodb.is_id(chosen.key):
        return F.array(*of_row)
    of_document = mongodb.id_of(image, beside)
    return F.array(F.when(_source("collection").isNotNull(), of_document).otherwise(of_row[0]))


def _key(chosen: Chosen) -> Column:
    texts = [
        decoding.readable(F.col("__dbz_texts")[place], chosen.types.get(name))
        for place, name in enumerate(chosen.key)
    ]
    return F.when(~F.col("__dbz_op").isin(*WITHOUT_KEY), key_of_texts(texts))


def _record() -> Column:
    fields = F.try_variant_get(F.col("__dbz_image"), "$", "map<string,variant>")
    decoded = decoding.decoded(fields, F.col("__dbz_json"), F.col("__dbz_kinds"))
    is_document = _source("collection").isNotNull()
    return F.when(is_document, mongodb.readable(F.col("__dbz_json"))).otherwise(decoded)


def _error() -> Column:
    op, has_image = F.col("__dbz_op"), F.col("__dbz_json").isNotNull()
    known = op.isin(*_WITH_AFTER, _DELETE, *WITHOUT_KEY)
    without_before = (op == _DELETE) & ~has_image & F.col("__dbz_key").isNull()
    return (
        F.when(op.isNull(), F.lit("not a Debezium event: there is no op"))
        .when(~known, F.concat(F.lit("the Debezium op "), op, F.lit(" is not understood")))
        .when(without_before, F.lit("a Debezium delete without before"))
        .when(op.isin(*_WITH_AFTER) & ~has_image, F.lit("a Debezium event without after"))
    )


DEBEZIUM: Final = Envelope(
    name="debezium",
    guarantee="Events of one key are ordered by the source's own position (Postgres: the two "
    "numbers of `source.sequence`, never the LSN alone; MySQL: number of the binlog file, position "
    "and row; SQL Server: commit and change LSN; Oracle: SCN of the commit, SCN and place in the "
    "redo log; MongoDB: time and ordinal; else the source's time), then by the order inside the "
    "transaction (`transaction.total_order`, if the connector is told to give it), then by "
    "arrival. A snapshot's row stands where the log stood when the snapshot began, or before all "
    "changes if the connector does not say where: so it never beats a change that came after it.",
    marks=Marks(
        tuple(
            tuple((*way, name) for name in ("op", "source"))
            for way in ((), ("payload",), ("value",), ("value", "payload"))
        )
    ),
    recognise=_recognise,
    prepare=_prepare,
    understand=_understand,
    leaves_out=True,
    tells_of_others=True,
)
