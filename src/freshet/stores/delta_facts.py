"""What the log of a Delta table tells of it, without a look at its rows where that can be."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from freshet.errors import StoreError


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


def greatest(uri: str, column: str) -> int | None:
    """The greatest number in a column; None if there is no table, or no row."""
    facts = log_facts(uri, column)
    return None if facts is None else facts.greatest


def earliest(uri: str, column: str) -> datetime | None:
    """The least time in a column, from the log alone; None if there is no table, or no row."""
    try:
        files = pa.table(DeltaTable(uri).get_add_actions(flatten=True))
    except TableNotFoundError:
        return None
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise StoreError("read the log of", uri, error) from error
    name = f"min.{column}"
    return pc.min(files[name]).as_py() if name in files.column_names else None


def bounds(uri: str, column: str) -> set[str]:
    """The least and the greatest text of a column in each data file, from the log alone."""
    try:
        files = pa.table(DeltaTable(uri).get_add_actions(flatten=True))
    except TableNotFoundError:
        return set()
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise StoreError("read the log of", uri, error) from error
    names = [name for name in (f"min.{column}", f"max.{column}") if name in files.column_names]
    return {text for name in names for text in files[name].to_pylist() if text is not None}


def _range_of(table: DeltaTable, files: pa.Table, column: str) -> tuple[int | None, int | None]:
    if not files.num_rows:
        return None, None
    names = (f"min.{column}", f"max.{column}")
    has_all = all(name in files.column_names and not files[name].null_count for name in names)
    if has_all:
        return pc.min(files[names[0]]).as_py(), pc.max(files[names[1]]).as_py()
    found = [pc.min_max(batch.column(column)).as_py() for batch in batches_of(table, [column])]
    values = [one for one in found if one["min"] is not None]
    return (
        min((one["min"] for one in values), default=None),
        max((one["max"] for one in values), default=None),
    )


def batches_of(table: DeltaTable, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Some columns of a table, batch by batch."""
    yield from pa.RecordBatchReader.from_stream(table.scan(columns=columns))
