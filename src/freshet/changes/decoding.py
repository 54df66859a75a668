"""Values as a person reads them in the source: dates, times, decimals and JSON instead of codes.

How a column is coded is told by the event's own schema, if it has one around it, or else by the
settings. What cannot be decoded stays as it is: nothing is lost, and `"infinity"`, moments outside
the years 1 to 9999 and numbers of more than 38 digits come out as the tool wrote them.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from freshet import variants
from freshet.changes.envelope import Chosen, key_of_texts
from freshet.errors import SettingsError

_SECONDS: Final = {
    "days": "86400",
    "millis": "0.001",
    "micros": "0.000001",
    "nanos": "0.000000001",
    "time-millis": "0.001",
    "time-micros": "0.000001",
    "time-nanos": "0.000000001",
}
"""How long the unit is in which a kind of date or time is counted."""
_DECIMAL: Final = re.compile(r"^decimal\([0-9]{1,2}\)$")
_KINDS_OF_SCHEMAS: Final = {
    "io.debezium.time.Date": "days",
    "io.debezium.time.Time": "time-millis",
    "io.debezium.time.MicroTime": "time-micros",
    "io.debezium.time.NanoTime": "time-nanos",
    "io.debezium.time.Timestamp": "millis",
    "io.debezium.time.MicroTimestamp": "micros",
    "io.debezium.time.NanoTimestamp": "nanos",
    "io.debezium.data.Json": "json",
    "org.apache.kafka.connect.data.Date": "days",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "millis",
}
_CONNECT_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_COLUMN: Final = "field:string,name:string,parameters:map<string,string>"
COLUMNS: Final = f"array<struct<{_COLUMN},items:struct<{_COLUMN}>>>"
"""The type of a schema's list of columns."""

_VARIABLE_SCALE: Final = r'^\{"scale":(-?[0-9]{1,3}),"value":"([A-Za-z0-9+/]+=*)"\}$'
_HAS_VARIABLE_SCALE: Final = '{"scale":'
_MOST_DIGITS: Final = 38


def check_types(types: Mapping[str, str]) -> None:
    """Raises `SettingsError` if a column is said to be coded in a way that is not known."""
    known = (*_SECONDS, "json")
    for column, kind in types.items():
        if kind not in known and not _DECIMAL.match(kind):
            listed = ", ".join(("decimal(2) or of another scale", *known))
            raise SettingsError(
                f'changes.types says that {column} is "{kind}", which is not one of {listed}'
            )


def kinds_of(columns: Column, types: Mapping[str, str]) -> Column:
    """Column → how it is coded: from the columns of an event's schema, else from the settings.

    `columns` is of type `COLUMNS`, and null without a schema; null if nothing is known.
    """

    def kind(column: Column) -> Column:
        name = F.coalesce(column["name"], column["items"]["name"])
        scale = F.coalesce(column["parameters"]["scale"], column["items"]["parameters"]["scale"])
        decimal = F.when(name == _CONNECT_DECIMAL, F.concat(F.lit("decimal("), scale, F.lit(")")))
        told = F.coalesce(decimal, F.try_element_at(_literal(_KINDS_OF_SCHEMAS), name))
        return (
            F.coalesce(F.try_element_at(_literal(types), column["field"]), told) if types else told
        )

    pairs = F.transform(
        columns, lambda one: F.struct(one["field"].alias("f"), kind(one).alias("k"))
    )
    coded = F.filter(pairs, lambda one: one["f"].isNotNull() & one["k"].isNotNull())
    return F.coalesce(F.map_from_entries(coded), *([_literal(types)] if types else []))


def decoded(fields: Column, as_json: Column, kinds: Column) -> Column:
    """An image as JSON with its values decoded; `as_json` itself where nothing is coded.

    `fields` are the image's, as a map of VARIANT, and `as_json` is it all; `kinds` is what
    `kinds_of` gave. Decimals that bring their scale along are known by their shape.
    """
    needed = kinds.isNotNull() | as_json.contains(_HAS_VARIABLE_SCALE)
    values = F.transform_values(
        fields, lambda name, value: _value(value, F.try_element_at(kinds, name))
    )
    return F.when(needed, F.coalesce(F.to_json(values), as_json)).otherwise(as_json)


def readable_key(texts: Sequence[Column], chosen: Chosen) -> variants.Steps:
    """The key of its columns' texts: decimals written as numbers, dates and times as they are."""
    all_texts = yield F.array(*texts)
    return key_of_texts(
        [_readable(all_texts[at], chosen.types.get(name)) for at, name in enumerate(chosen.key)]
    )


def _readable(text: Column, kind: str | None) -> Column:
    if kind is not None and _DECIMAL.match(kind):
        return F.coalesce(_decimal(text, F.lit(_scale_of(kind))), text)
    value = F.regexp_extract(text, _VARIABLE_SCALE, 2)
    scale = F.regexp_extract(text, _VARIABLE_SCALE, 1).try_cast("int")
    by_shape = F.when(text.startswith(_HAS_VARIABLE_SCALE), _decimal(value, scale))
    return F.coalesce(by_shape, text)


