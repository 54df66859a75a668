"""Small Delta tables that several processes append to, each on top of what it has read."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from freshet.errors import StoreError
from freshet.stores.delta_tables import SmallTable, newest_version


class SharedTable(SmallTable):
    """A small Delta table whose appends are compare-and-swap.

    Guarantee: rows are appended only if nobody has written since the version that they were made
    for, so what one process decides by what it read, holds.
    """

    def newest(self) -> int | None:
        """The newest version, whoever wrote it; None if there is no table. Makes nothing."""
        return newest_version(self.uri)

    def snapshot(self) -> tuple[int | None, list[dict[str, Any]]]:
        """The newest version, and the rows that it has."""
        try:
            table = self._opened_for_read()
            found = table.scan(columns=self.schema.names)
            batches = pa.RecordBatchReader.from_stream(found)
            rows = [row for batch in batches for row in batch.cast(self.schema).to_pylist()]
            return int(table.version()), rows
        except TableNotFoundError:
            return None, []
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise StoreError("read", self.uri, error) from error

    def append_after(self, version: int | None, rows: Sequence[Mapping[str, Any]]) -> int | None:
        """Adds rows if the table is at this version still; returns the new one, or None if not.

        Makes the table if the version is None.
        """
        data = pa.Table.from_pylist(list(rows), schema=self.schema)
        try:
            table = self._opened_for_write()
            if int(table.version()) != (0 if version is None else version):
                return None
            self._write(table, data, CommitProperties(max_commit_retries=0))
            landed = int(table.version())
        except CommitFailedError:
            self._table = None
            return None
        except (DeltaError, OSError) as error:
            raise StoreError("append to", self.uri, error) from error
        # The rows are in; small files that stay for another while cost little.
        with suppress(DeltaError, OSError):
            self._fold_small_files()
        return landed
