"""The `debezium-flat` envelope: rows that `ExtractNewRecordState` took out of Debezium's events."""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column
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


@dataclass(frozen=True)
class _Row:
    """A row, opened, so that its parts are looked up once."""

    fields: Column
    """As `_ROW` says."""
    body: Column
    around: Column
    """`value`: the row with the schema around it; `beside`: the key; `header`: the old key."""

    def source(self, name: str) -> Column:
        """What `add.fields` told of the source, as `source.name` or as `name`."""
        return F.coalesce(self.fields[f"__source_{name}"], self.fields[f"__{name}"])


def _understand(value: Column, chosen: Chosen) -> variants.Steps:
    """Rows as changes; `__deleted` or `__op` says which of them are deletes."""
    top = yield F.try_variant_get(value, "$", _ROW)
    around = yield _around(value, top)
    is_bare = around["value"].isNull()
    body = yield F.when(is_bare, value).otherwise(wrapper.payload_of(around["value"]))
    opened = F.try_variant_get(body, "$", _ROW)
    row = _Row((yield F.when(is_bare, top).otherwise(opened)), body, around)
    op = yield _op(row, chosen)
    image = yield _image(body, op)
    found = yield variants.named(
        as_json=F.to_json(image),
        kinds=_kinds(around["value"], chosen),
        lsns=debezium_position.lsns(row.source),
        key=F.when(~op.isin(*WITHOUT_KEY), _key(row, chosen)),
        old_key=wrapper.old_key(around["header"], chosen.key),
    )
    as_json, key, old_key = found["as_json"], found["key"], found["old_key"]
    order = versions.whole(row.fields["__transaction_total_order"])
    return change(
        key=key,
        op=op,
        is_deleted=F.coalesce(op == "d", F.lit(False)),
        position=versions.composed(debezium_position.position(row.source, found["lsns"]), order),
        changed_at=versions.since_1970(row.source("ts_ms"), per_second=1_000),
        record=decoding.decoded(image, as_json, found["kinds"]),
        old_key=F.when((op != "d") & (old_key != key), old_key),
        unavailable=F.when(op != "d", unavailable.fields_with(chosen.placeholder, as_json)),
    )


def _around(value: Column, top: Column) -> Column:
    """What is around the row, which may itself have columns `value` and `payload`."""
    has_inside = top["value"].isNotNull() | top["payload"].isNotNull()
    is_wrapped = ~_has_marks(top) & has_inside
    return variants.named(
        value=F.when(is_wrapped, wrapper.value_of(value)),
        beside=F.when(is_wrapped, wrapper.key_in(value)),
        header=F.when(is_wrapped, wrapper.old_key_header(value)),
    )


def _op(row: _Row, chosen: Chosen) -> Column:
    """The op if the row has it; messages and ends of transactions are not flattened."""
    fields = row.fields
    schema = F.coalesce(row.source("schema"), row.source("db"))
    table = F.coalesce(row.source("table"), row.source("collection"))
    is_message = (
        (fields["op"] == "m") & fields["source"].isNotNull() & fields["message"].isNotNull()
    )
    is_of_transaction = fields["status"].isin("BEGIN", "END") & fields["event_count"].isNotNull()
    is_other = F.coalesce(is_message | is_of_transaction, F.lit(False))
    if chosen.table is not None:
        # Only where it is told of which table a row is.
        is_other |= table.isNotNull() & ~is_of_table(chosen, schema, table)
    is_deleted = F.coalesce(fields["__deleted"].isin("true", "True", "TRUE"), F.lit(False))
    return (
        F.when(F.is_variant_null(row.body), F.lit(TOMBSTONE))
        .when(is_other, F.lit(OTHER))
        .when(is_deleted, F.lit("d"))
        .otherwise(F.coalesce(fields["__op"], F.lit("u")))
    )


def _image(body: Column, op: Column) -> Column:
    """The row's own columns; what starts with `__` was added by the flattening."""
    columns = F.try_variant_get(body, "$", "map<string,variant>")
    own = F.map_filter(columns, lambda name, _: ~name.startswith(_OWN))
    return F.when(~op.isin(*WITHOUT_KEY), own)


def _kinds(value: Column, chosen: Chosen) -> Column:
    columns = F.try_variant_get(value, "$['schema']['fields']", decoding.COLUMNS)
    is_around = variants.field(value, "payload").isNotNull()
    return decoding.kinds_of(F.when(is_around, columns), chosen.types)


def _key(row: _Row, chosen: Chosen) -> Column:
    """The key's columns: from the row, else from the key that stands beside it."""
    texts = wrapper.texts_of(chosen.key, row.body, row.around["beside"])
    return variants.in_steps(decoding.readable_key(texts, chosen))


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
    understand=_understand,
    leaves_out=True,
    tells_of_others=True,
)