def _scale_of(kind: str) -> int:
    return int(kind.removeprefix("decimal(").removesuffix(")"))


def _literal(words: Mapping[str, str]) -> Column:
    return F.create_map(*(F.lit(word) for pair in words.items() for word in pair))


def _value(value: Column, kind: Column) -> Column:
    """One field, or the elements of an array, decoded."""
    elements = F.try_variant_get(value, "$", "array<variant>")
    one_or_all = F.coalesce(elements, F.array(value))
    values = F.transform(one_or_all, lambda one: _scalar(one, kind))
    again = F.when(elements.isNull(), values[0]).otherwise(F.try_parse_json(F.to_json(values)))
    is_coded = kind.isNotNull() | F.to_json(value).contains(_HAS_VARIABLE_SCALE)
    return F.when(is_coded, again).otherwise(value)


def _scalar(value: Column, kind: Column) -> Column:
    text = F.try_variant_get(value, "$", "string")
    told = F.try_variant_get(value, "$", "struct<scale:int,value:string>")
    has_scale = F.to_json(value).rlike(_VARIABLE_SCALE)
    is_decimal = kind.startswith("decimal(")
    scale = F.regexp_extract(kind, r"-?[0-9]+", 0).try_cast("int")
    number = _decimal(
        F.when(has_scale, told["value"]).when(is_decimal, text),
        F.when(has_scale, told["scale"]).otherwise(scale),
    )
    as_value = F.try_parse_json(F.when(kind == "json", text).otherwise(number))
    return F.coalesce(_moment(value, kind).cast("variant"), as_value, value)


def _decimal(coded: Column, scale: Column) -> Column:
    """The number whose unscaled value is coded as base64 of a two's complement, written out."""
    in_hex = F.hex(F.try_to_binary(coded, F.lit("base64")))
    is_negative = F.left(in_hex, F.lit(1)) >= "8"
    bits = F.lpad(in_hex, F.lit(32), F.when(is_negative, F.lit("F")).otherwise(F.lit("0")))
    # A base below zero makes a signed number; each half fits 64 bits.
    high = F.conv(F.left(bits, F.lit(16)), 16, -10).cast("decimal(38,0)")
    low = F.conv(F.right(bits, F.lit(16)), 16, 10).cast("decimal(38,0)")
    # Rounded towards zero, so that no part of the sum is longer than the sum.
    carried = F.when(is_negative, F.lit(1)).otherwise(F.lit(0))
    two_to_64 = F.lit(str(1 << 64)).cast("decimal(38,0)")
    unscaled = F.try_add(
        F.try_multiply(high + carried, two_to_64), F.try_subtract(low, carried * two_to_64)
    )
    is_known = F.length(in_hex).between(2, 32) & scale.between(-_MOST_DIGITS, _MOST_DIGITS)
    return F.when(is_known, _with_point(unscaled.cast("string"), scale))


def _with_point(digits: Column, scale: Column) -> Column:
    zeros = F.repeat(F.lit("0"), scale)
    padded = F.concat(
        F.regexp_replace(digits, F.lit("^(-?)"), F.concat(F.lit("$1"), zeros)),
        F.repeat(F.lit("0"), -scale),
    )
    fraction = F.concat(F.lit("([0-9]{"), F.greatest(scale, F.lit(0)).cast("string"), F.lit("})$"))
    pointed = F.regexp_replace(padded, fraction, F.lit(".$1"))
    return F.regexp_replace(pointed, r"^(-?)0+(?=[0-9])|\.$", "$1")


def _moment(value: Column, kind: Column) -> Column:
    """A date, a time, or both without a zone; null if it is none or outside of what is known.

    Fractions come without their last zeros.
    """
    unit = F.try_element_at(_literal(_SECONDS), kind).cast("decimal(14,9)")
    seconds = F.try_variant_get(value, "$", "decimal(20,0)") * unit
    whole = F.floor(seconds)
    since_1970 = F.make_dt_interval(secs=whole.try_cast("decimal(18,6)"))
    moment = F.lit("1970-01-01").cast("timestamp_ntz") + since_1970
    nanos = ((seconds - whole) * 10**9).cast("bigint").cast("string")
    fraction = F.concat(F.lit("."), F.lpad(nanos, 9, "0"))
    text = F.concat(
        F.translate(moment.cast("string"), " ", "T"), F.regexp_replace(fraction, r"\.?0*$", "")
    )
    part = F.when(kind == "days", r"^(?!0000)[0-9]{4}-.{5}").when(
        kind.startswith("time-"), r"(?<=^1970-01-01T).*"
    )
    return F.regexp_substr(text, F.coalesce(part, F.lit(r"^(?!0000)[0-9]{4}-.*")))
