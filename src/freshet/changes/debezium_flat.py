"""The `debezium-flat` envelope: rows that `ExtractNewRecordState` took out of Debezium's events."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from freshet import variants
from freshet.changes import debezium_position, decoding, unavailable, versions, wrapper
from freshet.changes.envelope import (
    OTHER,
    TOMBSTONE,
    WITHOUT_KEY,
    Chosen,
    Envelope,
    Marks,
    change,
    is_of_table,
    key_of_texts,
)

_MARKS: Final = ("__deleted", "__op", "__source_ts_ms", "__lsn")
_OWN: Final = "__"
_OF_SOURCE: Final = ("db", "schema", "table", "collection")
_ROW: Final = (
    f"struct<{debezium_position.typed('__', *_OF_SOURCE)},"
    f"{debezium_position.typed('__source_', *_OF_SOURCE)},"
    "__deleted:string,__op:string,__transaction_total_order:bigint,"
    "op:string,status:string,source:variant,message:variant,event_count:variant,"
    "key:variant,value:variant,headers:variant,payload:variant>"
)


def _recognise(value: Column) -> Column:
    """Whether a record, or what is wrapped in it, has a column that only the flattening adds."""
    marks = f"struct<{','.join(f'`{name}`:string' for name in _MARKS)}>"
    bare, inside = (
        F.to_json(F.try_variant_get(one, "$", marks)) != "{}"
        for one in (value, wrapper.body_of(value))
    )
    return F.coalesce(bare | inside, F.lit(False))


def _has_marks(row: Column) -> Column:
    return F.coalesce(*(row[name].cast("string") for name in _MARKS)).isNotNull()


def _prepare(rows: DataFrame, value: Column, chosen: Chosen) -> DataFrame:
    """Opens the record: a row may itself have columns `value` and `payload`."""
    rows = variants.with_columns(rows, __flat_top=F.try_variant_get(value, "$", _ROW))
    top = F.col("__flat_top")
    has_inside = top["value"].isNotNull() | top["payload"].isNotNull()
    is_wrapped = ~_has_marks(top) & has_inside
    rows = variants.with_columns(
        rows,
        __flat_value=F.when(is_wrapped, wrapper.value_of(value)),
        __flat_beside=F.when(is_wrapped, wrapper.key_in(value)),
        __flat_header=F.when(is_wrapped, wrapper.old_key_header(value)),
    )
    is_bare = F.col("__flat_value").isNull()
    body = F.when(is_bare, value).otherwise(wrapper.payload_of(F.col("__flat_value")))
    rows = variants.with_columns(rows, __flat_body=body)
    opened = F.try_variant_get(F.col("__flat_body"), "$", _ROW)
    rows = variants.with_columns(rows, __flat=F.when(is_bare, top).otherwise(opened))
    rows = variants.with_columns(rows, __flat_op=_op(chosen), __flat_kinds=_kinds(chosen))
    rows = variants.with_columns(rows, __flat_texts=_texts(chosen), __flat_image=_image())
    return variants.with_columns(
        rows, __flat_json=F.to_json(F.col("__flat_image")), __flat_key=_key(chosen)
    )


def _understand(value: Column, chosen: Chosen) -> Column:
    """Rows as changes; `__deleted` or `__op` says which of them are deletes."""
    op, as_json = F.col("__flat_op"), F.col("__flat_json")
    order = versions.whole(F.col("__flat.__transaction_total_order"))
    old_key = wrapper.old_key(F.col("__flat_header"), chosen.key)
    return change(
        key=F.col("__flat_key"),
        op=op,
        is_deleted=F.coalesce(op == "d", F.lit(False)),
        position=versions.composed(debezium_position.position(_source), order),
        changed_at=versions.since_1970(_source("ts_ms"), per_second=1_000),
        record=decoding.decoded(F.col("__flat_image"), as_json, F.col("__flat_kinds")),
        old_key=F.when((op != "d") & (old_key != F.col("__flat_key")), old_key),
        unavailable=F.when(op != "d", unavailable.fields_with(chosen.placeholder, as_json)),
    )


def _source(name: str) -> Column:
    """What `add.fields` told of the source, as `source.name` or as `name`."""
    return F.coalesce(F.col(f"__flat.__source_{name}"), F.col(f"__flat.__{name}"))


def _op(chosen: Chosen) -> Column:
    """The op if the row has it; messages and ends of transactions are not flattened."""
    row = F.col("__flat")
    schema = F.coalesce(_source("schema"), _source("db"))
    table = F.coalesce(_source("table"), _source("collection"))
    is_message = (row["op"] == "m") & row["source"].isNotNull() & row["message"].isNotNull()
    is_of_transaction = row["status"].isin("BEGIN", "END") & row["event_count"].isNotNull()
    is_other = F.coalesce(is_message | is_of_transaction, F.lit(False))
    if chosen.table is not None:
        # Only where it is told of which table a row is.
        is_other |= table.isNotNull() & ~is_of_table(chosen, schema, table)
    is_deleted = F.coalesce(row["__deleted"].isin("true", "True", "TRUE"), F.lit(False))
    return (
        F.when(F.is_variant_null(F.col("__flat_body")), F.lit(TOMBSTONE))
        .when(is_other, F.lit(OTHER))
        .when(is_deleted, F.lit("d"))
        .otherwise(F.coalesce(row["__op"], F.lit("u")))
    )


def _image() -> Column:
    """The row's own columns; what starts with `__` was added by the flattening."""
    columns = F.try_variant_get(F.col("__flat_body"), "$", "map<string,variant>")
    own = F.map_filter(columns, lambda name, _: ~name.startswith(_OWN))
    return F.when(~F.col("__flat_op").isin(*WITHOUT_KEY), own)


def _kinds(chosen: Chosen) -> Column:
    value = F.col("__flat_value")
    columns = F.try_variant_get(value, "$['schema']['fields']", decoding.COLUMNS)
    is_around = variants.field(value, "payload").isNotNull()
    return decoding.kinds_of(F.when(is_around, columns), chosen.types)


def _texts(chosen: Chosen) -> Column:
    """The key's columns: from the row, else from the key that stands beside it."""
    row, beside = F.col("__flat_body"), F.col("__flat_beside")
    return F.array(
        *(F.coalesce(variants.text(row, name), variants.text(beside, name)) for name in chosen.key)
    )


def _key(chosen: Chosen) -> Column:
    texts = [
        decoding.readable(F.col("__flat_texts")[place], chosen.types.get(name))
        for place, name in enumerate(chosen.key)
    ]
    return F.when(~F.col("__flat_op").isin(*WITHOUT_KEY), key_of_texts(texts))


DEBEZIUM_FLAT: Final = Envelope(
    name="debezium-flat",
    guarantee="Rows of one key are ordered by what `add.fields` tells of the source's position, as "
    "for `debezium` (best `source.sequence`, or `file`, `pos` and `row`, or `commit_lsn` and "
    "`change_lsn`, with `transaction.total_order`); else by `source.ts_ms`, whose ties arrival "
    "decides; else by arrival alone. Deletes must be rewritten rows (`__deleted` or `__op`): a "
    "tombstone has no position and does nothing, and the flattening drops TRUNCATE.",
    marks=Marks(
        tuple(
            ((*way, name),)
            for way in ((), ("payload",), ("value",), ("value", "payload"))
            for name in _MARKS
        )
    ),
    recognise=_recognise,
    prepare=_prepare,
    understand=_understand,
    leaves_out=True,
    tells_of_others=True,
)
