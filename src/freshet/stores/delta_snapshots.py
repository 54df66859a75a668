"""What the log of a Delta table tells, and small Delta tables as single Parquet files."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from freshet.errors import StoreError
from freshet.stores.copies import make_parents, resolve


@dataclass(frozen=True)
class LogFacts:
    """A table as its log describes it."""

    table_id: str
    version: int
    rows: int
    least: int | None
    """Of the column that was asked for; None in an empty table."""
    greatest: int | None
    transaction: int | None = None
    """The newest number that the application asked for has committed with."""


@dataclass(frozen=True)
class Exported:
    """A table in one file."""

    rows: int
    version: int
    configuration: Mapping[str, str]


def log_facts(uri: str, column: str, application: str | None = None) -> LogFacts | None:
    """The newest version, from the log alone where it has statistics; None if there is no table."""
    try:
        table = DeltaTable(uri)
        files = pa.table(table.get_add_actions(flatten=True))
        least, greatest = _range_of(table, files, column)
        known = None if application is None else table.transaction_version(application)
        rows = sum(files.column("num_records").to_pylist()) if files.num_rows else 0
        return LogFacts(str(table.metadata().id), table.version(), rows, least, greatest, known)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise StoreError("read the log of", uri, error) from error


def _range_of(table: DeltaTable, files: pa.Table, column: str) -> tuple[int | None, int | None]:
    if not files.num_rows:
        return None, None
    names = (f"min.{column}", f"max.{column}")
    has_all = all(name in files.column_names and not files[name].null_count for name in names)
    if has_all:
        return pc.min(files[names[0]]).as_py(), pc.max(files[names[1]]).as_py()
    found = [pc.min_max(batch.column(column)).as_py() for batch in _batches(table, [column])]
    values = [one for one in found if one["min"] is not None]
    return (
        min((one["min"] for one in values), default=None),
        max((one["max"] for one in values), default=None),
    )


def export(uri: str, target: str) -> Exported:
    """Writes the newest version of a table to a Parquet file, batch by batch."""
    system, path = resolve(target)
    rows = 0
    try:
        table = DeltaTable(uri)
        schema = pa.schema(table.schema().to_arrow())
        make_parents(system, path)
        with pq.ParquetWriter(path, schema, filesystem=system) as writer:
            for batch in _batches(table, schema.names):
                rows += batch.num_rows
                writer.write_batch(batch.cast(schema))
        return Exported(rows, table.version(), dict(table.metadata().configuration))
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise StoreError("copy the table", uri, error) from error


def load(
    source: str, uri: str, configuration: Mapping[str, str], where: pc.Expression | None = None
) -> int:
    """Makes a table of a Parquet file, its rows in one commit; returns how many there are."""
    system, path = resolve(source)
    try:
        found = ds.dataset(path, filesystem=system, format="parquet")
        schema = Schema.from_arrow(found.schema)
        table = DeltaTable.create(uri, schema, configuration=dict(configuration))
        rows = int(found.count_rows(filter=where))
        if rows:
            write_deltalake(table, found.scanner(filter=where).to_reader(), mode="append")
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise StoreError("write the table", uri, error) from error
    return rows


def read_export(source: str, columns: list[str]) -> list[dict[str, Any]]:
    """Some columns of a table in a Parquet file."""
    system, path = resolve(source)
    try:
        rows: list[dict[str, Any]] = pq.read_table(
            path, columns=columns, filesystem=system
        ).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise StoreError("read", source, error) from error
    return rows


def _batches(table: DeltaTable, columns: list[str]) -> Iterator[pa.RecordBatch]:
    yield from pa.RecordBatchReader.from_stream(table.scan(columns=columns))
