"""The rows of Parquet and ORC files as JSON objects, a row group or a stripe at a time."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from freshet.landing.batches_executor import batch_of, rows_within, slices_of
from freshet.landing.read_options import ReadOptions
from freshet.landing.values_executor import json_rows
from freshet.stores.file_systems import open_random


def read_parquet(uri: str, _: ReadOptions) -> Iterator[pa.RecordBatch]:
    """The rows of all row groups; timestamps of the old 96-bit type in microseconds."""
    with open_random(uri) as opened:
        # In nanoseconds they would silently wrap around outside the years 1677 to 2262.
        file = pq.ParquetFile(
            opened, coerce_int96_timestamp_unit="us", page_checksum_verification=True
        )
        schema = _with_enums(file)
        yield from _numbered(
            batch.cast(schema) if schema != batch.schema else batch for batch in _row_groups(file)
        )


def read_orc(uri: str, _: ReadOptions) -> Iterator[pa.RecordBatch]:
    """The rows of all stripes."""
    from pyarrow import orc

    with open_random(uri) as opened:
        file = orc.ORCFile(opened)
        stripes = (file.read_stripe(number) for number in range(file.nstripes))
        yield from _numbered(part for stripe in stripes for part in slices_of(stripe))


def _numbered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    row = 0
    for batch in batches:
        yield batch_of(json_rows(batch), range(row, row + batch.num_rows))
        row += batch.num_rows


def _row_groups(file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    """One group after the other: all at once, Arrow would fetch the whole file ahead."""
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        size = rows_within(group.total_byte_size, group.num_rows)
        yield from file.iter_batches(batch_size=size, row_groups=[number])


# --- Enums of Parquet: Arrow takes them for binary -----------------------------------------------


def _with_enums(file: pq.ParquetFile) -> pa.Schema:
    columns = [file.schema.column(number) for number in range(len(file.schema))]
    kinds = iter([column.logical_type.type for column in columns])
    schema = file.schema_arrow
    fields = [field.with_type(_with_enum(field.type, kinds)) for field in schema]
    return pa.schema(fields, schema.metadata)


def _with_enum(kind: pa.DataType, leaves: Iterator[str]) -> pa.DataType:
    """The type with enums as text; takes from `leaves` what stands in the file for each leaf."""
    if pt.is_struct(kind):
        return pa.struct([field.with_type(_with_enum(field.type, leaves)) for field in kind])
    if pt.is_map(kind):
        return pa.map_(_with_enum(kind.key_type, leaves), _with_enum(kind.item_type, leaves))
    if pt.is_list(kind):
        return pa.list_(kind.value_field.with_type(_with_enum(kind.value_type, leaves)))
    is_enum = next(leaves) == "ENUM"
    return pa.string() if is_enum and pt.is_binary(kind) else kind
