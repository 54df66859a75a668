"""The `debezium` envelope: before, after, source and op, with or without the schema wrapper."""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column
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
    source = debezium_position.source_type(with_table=chosen.table is not None)
    return (
        f"struct<op:string,before:variant,after:variant,source:{source},"
        "transaction:struct<total_order:bigint>,"
        "status:string,event_count:variant,ddl:variant,tableChanges:variant,ts_ms:variant,"
        "key:variant,value:variant,headers:variant,payload:variant>"
    )


@dataclass(frozen=True)
class _Event:
    """An event, opened, so that its parts are looked up once."""

    fields: Column
    """As `_event_type` says."""
    around: Column
    """`value`: the event with the schema around it; `beside`: the key; `header`: the old key."""

    def source(self, name: str) -> Column:
        """A field of `source`."""
        return self.fields["source"][name]

    @property
    def is_of_mongodb(self) -> Column:
        return self.source("collection").isNotNull()


def _understand(value: Column, chosen: Chosen) -> variants.Steps:
    """Inserts, updates, snapshot reads, deletes, truncates and tombstones as changes."""
    type_ = _event_type(chosen)
    top = yield F.try_variant_get(value, "$", type_)
    around = yield _around(value, top)
    opened = F.try_variant_get(wrapper.payload_of(around["value"]), "$", type_)
    event = _Event((yield F.when(around["value"].isNull(), top).otherwise(opened)), around)
    what = yield variants.named(op=_op(event, value, chosen), image=_image(event))
    op, image = what["op"], what["image"]
    row = yield variants.named(
        as_json=F.when(_has_image(op, image), F.to_json(image)),
        kinds=_kinds(event, chosen),
        lsns=debezium_position.lsns(event.source),
        key=F.when(~op.isin(*WITHOUT_KEY), _key(event, image, chosen)),
        old_key=wrapper.old_key(around["header"], chosen.key),
    )
    as_json, key, old_key = row["as_json"], row["key"], row["old_key"]
    order = versions.whole(event.fields["transaction"]["total_order"])
    return change(
        key=key,
        op=op,
        is_deleted=F.coalesce(op.isin(_DELETE, TRUNCATE), F.lit(False)),
        position=versions.composed(debezium_position.position(event.source, row["lsns"]), order),
        error=_error(op, as_json, key),
        changed_at=versions.since_1970(event.source("ts_ms"), per_second=1_000),
        record=_record(event, image, as_json, row["kinds"]),
        old_key=F.when((op == "c") & (old_key != key), old_key),
        unavailable=F.when(
            op.isin(*_WITH_AFTER), unavailable.fields_with(chosen.placeholder, as_json)
        ),
    )


def _around(value: Column, top: Column) -> Column:
    is_wrapped = top["value"].isNotNull() | top["payload"].isNotNull()
    return variants.named(
        value=F.when(is_wrapped, wrapper.value_of(value)),
        beside=F.when(top["key"].isNotNull(), wrapper.key_in(value)),
        header=F.when(top["headers"].isNotNull(), wrapper.old_key_header(value)),
    )


def _is_of_table(event: _Event, chosen: Chosen) -> Column:
    if chosen.table is None:
        return F.lit(True)
    schema = F.coalesce(event.source("schema"), event.source("db"))
    return is_of_table(
        chosen, schema, F.coalesce(event.source("table"), event.source("collection"))
    )


def _op(event: _Event, value: Column, chosen: Chosen) -> Column:
    """What an event is; of another table, or about something else than rows, it is `OTHER`."""
    fields, op = event.fields, event.fields["op"]
    about_rows = F.when(~_is_of_table(event, chosen), F.lit(OTHER))
    for coded, meant in _OPS.items():
        about_rows = about_rows.when(op == coded, F.lit(meant))
    is_of_transaction = fields["status"].isin("BEGIN", "END") & fields["event_count"].isNotNull()
    is_heartbeat = fields["source"].isNull() & fields["ts_ms"].isNotNull()
    is_ddl = fields["ddl"].isNotNull() | fields["tableChanges"].isNotNull()
    body = wrapper.payload_of(F.coalesce(event.around["value"], value))
    return (
        F.when(op.isNotNull(), about_rows.otherwise(op))
        .when(F.is_variant_null(body), F.lit(TOMBSTONE))
        .when(is_of_transaction | is_heartbeat | is_ddl, F.lit(OTHER))
    )


def _image(event: _Event) -> Column:
    fields = event.fields
    image = F.when(fields["op"] == _DELETE, fields["before"]).otherwise(fields["after"])
    # MongoDB's documents are texts.
    document = F.try_parse_json(F.try_variant_get(image, "$", "string"))
    return F.when(event.is_of_mongodb, document).otherwise(image)


def _has_image(op: Column, image: Column) -> Column:
    return op.isin(*_WITH_AFTER, _DELETE) & F.coalesce(~F.is_variant_null(image), F.lit(False))


def _kinds(event: _Event, chosen: Chosen) -> Column:
    fields = F.try_variant_get(event.around["value"], "$['schema']['fields']", _COLUMNS_IN)
    place = F.nullif(F.array_position(fields["field"], "after"), F.lit(0)).cast("int")
    return decoding.kinds_of(F.try_element_at(fields["fields"], place), chosen.types)


def _key(event: _Event, image: Column, chosen: Chosen) -> Column:
    """The key's columns: from the image, else from the key that stands beside the event."""
    beside = event.around["beside"]
    of_row = wrapper.texts_of(chosen.key, image, beside)
    if mongodb.is_id(chosen.key):
        of_document = mongodb.id_of(image, beside)
        of_row = [F.when(event.is_of_mongodb, of_document).otherwise(of_row[0])]
    return variants.in_steps(decoding.readable_key(of_row, chosen))


def _record(event: _Event, image: Column, as_json: Column, kinds: Column) -> Column:
    fields = F.try_variant_get(image, "$", "map<string,variant>")
    decoded = decoding.decoded(fields, as_json, kinds)
    return F.when(event.is_of_mongodb, mongodb.readable(as_json)).otherwise(decoded)


def _error(op: Column, as_json: Column, key: Column) -> Column:
    has_image = as_json.isNotNull()
    known = op.isin(*_WITH_AFTER, _DELETE, *WITHOUT_KEY)
    without_before = (op == _DELETE) & ~has_image & key.isNull()
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
    understand=_understand,
    leaves_out=True,
    tells_of_others=True,
)
