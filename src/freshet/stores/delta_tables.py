"""Small Delta tables without the JVM (delta-rs), and what their log tells of larger ones."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Schema,
    write_deltalake,
)
from deltalake.exceptions import DeltaError, TableNotFoundError

from freshet.errors import StoreError, TableMissingError
from freshet.stores import file_systems

_COMPACT_EVERY: Final = 32
_COMPACT_TO_BYTES: Final = 1 << 20
# These tables hold what happened, not what was: their own history is of no use for long, and
# every append looks at all of it.
_UPKEEP: Final = {
    "delta.checkpointInterval": "32",
    "delta.logRetentionDuration": "interval 2 minutes",
    "delta.deletedFileRetentionDuration": "interval 5 minutes",
}
_REOPEN_AFTER_S: Final = 60.0
_LOG: Final = "_delta_log"


def exists(uri: str) -> bool:
    """Whether a Delta table is there."""
    try:
        return DeltaTable.is_deltatable(uri)
    except (DeltaError, OSError) as error:
        raise StoreError("look for", uri, error) from error


def newest_version(uri: str) -> int | None:
    """The newest version, by the names in the log alone; None if there is no table."""
    names = file_systems.list_names(f"{uri}/{_LOG}")
    # A commit's name is its number; a checkpoint's begins with it.
    numbers = (name.partition(".")[0] for name in names)
    return max((int(number) for number in numbers if number.isdigit()), default=None)


def create(uri: str, schema: pa.Schema, configuration: Mapping[str, str] | None = None) -> None:
    """Makes an empty table; does nothing if it is there."""
    try:
        DeltaTable.create(uri, Schema.from_arrow(schema), "ignore", configuration=configuration)
    except (DeltaError, OSError) as error:
        raise StoreError("create the Delta table", uri, error) from error


def add_missing_columns(uri: str, schema: pa.Schema) -> None:
    """Adds the columns that the table lacks, null in all its rows."""
    try:
        table = DeltaTable(uri)
        have = {field.name for field in table.schema().fields}
        wanted = Schema.from_arrow(schema).fields
        lacking = [field for field in wanted if field.name not in have]
        if lacking:
            table.alter.add_columns(lacking)
    except (DeltaError, OSError) as error:
        raise StoreError("add columns to", uri, error) from error


def scan(uri: str, columns: Sequence[str], where: str | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a table as they are now, batch by batch; none if there is no table yet."""
    try:
        yield from _rows(DeltaTable(uri), columns, where)
    except TableNotFoundError:
        return
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise StoreError("read", uri, error) from error


def _rows(table: DeltaTable, columns: Sequence[str], where: str | None) -> Iterator[pa.RecordBatch]:
    yield from pa.RecordBatchReader.from_stream(table.scan(columns=list(columns), predicate=where))


