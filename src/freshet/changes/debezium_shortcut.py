"""The short way for most Debezium events: `from_json`, and the image as it stands there.

It is taken by inserts, updates, reads and deletes whose image is there as a plain JSON object, bare
or wrapped with key and headers. Whatever else there may be (schemas around it, values to decode or
left out, a changed key, documents of MongoDB, another table) goes the long way, through VARIANT,
and so does what is not JSON. Both ways give the same change; the long one takes thrice as long.
"""

import json
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from freshet import variants
from freshet.changes import debezium_position, unavailable, versions
from freshet.changes.envelope import Chosen, key_of_texts

_SHORT: Final = "__short_"
FIELDS: Final = ("key", "op", "is_deleted", "position", "changed_at", "record")
"""What is told of a change; the rest is null."""

# `from_json` writes a fraction as the nearest double. Nothing was lost where the image stands in
# the record to the letter, as it does in what Debezium writes, or where no number has a fraction.
_HAS_FRACTION: Final = r"[:,\[]\s*-?[0-9]+[.eE]"
_IS_EXACT: Final = (
    """contains(record, concat(if(__event.op = 'd', '"before":', '"after":'), __text)) """
    f"OR NOT record RLIKE {variants.literal(_HAS_FRACTION)}"
)
_IS_SIMPLE: Final = (
    "__event.op IN ('c', 'u', 'r', 'd') AND NOT __has_old_key AND __event.source IS NOT NULL "
    f"AND __text LIKE '{{%' AND __event.source.collection IS NULL AND ({_IS_EXACT})"
)


def is_possible(chosen: Chosen) -> bool:
    """Whether any record can go the short way; not where the settings say how values are coded."""
    # Spark's structs do not tell names apart by their case.
    return not chosen.types and len(set(map(str.casefold, chosen.key))) == len(chosen.key)


def with_shortcut(rows: DataFrame, chosen: Chosen) -> DataFrame:
    """Adds the columns that `field` names; all are null if a record must go the long way."""
    inner = f"transform(array({_parsed('__outer.value', chosen)}), them -> {_only('them')})[0]"
    wrapped = f"CASE WHEN __outer.op IS NULL THEN {inner} END"
    steps = (
        {"__outers": _parsed("record", chosen)},
        {"__outer": _only("__outers")},
        {
            "__event": f"coalesce({wrapped}, __outer)",
            "__has_old_key": "coalesce(contains(__outer.headers, 'oldkey'), false)",
        },
        {"__text": "if(__event.op = 'd', __event.before, __event.after)"},
        {"__columns": f"CASE WHEN {_is_simple(chosen)} THEN {_key_columns(chosen)} END"},
    )
    for step in steps:
        rows = rows.selectExpr("*", *(f"{made} AS {name}" for name, made in step.items()))
    texts = [F.col("__columns")[name] for name in chosen.key]
    rows = variants.with_columns(
        rows, __key_text=key_of_texts(texts), __lsns=debezium_position.lsns(_source)
    )
    known, change = F.col("__key_text").isNotNull(), _change()
    fields = {f"{_SHORT}{name}": F.when(known, change[name]) for name in FIELDS}
    return variants.with_columns(rows, **fields)


def field(name: str) -> Column:
    """One of `FIELDS` of a record that goes the short way."""
    return F.col(f"{_SHORT}{name}")


def _parsed(text: str, chosen: Chosen) -> str:
    """A JSON object; between brackets, whatever follows it makes the array invalid or longer."""
    source = debezium_position.source_type(with_table=chosen.table is not None)
    event = (
        f"array<struct<op:string,before:string,after:string,source:{source},"
        "transaction:struct<total_order:bigint>,value:string,headers:string>>"
    )
    return f"from_json(concat('[', {text}, ']'), '{event}')"


def _only(values: str) -> str:
    return f"if(size({values}) = 1, {values}[0], NULL)"


def _key_columns(chosen: Chosen) -> str:
    """The texts of the key's columns; one that comes first and is a whole number is cut out."""
    quoted = [f"`{name.replace('`', '``')}`" for name in chosen.key]
    type_ = f"struct<{','.join(f'{name}:string' for name in quoted)}>"
    parsed = f"from_json(__text, {variants.literal(type_)})"
    if len(chosen.key) > 1:
        return parsed
    before = json.dumps({chosen.key[0]: 0}, separators=(",", ":"), ensure_ascii=False)[:-2]
    # No number of more characters fits a bigint, and no other text is one.
    cut = f"substring_index(substring(__text, {len(before) + 1}, 21), ',', 1)"
    is_first = f"startswith(__text, {variants.literal(before)})"
    number = f"CASE WHEN {is_first} THEN try_cast({cut} AS bigint) END"
    return f"struct(coalesce(cast({number} AS string), {parsed}.{quoted[0]}) AS {quoted[0]})"


def _is_simple(chosen: Chosen) -> str:
    has_all = [_lacks(mark) for mark in ('"scale":', *unavailable.marks(chosen.placeholder))]
    in_arrays = [_lacks(mark) for mark in unavailable.array_marks(chosen.placeholder)]
    has_all.append(f"({_lacks('[')} OR ({' AND '.join(in_arrays)}))")
    if chosen.table is not None:
        schema = "coalesce(__event.source.schema, __event.source.db)"
        name = variants.literal(chosen.table)
        has_all.append(
            f"{name} IN (__event.source.table, concat_ws('.', {schema}, __event.source.table))"
        )
    return " AND ".join((_IS_SIMPLE, *has_all))


def _lacks(mark: str) -> str:
    return f"NOT contains(__text, {variants.literal(mark)})"


def _source(name: str) -> Column:
    return F.col(f"__event.source.{name}")


def _change() -> dict[str, Column]:
    order = versions.whole(F.col("__event.transaction.total_order"))
    position = debezium_position.position(_source, F.col("__lsns"))
    return {
        "key": F.col("__key_text"),
        "op": F.col("__event.op"),
        "is_deleted": F.col("__event.op") == "d",
        "position": versions.composed(position, order),
        "changed_at": versions.since_1970(_source("ts_ms"), per_second=1_000),
        "record": F.col("__text"),
    }
