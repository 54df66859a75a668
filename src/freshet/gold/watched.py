"""Which keys are to be watched: their events tell something of a record that was made without them.

A record is *held* if a value that it needs is in no event yet: every event of its key, and of the
key that it had before, may bring it. It has *lent* values if they were found under an old key:
events of that key that come late may have better ones.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import pyarrow as pa

from freshet import schemas
from freshet.errors import TableMissingError
from freshet.stores import lance_rows
from freshet.stores.lance_tables import LanceTable
from freshet.stores.sql import is_among, quoted

HELD: Final = "held"
LENT: Final = "lent"
_KEYS_AT_ONCE: Final = 1_000


class Watch(NamedTuple):
    """An event of `key` may tell something of `dependent`."""

    key: str
    dependent: str
    reason: str


class Watched:
    """The side table of one index; empty for most.

    Guarantee: what is watched is on record before the batch that needs it lands, and is released
    after the batch that settles it has landed. A crash between leaves entries that cost a look into
    Bronze and change nothing.
    """

    def __init__(self, table: str) -> None:
        self.uri = f"{table.removesuffix('.lance')}_watched.lance"

    def is_empty(self) -> bool:
        """Whether nothing is watched."""
        try:
            return LanceTable.open(self.uri).count() == 0
        except TableMissingError:
            return True

    def add(self, watches: Iterable[Watch], at: datetime) -> None:
        """Watches further keys; what is watched already may stand twice."""
        rows = [watch._asdict() | {"since": at} for watch in sorted(set(watches))]
        if rows:
            table = LanceTable.create(self.uri, schemas.WATCHED, key="key")
            made = pa.Table.from_pylist(rows, schemas.WATCHED)
            table.commit(None, table.write_files(made.to_reader()), {})

    def dependents(self, keys: Sequence[str]) -> set[str]:
        """The records that events of some keys may tell something of."""
        if self.is_empty():
            return set()
        found = LanceTable.open(self.uri).lookup("key", keys, ["key", "dependent"])
        return set(found.column("dependent").to_pylist())

    def held(self) -> set[str]:
        """The records that wait for a value."""
        if self.is_empty():
            return set()
        found = lance_rows.matching(self.uri, ["dependent"], f"reason = {quoted(HELD)}")
        return set(found.column("dependent").to_pylist())

    def release(self, records: Sequence[str]) -> None:
        """Records that wait no longer."""
        if self.is_empty():
            return
        for start in range(0, len(records), _KEYS_AT_ONCE):
            some = is_among("dependent", records[start : start + _KEYS_AT_ONCE])
            lance_rows.delete_matching(self.uri, f"reason = {quoted(HELD)} AND {some}")