class SmallTable:
    """A Delta table that one process appends small rows to.

    Guarantee: an append is atomic; a crash leaves it whole or absent. Appends stay cheap for ever,
    since every 32nd one folds the small files together, and the first one if there are many. It
    holds no rows in memory, only the names of its files, whose number that folding bounds.

    Nobody else may fold it: delta-rs lets two foldings of one version pass, and each brings all
    rows of the files that it folds.
    """

    def __init__(self, uri: str, schema: pa.Schema) -> None:
        self.uri = uri
        self.schema = schema
        self._table: DeltaTable | None = None
        self._used_at = 0.0
        self._appends = 0

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Adds rows in one commit; makes the table on first use."""
        data = pa.Table.from_pylist(list(rows), schema=self.schema)
        try:
            self._write(self._opened_for_write(), data)
            self._fold_small_files()
        except (DeltaError, OSError) as error:
            raise StoreError("append to", self.uri, error) from error

    def _write(
        self, table: DeltaTable, data: pa.Table, properties: CommitProperties | None = None
    ) -> None:
        # To look for old files of the log takes a listing of it, and there are few. Versions are
        # counted and not appends, so that processes that end soon neither all do it nor never.
        cleans = (table.version() + 1) % _COMPACT_EVERY == 0
        write_deltalake(
            table,
            data,
            mode="append",
            commit_properties=properties,
            post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=cleans),
        )

    def scan(
        self, columns: Sequence[str] | None = None, where: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows as they are now, batch by batch; none if the table has not been made yet."""
        names = self.schema.names if columns is None else list(columns)
        wanted = pa.schema([self.schema.field(name) for name in names])
        try:
            for batch in _rows(self._opened_for_read(), names, where):
                yield batch.cast(wanted)
        except TableNotFoundError:
            return
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise StoreError("read", self.uri, error) from error

    def read(
        self, columns: Sequence[str] | None = None, where: str | None = None
    ) -> list[dict[str, Any]]:
        """The rows as they are now, in no order."""
        return [row for batch in self.scan(columns, where) for row in batch.to_pylist()]

    def count(self) -> int:
        """How many rows there are, from the log alone."""
        try:
            return sum(_row_counts(self._opened_for_read()))
        except TableNotFoundError:
            return 0
        except (DeltaError, OSError) as error:
            raise StoreError("read the log of", self.uri, error) from error

    def version(self) -> int:
        """The newest version, whoever wrote it; makes the table on first use."""
        newest = newest_version(self.uri)
        if newest is not None:
            return newest
        try:
            return int(self._opened_for_write().version())
        except (DeltaError, OSError) as error:
            raise StoreError("read the log of", self.uri, error) from error

    def forget(self, where: str) -> None:
        """Removes rows; nothing happens if there is no table.

        An append by somebody else who has had the table open since before is refused.
        """
        try:
            DeltaTable(self.uri).delete(where)
        except TableNotFoundError:
            return
        except (DeltaError, OSError) as error:
            raise StoreError("remove rows of", self.uri, error) from error
        self._table = None

    def _opened_for_read(self) -> DeltaTable:
        """The table as it is now: what is new since it was opened is read, and not all of its log.

        Raises TableNotFoundError if there is none.
        """
        table = self._kept()
        if table is None:
            table = DeltaTable(self.uri)
        else:
            table.update_incremental()
        return self._keep(table)

    def _opened_for_write(self) -> DeltaTable:
        table = self._kept()
        if table is None:
            create(self.uri, self.schema, _UPKEEP)
            table = DeltaTable(self.uri)
        return self._keep(table)

    def _kept(self) -> DeltaTable | None:
        # Of an older state the log that leads to the newest one may have been cleaned away.
        is_old = time.monotonic() - self._used_at > _REOPEN_AFTER_S
        return None if is_old else self._table

    def _keep(self, table: DeltaTable) -> DeltaTable:
        self._table, self._used_at = table, time.monotonic()
        return table

    def _fold_small_files(self) -> None:
        self._appends += 1
        if self._table is not None and self._is_time_to_fold(self._table):
            self._table.optimize.compact(target_size=_COMPACT_TO_BYTES)
            self._table.vacuum(dry_run=False)

    def _is_time_to_fold(self, table: DeltaTable) -> bool:
        """Processes that end soon leave their files to the next one."""
        if self._appends == 1:
            return len(table.file_uris()) >= 2 * _COMPACT_EVERY
        return self._appends % _COMPACT_EVERY == 0


def rows_and_nulls(uri: str, column: str, what: str) -> tuple[int, int]:
    """A table's rows, and how many of them are null in one column, from the log alone."""
    try:
        actions = pa.table(DeltaTable(uri).get_add_actions(flatten=True))
    except TableNotFoundError:
        raise TableMissingError(what, uri) from None
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise StoreError("read the log of", uri, error) from error
    nulls = actions.column(f"null_count.{column}").to_pylist() if actions.num_rows else []
    return sum(actions.column("num_records").to_pylist()), sum(nulls)


def _row_counts(table: DeltaTable) -> list[int]:
    counts: list[int] = pa.table(table.get_add_actions()).column("num_records").to_pylist()
    return counts
