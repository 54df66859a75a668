"""What of the schema is surfaced when the index takes all columns of the records. Pure."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from freshet import schemas
from freshet.evolution.schema import Column, Schema
from freshet.evolution.types import Kind, column_name

_TYPES: Final = {
    Kind.BOOLEAN: "boolean",
    Kind.LONG: "long",
    Kind.DECIMAL: "double",
    Kind.DOUBLE: "double",
}
"""Types of attributes; what is not here is text, objects and arrays as JSON."""
_LANCES_OWN: Final = {
    "_distance",
    "_relevance_score",
    "_row_created_at_version",
    "_row_last_updated_at_version",
    "_rowaddr",
    "_rowid",
    "_rowoffset",
    "_score",
}
_RESERVED: Final = {*schemas.INDEX_COLUMNS, schemas.RESCUED, "is_deleted", *_LANCES_OWN}
_UNFIT: Final = set(".`'\"\\")


@dataclass(frozen=True)
class Surfaced:
    """A column of the records that the index has, or had."""

    name: str
    type: str
    """One of the types of attributes; wide enough for all values that it ever took."""
    column: Column


def surfaced(schema: Schema) -> list[Surfaced]:
    """The columns of the records that can be columns of the index, in the order they came in.

    Of names that differ in nothing but case the first one counts: Spark takes them for one.
    """
    found: dict[str, Surfaced] = {}
    for path, column in schema.columns.items():
        name = column_name(path)
        if name is not None and is_fit(name) and name.casefold() not in found:
            kind = _TYPES.get(column.widest, "string")
            found[name.casefold()] = Surfaced(name, kind, column)
    return list(found.values())


def is_fit(name: str, reserved: Collection[str] = frozenset(_RESERVED)) -> bool:
    """Whether a column of the records can be one of the index under its own name."""
    is_plain = name.isprintable() and bool(name.strip(" *")) and not _UNFIT & set(name)
    return is_plain and not name.startswith("__") and name.casefold() not in reserved
