"""Keeping Delta tables small and quick to open, without the JVM."""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from freshet.errors import StoreError
from freshet.stores.delta_tables import exists

_READERS_MAY_NEED_FOR_HOURS: Final = 24 * 30
"""A stream that was stopped for so long still finds the files that its next batch names."""


@dataclass(frozen=True)
class DeltaFiles:
    """How many files a table's newest version has, and what is in them."""

    files: int = 0
    rows: int = 0
    bytes: int = 0


def files_of(uri: str) -> DeltaFiles:
    """From the log alone; nothing if there is no table."""
    if not exists(uri):
        return DeltaFiles()
    try:
        added = pa.table(DeltaTable(uri).get_add_actions())
    except (DeltaError, OSError) as error:
        raise StoreError("look at the files of", uri, error) from error
    rows, sizes = (added.column(name).to_pylist() for name in ("num_records", "size_bytes"))
    return DeltaFiles(len(sizes), sum(count or 0 for count in rows), sum(sizes))


def fold(uri: str, target_bytes: int) -> None:
    """Folds small files into ones of about this size; streams that read the table see no change.

    The small files go when no reader can need them any more.
    """
    try:
        table = DeltaTable(uri)
        table.optimize.compact(target_size=target_bytes)
        table.vacuum(_READERS_MAY_NEED_FOR_HOURS, dry_run=False)
    except (DeltaError, OSError) as error:
        raise StoreError("fold the files of", uri, error) from error
