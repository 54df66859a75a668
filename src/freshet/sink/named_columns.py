"""Columns that a sink is told the names of: are they there, and of a usable type?"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from freshet.errors import SinkError

_TYPES: Final = {
    "key": ("bigint", "int", "string"),
    "version": ("string",),
    "deleted": ("boolean",),
}


def check_named(
    rows: DataFrame, *, key: str | None, version: str | None, deleted: str | None
) -> None:
    """Raises before anything is made; None: there is no such column."""
    types = dict(rows.dtypes)
    named = {"key": key, "version": version, "deleted": deleted}
    for role, column in named.items():
        if column is not None and column not in types:
            without = "" if role == "key" else f", or say {role}=None if there is none"
            raise SinkError(f'there is no column {column}: name it, {role}="…"{without}')
    for role, column in named.items():
        if column is not None and types[column] not in _TYPES[role]:
            raise SinkError(
                f"the {role} column {column} is {types[column]}: "
                f"make it {' or '.join(_TYPES[role])}"
            )


def counted(rows: DataFrame, *, key: str | None, version: str | None) -> int:
    """How many rows there are; raises if one lacks what it is known by, or cannot be told apart."""
    if key is None:
        return rows.count()
    named = [key] if version is None else [key, version]
    asked = [F.count(F.lit(1)), *(F.count(F.col(column)) for column in named)]
    if version is None:
        asked.append(F.count_distinct(F.col(key)))
    (count, *found) = rows.agg(*asked).collect()[0]
    check_told_apart(count, dict(zip(named, found, strict=False)), key, found[-1], version)
    return int(count)


def check_told_apart(
    rows: int, filled: Mapping[str, int], key: str, keys: int, version: str | None
) -> None:
    """Raises if a row lacks what it is known by, or if nothing tells rows of one key apart."""
    for column, there in filled.items():
        if there < rows:
            raise SinkError(f"there are rows without a {column}: leave them out with a filter")
    if version is None and keys < rows:
        raise SinkError(
            f"a {key} stands more than once in a batch, and without a version nothing tells which "
            'row is newer: name a column, version="…", or aggregate the rows'
        )
