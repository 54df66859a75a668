"""Tombstones: which keys were deleted at which version, so that late older events stay dead."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Self

import pyarrow as pa

from freshet import schemas
from freshet.errors import TableMissingError
from freshet.stores.lance_tables import LanceTable

_FOLD_EVERY: Final = 32


class Tombstones:
    """The side table of one index.

    Guarantee: burying a key twice has the effect of burying it once, at the greater version. A
    crash after burying and before the index's commit leaves tombstones of deletes that the replay
    of the batch carries out.
    """

    @classmethod
    def beside(cls, table: str) -> Self:
        """The side table of the table at a place."""
        return cls(f"{table.removesuffix('.lance')}_tombstones.lance")

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._burials = 0

    def bury(self, deleted: Mapping[str | int, str], at: datetime) -> None:
        """Adds keys with the versions that deleted them, in one commit."""
        if not deleted:
            return
        table = LanceTable.create(self.uri, schemas.TOMBSTONES, key="key")
        rows = pa.Table.from_arrays(
            [
                pa.array(map(str, deleted), pa.string()),
                pa.array(deleted.values(), pa.string()),
                pa.repeat(pa.scalar(at, schemas.UTC_TIME), len(deleted)),
            ],
            schema=schemas.TOMBSTONES,
        )
        table.commit(None, table.write_files(rows.to_reader()), {})
        self._fold()

    def _fold(self) -> None:
        """Keeps look-ups cheap: small fragments together, new keys indexed."""
        self._burials += 1
        if self._burials % _FOLD_EVERY == 0:
            table = LanceTable.open(self.uri)
            table.compact()
            table.reopened().index_new_keys("key")


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
