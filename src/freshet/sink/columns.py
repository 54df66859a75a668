"""How the columns of a DataFrame become those of a table."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from freshet.errors import SchemaMismatchError, SinkError
from freshet.rows import BuiltRows, CurrentRows
from freshet.stores.lance_columns import LEFTOVER

VECTOR_SIZE: Final = "arrow.fixed-size-list.size"
"""Metadata of a Spark column that makes it a vector of that many numbers, as lance-spark has it."""


@dataclass(frozen=True)
class PlainRows:
    """The row builder of a DataFrame that is written as it is."""

    schema: pa.Schema
    needs: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    has_heavy_rows: bool = False

    def build(
        self,
        records: pa.Table,
        current: CurrentRows,
        at: datetime,
        *,
        is_alone: bool = False,
        tasks: int | None = None,
    ) -> BuiltRows:
        """The records' own columns."""
        return BuiltRows(conformed(records, self.schema))

    def finish(self, waiting: pa.Table) -> BuiltRows:
        """None ever wait."""
        return BuiltRows(waiting)


def columns_of(
    frame: DataFrame | StructType, vectors: Mapping[str, int], without: str | None = None
) -> pa.Schema:
    """The columns that a DataFrame has in a table; `vectors` names those of a fixed size."""
    spark_schema = frame if isinstance(frame, StructType) else frame.schema
    given = {
        column.name: int(column.metadata[VECTOR_SIZE])
        for column in spark_schema
        if VECTOR_SIZE in (column.metadata or {})
    }
    sizes = given | dict(vectors)
    arrow = to_arrow_schema(spark_schema, timezone="UTC")
    if unknown := sizes.keys() - set(arrow.names):
        raise SinkError(f"there is no column {', '.join(sorted(unknown))} to be a vector")
    fields = [_field(column, sizes.get(column.name)) for column in arrow if column.name != without]
    return pa.schema(fields)


def _field(column: pa.Field, size: int | None) -> pa.Field:
    if size is None:
        return pa.field(column.name, column.type)
    if not (pa.types.is_list(column.type) and pa.types.is_floating(column.type.value_type)):
        raise SinkError(f"column {column.name} is {column.type}: a vector is an array of floats")
    return pa.field(column.name, pa.list_(column.type.value_type, size))


@dataclass(frozen=True)
class Reshaping:
    """What must happen to the columns of a table before rows fit it."""

    drop: tuple[str, ...] = ()
    add: tuple[pa.Field, ...] = ()
    widen: tuple[pa.Field, ...] = ()

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.drop or self.add or self.widen)


def reshaping(
    uri: str,
    table: pa.Schema,
    rows: pa.Schema,
    *,
    optional: Collection[str],
    retired: Sequence[str],
) -> Reshaping:
    """How a table gets the columns of some rows; `SchemaMismatchError` if it must not.

    Only `optional` columns may come, and widen; only `retired` ones may leave.
    """
    have = {field.name: field.type for field in table}
    leftover = [name for name in have if name.startswith(LEFTOVER)]
    leaving = [*leftover, *(name for name in retired if name in have and name not in rows.names)]
    new = [field for field in rows if field.name not in have]
    other = [field for field in rows if field.name in have and have[field.name] != field.type]
    widening = [field for field in other if _is_wider(field.type, have[field.name])]
    problems = [
        f"column {field.name} is to be {field.type} but is {have.get(field.name, 'not there')}"
        for field in [*new, *other]
        if field.name not in optional or not (field in new or field in widening)
    ]
    problems += [
        f"column {name} is not filled"
        for name in have
        if name not in rows.names and name not in leaving
    ]
    if problems:
        raise SchemaMismatchError(table=uri, problems=problems)
    return Reshaping(tuple(leaving), tuple(new), tuple(widening))


def _is_wider(wanted: pa.DataType, have: pa.DataType) -> bool:
    return bool(pa.types.is_int64(have) and pa.types.is_float64(wanted))


def additions(uri: str, table: pa.Schema, rows: pa.Schema) -> Sequence[pa.Field]:
    """Columns that the table lacks; `SchemaMismatchError` if the others do not fit."""
    problems = [
        f"column {column.name} is to be {column.type} but is {table.field(column.name).type}"
        for column in rows
        if column.name in table.names and not _fits(column.type, table.field(column.name).type)
    ]
    problems += [
        f"column {column.name} is not filled and must not be null"
        for column in table
        if column.name not in rows.names and not column.nullable
    ]
    if problems:
        raise SchemaMismatchError(table=uri, problems=problems)
    return [column for column in rows if column.name not in table.names]


def _fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether every value of one type is one of the other; sizes of vectors are checked by row."""
    if given == wanted:
        return True
    if pa.types.is_integer(given) and pa.types.is_integer(wanted):
        same_sign = pa.types.is_signed_integer(given) == pa.types.is_signed_integer(wanted)
        return bool(same_sign and given.bit_width <= wanted.bit_width)
    if pa.types.is_floating(given) and pa.types.is_floating(wanted):
        return bool(given.bit_width <= wanted.bit_width)
    if pa.types.is_list(given) and pa.types.is_fixed_size_list(wanted):
        return _fits(given.value_type, wanted.value_type)
    return bool(pa.types.is_string(given) and pa.types.is_large_string(wanted))


def conformed_batches(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The rows of some batches with the columns of a table."""
    for batch in batches:
        yield from conformed(pa.Table.from_batches([batch]), schema).to_batches()


def conformed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with the columns of a table, in its order; what they lack is null."""
    columns = [
        _converted(rows.column(column.name), column)
        if column.name in rows.column_names
        else pa.nulls(rows.num_rows, column.type)
        for column in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _converted(values: pa.ChunkedArray, column: pa.Field) -> pa.ChunkedArray:
    try:
        return values.cast(column.type)
    except pa.ArrowInvalid as error:
        size = getattr(column.type, "list_size", None)
        what = f"a vector of {size} numbers" if size else str(column.type)
        raise SinkError(
            f"column {column.name} holds values that cannot be {what}: {error}"
        ) from error
