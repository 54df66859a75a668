"""Tombstones: which keys were deleted at which version, so that late older events stay dead."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Self

import pyarrow as pa

from freshet import schemas
from freshet.errors import TableMissingError
from freshet.stores import lance_rows
from freshet.stores.lance_tables import LanceTable

_FOLD_EVERY: Final = 8
"""Folding takes about as long as one look-up in so many small fragments costs more."""
_OF_ALL_KEYS: Final = "key IS NULL"


class Tombstones:
    """The side table of one index.

    Guarantee: burying a key twice has the effect of burying it once, at the greater version. A
    crash after burying and before the index's commit leaves tombstones of deletes that the replay
    of the batch carries out. What is older than the retention may be forgotten: an event that comes
    later still, and is older than the delete, then brings its record back until `verify` finds it.
    """

    @classmethod
    def beside(cls, table: str, retention: timedelta | None = None) -> Self:
        """The side table of the table at a place; None: tombstones are kept for ever."""
        return cls(f"{table.removesuffix('.lance')}_tombstones.lance", retention)

    def __init__(self, uri: str, retention: timedelta | None = None) -> None:
        self.uri = uri
        self._retention = retention
        self._burials = 0
        self._floor: str | None = None

    def floor(self) -> str:
        """The version below which everything was deleted at once; empty if that never was."""
        if self._floor is None:
            try:
                LanceTable.open(self.uri)
            except TableMissingError:
                return ""
            found = lance_rows.matching(self.uri, ["record_version"], _OF_ALL_KEYS)
            self._floor = max(found.column("record_version").to_pylist(), default="")
        return self._floor

    def bury(self, deleted: Mapping[str | int, str], at: datetime, floor: str = "") -> None:
        """Adds keys with the versions that deleted them, in one commit; a floor is for all keys."""
        if not deleted and not floor:
            return
        table = LanceTable.create(self.uri, schemas.TOMBSTONES, key="key")
        keys = [*map(str, deleted), *([None] if floor else [])]
        rows = pa.Table.from_arrays(
            [
                pa.array(keys, pa.string()),
                pa.array([*deleted.values(), *([floor] if floor else [])], pa.string()),
                pa.repeat(pa.scalar(at, schemas.UTC_TIME), len(keys)),
            ],
            schema=schemas.TOMBSTONES,
        )
        table.commit(None, table.write_files(rows.to_reader()), {})
        self._floor = max(self.floor(), floor)
        self._fold(at)

    def _fold(self, at: datetime) -> None:
        """Keeps look-ups cheap: old ones leave, small fragments together, new keys indexed."""
        if self._burials % _FOLD_EVERY == 0:
            if self._retention is not None:
                lance_rows.delete_matching(self.uri, _older_than(at - self._retention))
            table = LanceTable.open(self.uri)
            table.compact()
            table.reopened().index_new_keys("key")
        self._burials += 1


def _older_than(moment: datetime) -> str:
    """A floor is one row, and stays."""
    then = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return f"NOT ({_OF_ALL_KEYS}) AND deleted_at < timestamp '{then}'"


def buried(uri: str, keys: Sequence[str | int]) -> dict[str, str]:
    """The greatest version at which each of these keys was deleted; runs on executors too."""
    try:
        table = LanceTable.open(uri)
    except TableMissingError:
        return {}
    found = table.lookup("key", [str(key) for key in keys], ["key", "record_version"])
    pairs = zip(
        *(found.column(name).to_pylist() for name in ("key", "record_version")), strict=True
    )
    versions: dict[str, str] = {}
    for key, version in pairs:
        versions[key] = max(version, versions.get(key, ""))
    return versions
