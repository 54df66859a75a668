"""Columns that a sink is told the names of: are they there, and of a usable type?"""

from typing import Final

from pyspark.sql import DataFrame

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
