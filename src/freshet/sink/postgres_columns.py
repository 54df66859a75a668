"""How the columns of a DataFrame become those of a table of PostgreSQL. Pure."""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from freshet.errors import SinkError

_PLAIN: Final[Mapping[type[DataType], str]] = {
    StringType: "text",
    BooleanType: "boolean",
    ByteType: "smallint",
    ShortType: "smallint",
    IntegerType: "integer",
    LongType: "bigint",
    FloatType: "real",
    DoubleType: "double precision",
    DateType: "date",
    TimestampType: "timestamptz",
    TimestampNTZType: "timestamp",
    BinaryType: "bytea",
}
_INSTANT: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXXXX"
_JSON: Final = {
    "ignoreNullFields": "false",
    "timestampFormat": _INSTANT,
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_NUMBERS: Final = (ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType, BooleanType)


def sql_types(
    rows: DataFrame, *, without: str | None, vectors: Mapping[str, int], has_vectors: bool
) -> dict[str, str]:
    """The types that the columns get in a table that is made for them."""
    return {
        field.name: _sql_type(field.name, field.dataType, vectors if has_vectors else {})
        for field in rows.schema
        if field.name != without
    }


def _sql_type(name: str, kind: DataType, vectors: Mapping[str, int]) -> str:
    if isinstance(kind, DecimalType):
        return f"numeric({kind.precision}, {kind.scale})"
    if isinstance(kind, ArrayType) and name in vectors:
        return f"vector({vectors[name]})"
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, _NUMBERS):
        return f"{_PLAIN[type(kind.elementType)]}[]"
    if isinstance(kind, ArrayType | MapType | StructType):
        return "jsonb"
    if type(kind) not in _PLAIN:
        raise SinkError(
            f"PostgreSQL cannot take the column {name}, which is {kind.simpleString()}: "
            "cast it, or leave it out"
        )
    return _PLAIN[type(kind)]


def as_texts(rows: DataFrame, types: Mapping[str, str]) -> list[Column]:
    """The columns as PostgreSQL reads them, given the types that the table has for them."""
    kinds = {field.name: field.dataType for field in rows.schema}
    return [_as_text(name, kinds[name], sql).alias(name) for name, sql in types.items()]


def _as_text(name: str, kind: DataType, sql: str) -> Column:
    column = F.col("`" + name.replace("`", "``") + "`")
    if not isinstance(kind, ArrayType) or not sql.endswith("[]"):
        return _one(column, kind)
    inner = kind.elementType
    told = F.transform(column, lambda one: F.coalesce(_element(one, inner), F.lit("NULL")))
    return F.concat(F.lit("{"), F.array_join(told, ","), F.lit("}"))


def _one(column: Column, kind: DataType) -> Column:
    if isinstance(kind, BinaryType):
        return F.concat(F.lit("\\x"), F.hex(column))
    if isinstance(kind, TimestampType):
        return F.date_format(column, _INSTANT)
    if isinstance(kind, ArrayType | MapType | StructType):
        return F.to_json(column, _JSON)
    return column.cast("string")


def _element(column: Column, kind: DataType) -> Column:
    """Quoted unless it is a number: a text may hold what stands between elements."""
    told = _one(column, kind)
    if isinstance(kind, _NUMBERS):
        return told
    escaped = F.regexp_replace(told, r'(["\\])', r"\\$1")
    return F.concat(F.lit('"'), escaped, F.lit('"'))
