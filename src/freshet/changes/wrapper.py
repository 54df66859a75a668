"""Records as they stood in a topic: key, value and headers around the event, schemas around both.

A wrapper is `{"key": …, "value": …, "headers": …}`. Key, value and header values are objects or
their JSON texts, and each may be `{"schema": …, "payload": …}` itself. Headers are a list of
`{"key" or "name": …, "value": …}`, or an object.
"""

import re
from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from freshet import variants
from freshet.changes.envelope import key_of, key_of_texts

_OLD_KEY: Final = "__debezium.oldkey"
_HEADERS: Final = "array<struct<key:string,name:string,value:variant>>"
_STRUCT: Final = r"^Struct\{(.*)\}$"


def value_of(record: Column) -> Column:
    """What stands below `value` if there is a wrapper, with the schema around it; else all."""
    value = variants.field(record, "value")
    return F.when(value.isNull(), record).otherwise(_object(value))


def payload_of(value: Column) -> Column:
    """What stands below `payload` if there is a schema around it; else all."""
    return F.coalesce(variants.field(value, "payload"), value)


def body_of(record: Column) -> Column:
    """The event inside a record, whatever is around it; a JSON null if it is a tombstone."""
    return payload_of(value_of(record))


def key_in(record: Column) -> Column:
    """The wrapper's key, as an object; SQL null without a wrapper."""
    return payload_of(_object(variants.field(record, "key")))


def texts_of(key: Sequence[str], row: Column, beside: Column) -> list[Column]:
    """The texts of the key's columns: from the row, else from the key that stands beside it."""
    return [F.coalesce(variants.text(row, name), variants.text(beside, name)) for name in key]


def is_empty(record: Column) -> Column:
    """Whether it is a tombstone: a bare null, or a key or a schema around one."""
    value = variants.field(record, "value")
    # A row may have columns of these names: only an object is the key of a record.
    has_key = _is_object(_object(variants.field(record, "key")))
    none_inside = F.is_variant_null(value) & has_key
    none_below = F.is_variant_null(variants.field(record, "payload")) & (
        variants.field(record, "schema").isNotNull()
    )
    return F.coalesce(F.is_variant_null(record) | none_inside | none_below, F.lit(False))


def old_key_header(record: Column) -> Column:
    """The header of a key change that says what the key was before; SQL null if there is none."""
    headers = variants.field(record, "headers")
    listed = F.try_variant_get(headers, "$", _HEADERS)
    place = F.greatest(*(F.array_position(listed[name], _OLD_KEY) for name in ("key", "name")))
    of_list = F.try_element_at(listed["value"], F.nullif(place, F.lit(0)).cast("int"))
    return F.coalesce(of_list, variants.field(headers, _OLD_KEY))


def old_key(header: Column, key: Sequence[str]) -> Column:
    """The key that the row had before, as that header says it."""
    return F.coalesce(key_of(payload_of(_object(header)), key), _of_struct(header, key))


def _object(value: Column) -> Column:
    """A value, parsed if it is the JSON text of one."""
    parsed = F.try_parse_json(F.try_variant_get(value, "$", "string"))
    return F.when(_is_object(value), value).otherwise(F.coalesce(parsed, value))


def _is_object(value: Column) -> Column:
    return F.try_variant_get(value, "$", "struct<payload:boolean>").isNotNull()


def _of_struct(value: Column, key: Sequence[str]) -> Column:
    """The key in `Struct{a=1,b=2}`, as Kafka Connect writes headers unless told otherwise."""
    inner = F.regexp_extract(F.try_variant_get(value, "$", "string"), _STRUCT, 1)
    if len(key) == 1:
        # The one value may have any characters; of several, none may have a comma.
        return F.nullif(F.regexp_extract(inner, f"^{re.escape(key[0])}=(.*)$", 1), F.lit(""))
    pairs = F.str_to_map(inner, F.lit(","), F.lit("="))
    return key_of_texts([F.try_element_at(pairs, F.lit(name)) for name in key])
