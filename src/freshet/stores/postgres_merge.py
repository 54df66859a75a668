"""What a batch does to a table of PostgreSQL, from a staging table, in the caller's transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from freshet.errors import StoreError
from freshet.stores.postgres import TableName, name

DELETED: Final = "freshet_deleted"
PART: Final = "freshet_part"
"""Columns that a staging table has besides: whether a row deletes, and which task brought it."""
_NEWEST: Final = "freshet_newest"
_AT: Final = "freshet_at"
_MAY_SORT_IN_MEMORY: Final = (
    "SELECT set_config('work_mem', '64MB', true) "
    "WHERE pg_size_bytes(current_setting('work_mem')) < pg_size_bytes('64MB')"
)
_FORGET_EVERY: Final = 100


@dataclass(frozen=True)
class Merged:
    """Records, counted."""

    upserted: int = 0
    deleted: int = 0
    stale: int = 0
    unchanged: int = 0


@dataclass(frozen=True)
class Merge:
    """How rows of a staging table get into a table."""

    table: TableName
    columns: tuple[str, ...]
    key: str | None = None
    version: str | None = None
    """A column of text that sorts by its bytes; None: the later batch wins."""
    is_whole: bool = False
    """Whether the rows are all that the table has from now on."""
    retention: timedelta | None = None
    """For how long deleted keys are remembered; None: for ever."""

    @property
    def tombstones(self) -> TableName:
        """Keys that were deleted, with the versions that did it."""
        return self.table.beside(f"{self.table.table}_tombstones")

    def make_tombstones(self, cursor: Any) -> None:
        """The side table; nothing if it is there or not needed."""
        is_needed = self.key is not None and self.version is not None
        if is_needed and not self.tombstones.is_there(cursor):
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {self.tombstones} (key text PRIMARY KEY, "
                "version text NOT NULL, deleted_at timestamptz NOT NULL DEFAULT now())"
            )

    def run(self, cursor: Any, staging: str, parts: Sequence[str], number: int) -> Merged:
        """Carries it out; only rows that the named tasks brought count."""
        of_parts = f"FROM {staging} WHERE {name(PART)} = ANY(%s)"
        if self.key is None:
            return self._add(cursor, of_parts, parts)
        cursor.execute(_MAY_SORT_IN_MEMORY)
        self._choose_newest(cursor, of_parts, parts)
        stale, unchanged = self._drop_stale(cursor) if self.version is not None else (0, 0)
        deleted = self._delete(cursor)
        upserted = self._upsert(cursor, staging)
        if self.version is not None and self.retention and number % _FORGET_EVERY == 0:
            cursor.execute(
                f"DELETE FROM {self.tombstones} WHERE deleted_at < now() - %s", [self.retention]
            )
        return Merged(upserted, deleted, stale, unchanged)

    def _add(self, cursor: Any, of_parts: str, parts: Sequence[str]) -> Merged:
        if self.is_whole:
            cursor.execute(f"DELETE FROM {self.table}")
        chosen = ", ".join(map(name, self.columns))
        cursor.execute(
            f"INSERT INTO {self.table} ({chosen}) SELECT {chosen} {of_parts}", [list(parts)]
        )
        return Merged(upserted=cursor.rowcount)

    def _choose_newest(self, cursor: Any, of_parts: str, parts: Sequence[str]) -> None:
        """One row a key: the greatest version, and a delete on a full tie.

        The rows stay where they are: what is sorted and looked up is keys, versions and places.
        """
        key, gone = name(self.key or ""), name(DELETED)
        order = [key, *([f"{self._version('')} DESC"] if self.version else []), f"{gone} DESC"]
        kept = [key, *([name(self.version)] if self.version else []), gone]
        cursor.execute(
            f"CREATE TEMP TABLE {_NEWEST} ON COMMIT DROP AS SELECT DISTINCT ON ({key}) "
            f"ctid AS {_AT}, {', '.join(kept)} {of_parts} ORDER BY {', '.join(order)}",
            [list(parts)],
        )
        cursor.execute(f"SELECT count(*) FROM {_NEWEST} WHERE {key} IS NULL")
        if cursor.fetchone()[0]:
            raise StoreError("write to", str(self.table), f"a row has no {self.key}")
        cursor.execute(f"ANALYZE {_NEWEST}")

    def _drop_stale(self, cursor: Any) -> tuple[int, int]:
        """Leaves the rows that count; how many were older than what is known, or the same."""
        key, ours = name(self.key or ""), self._version("n.")
        buried, theirs = 't.version COLLATE "C"', self._version("t.")
        leaving = f"DELETE FROM {_NEWEST} n USING"
        cursor.execute(
            f"{leaving} {self.tombstones} t WHERE t.key = n.{key}::text AND ({ours} < {buried} "
            f"OR ({ours} = {buried} AND NOT n.{name(DELETED)}))"
        )
        older = cursor.rowcount
        cursor.execute(
            f"WITH dropped AS ({leaving} {self.table} t WHERE t.{key} = n.{key} AND "
            f"({ours} < {theirs} OR ({ours} = {theirs} AND NOT n.{name(DELETED)})) "
            f"RETURNING {ours} < {theirs} AS is_older) "
            "SELECT count(*) FILTER (WHERE is_older), count(*) FILTER (WHERE NOT is_older) "
            "FROM dropped"
        )
        older_too, unchanged = cursor.fetchone()
        return older + older_too, unchanged

    def _delete(self, cursor: Any) -> int:
        key, gone = name(self.key or ""), f"n.{name(DELETED)}"
        cursor.execute(
            f"DELETE FROM {self.table} t USING {_NEWEST} n WHERE {gone} AND t.{key} = n.{key}"
        )
        if self.version is not None:
            cursor.execute(
                f"INSERT INTO {self.tombstones} AS t (key, version) "
                f"SELECT n.{key}::text, n.{name(self.version)} FROM {_NEWEST} n WHERE {gone} "
                "ON CONFLICT (key) DO UPDATE SET version = EXCLUDED.version, deleted_at = now() "
                'WHERE t.version COLLATE "C" < EXCLUDED.version COLLATE "C"'
            )
        cursor.execute(f"SELECT count(*) FROM {_NEWEST} n WHERE {gone}")
        return int(cursor.fetchone()[0])

    def _upsert(self, cursor: Any, staging: str) -> int:
        key = name(self.key or "")
        chosen = ", ".join(map(name, self.columns))
        brought = ", ".join(f"s.{name(one)}" for one in self.columns)
        others = [name(one) for one in self.columns if one != self.key]
        changes = ", ".join(f"{one} = EXCLUDED.{one}" for one in others)
        guard = f"WHERE {self._version('t.')} < {self._version('EXCLUDED.')}"
        cursor.execute(
            f"INSERT INTO {self.table} AS t ({chosen}) SELECT {brought} FROM {staging} s "
            f"JOIN {_NEWEST} n ON s.ctid = n.{_AT} WHERE NOT n.{name(DELETED)} "
            f"ON CONFLICT ({key}) "
            + (
                f"DO UPDATE SET {changes} {guard if self.version else ''}"
                if others
                else "DO NOTHING"
            )
        )
        return int(cursor.rowcount)

    def _version(self, of: str) -> str:
        return f'{of}{name(self.version or "")} COLLATE "C"'
