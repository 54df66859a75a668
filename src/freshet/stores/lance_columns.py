"""Columns of Lance tables that come, leave and widen while the table is in use."""

from collections.abc import Sequence
from typing import Any, Final

import lance
import pyarrow as pa

from freshet.stores.lance_commits import translating

LEFTOVER: Final = "__freshet_"
"""How the names begin of columns that a crash may leave behind."""

_SQL_TYPES: Final = {pa.float64(): "double", pa.int64(): "bigint", pa.string(): "string"}


def add(uri: str, fields: Sequence[pa.Field]) -> None:
    """Adds columns, null in all rows that are there; one commit."""
    with translating("add columns to", uri):
        lance.dataset(uri).add_columns(list(fields))


def drop(uri: str, names: Sequence[str]) -> None:
    """Removes columns; one commit, and no data file is written."""
    with translating("drop columns of", uri):
        lance.dataset(uri).drop_columns(list(names))


def widen(uri: str, field: pa.Field) -> None:
    """Gives a column a wider type, with the values that it has.

    Lance casts no whole numbers to fractions in place. So the values are copied to a new column,
    the two change names in one commit, and the old one leaves: a reader always sees the column. A
    crash between leaves a column whose name begins with `LEFTOVER`, to be dropped.
    """
    name, wide, narrow = field.name, f"{LEFTOVER}wide", f"{LEFTOVER}narrow"
    with translating(f"widen the column {name} of", uri):
        table = lance.dataset(uri)
        table.add_columns({wide: f"cast(`{name}` as {_SQL_TYPES[field.type]})"})
        swap: Any = ({"path": name, "name": narrow}, {"path": wide, "name": name})
        table.alter_columns(*swap)
        table.drop_columns([narrow])
