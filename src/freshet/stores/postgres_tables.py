"""Tables of PostgreSQL: what they look like, and how they are made to fit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from freshet.errors import SinkError
from freshet.stores.postgres import TableName, name

_ONE_AT_A_TIME: Final = 7_362_047_115
"""The lock of whoever makes or changes tables for a sink."""


@dataclass(frozen=True)
class Shape:
    """A table as it is."""

    table_id: str
    columns: Mapping[str, str]
    """SQL types by name, in order."""


def shape_of(cursor: Any, table: TableName) -> Shape | None:
    """None if there is no such table."""
    cursor.execute("SELECT to_regclass(%s)::oid::bigint", [str(table)])
    (oid,) = cursor.fetchone()
    if oid is None:
        return None
    cursor.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
        "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        [oid],
    )
    return Shape(str(oid), dict(cursor.fetchall()))


def make(
    cursor: Any, table: TableName, columns: Mapping[str, str], key: str | None, *, is_asked: bool
) -> Shape:
    """The table with at least these columns; makes it and adds columns only if that is asked."""
    cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_ONE_AT_A_TIME])
    found = shape_of(cursor, table)
    if found is None and not is_asked:
        raise SinkError(f"there is no table {table} in the database: make it, or say create=True")
    if found is None:
        told = [f"{name(column)} {kind}" for column, kind in columns.items()]
        told += [] if key is None else [f"PRIMARY KEY ({name(key)})"]
        cursor.execute(f"CREATE TABLE {table} ({', '.join(told)})")
    lacking = [] if found is None else [one for one in columns if one not in found.columns]
    if lacking and not is_asked:
        raise SinkError(
            f"the table {table} has no column {', '.join(lacking)}: add it, or say create=True"
        )
    for column in lacking:
        cursor.execute(f"ALTER TABLE {table} ADD COLUMN {name(column)} {columns[column]}")
    shape = shape_of(cursor, table) or Shape("", {})
    if key is not None:
        _check_unique(cursor, table, shape, key)
    return shape


def _check_unique(cursor: Any, table: TableName, shape: Shape, key: str) -> None:
    cursor.execute(
        "SELECT count(*) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid "
        "AND a.attnum = i.indkey[0] WHERE i.indrelid = %s AND i.indisunique AND i.indnkeyatts = 1 "
        "AND i.indpred IS NULL AND a.attname = %s",
        [shape.table_id, key],
    )
    if not cursor.fetchone()[0]:
        raise SinkError(
            f"the column {key} of the table {table} is not unique, so no row can be found by it: "
            f"CREATE UNIQUE INDEX ON {table} ({name(key)})"
        )


def make_staging(
    cursor: Any,
    staging: TableName | str,
    like: TableName,
    columns: Sequence[str],
    further: Mapping[str, str],
) -> None:
    """An empty table for rows on their way: types of another one, and none of its constraints.

    A mere name makes one that is gone with the transaction.
    """
    kind = "TEMP" if isinstance(staging, str) else "UNLOGGED"
    place = name(staging) if isinstance(staging, str) else str(staging)
    chosen = [name(one) for one in columns]
    chosen += [f"NULL::{sql} AS {name(one)}" for one, sql in further.items()]
    ending = "ON COMMIT DROP" if isinstance(staging, str) else ""
    cursor.execute(
        f"CREATE {kind} TABLE {place} {ending} AS "
        f"SELECT {', '.join(chosen)} FROM {like} WITH NO DATA"
    )


def sweep(cursor: Any, like: TableName, prefix: str) -> int:
    """Drops tables whose names begin so; how many."""
    cursor.execute(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND starts_with(relname, %s) "
        "AND relnamespace = to_regnamespace(%s)",
        [prefix, name(like.schema)],
    )
    left = [row[0] for row in cursor.fetchall()]
    for one in left:
        cursor.execute(f"DROP TABLE IF EXISTS {like.beside(one)}")
    return len(left)


def has_vectors(cursor: Any) -> bool:
    """Whether the extension pgvector is there."""
    cursor.execute("SELECT count(*) FROM pg_extension WHERE extname = 'vector'")
    return bool(cursor.fetchone()[0])
