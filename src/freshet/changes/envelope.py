"""What an envelope is: how one tool's records are recognised, and what change each of them is."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from freshet import variants
from freshet.settings import DEFAULT_DELETED_COLUMN, DEFAULT_PLACEHOLDER

TOMBSTONE: Final = "tombstone"
"""The op of a record that only repeats a delete."""
TRUNCATE: Final = "truncate"
"""The op of an event that deletes every record whose version is below its own."""
OTHER: Final = "other"
"""The op of a record that is understood and changes nothing: a before-image, a message, DDL."""
WITHOUT_KEY: Final = (TOMBSTONE, TRUNCATE, OTHER)


@dataclass(frozen=True)
class Chosen:
    """What the settings say of the records."""

    key: tuple[str, ...]
    version: str | None = None
    deleted: str = DEFAULT_DELETED_COLUMN
    table: str | None = None
    """Events of other tables count as `OTHER`."""
    types: Mapping[str, str] = field(default_factory=dict)
    placeholder: str = DEFAULT_PLACEHOLDER


@dataclass(frozen=True)
class Marks:
    """The fields by which a tool's records are known: all of one alternative must be there.

    A field is a path from the record's top; it counts as there if its value is not null. A text on
    the way is looked into as JSON, for records that hold their value as text.
    """

    alternatives: tuple[tuple[tuple[str, ...], ...], ...]

    def in_record(self, record: Any) -> bool:
        """Whether a parsed record has the marks."""
        return any(
            all(_at(record, path) is not None for path in paths) for paths in self.alternatives
        )

    def in_variant(self, value: Column) -> Column:
        """The same, of a VARIANT, without looking into texts; never null."""
        found = (
            reduce(Column.__and__, (variants.text(value, *path).isNotNull() for path in paths))
            for paths in self.alternatives
        )
        return F.coalesce(reduce(Column.__or__, found), F.lit(False))


def _at(record: Any, path: Sequence[str]) -> Any:
    for name in path:
        if isinstance(record, str):
            try:
                record = json.loads(record)
            except ValueError:
                return None
        if not isinstance(record, dict):
            return None
        record = record.get(name)
    return record


@dataclass(frozen=True)
class Envelope:
    """One tool's format. `understand` gives the `change` that a parsed record is, or the steps."""

    name: str
    guarantee: str
    """What orders the events of a record, and what is assumed when the source gives no position."""
    marks: Marks
    understand: Callable[[Column, Chosen], Column | variants.Steps]
    recognise: Callable[[Column], Column] | None = None
    """Whether a VARIANT is of this envelope, where that is more than having the marks."""
    leaves_out: bool = False
    """Whether events may leave out values that did not change."""
    tells_of_others: bool = False
    """Whether events may concern other records than their own: an old key, a truncate."""

    def change(self, chosen: Chosen) -> Callable[[Column], Column]:
        """Makes the change that it is of a parsed record."""

        def of_value(value: Column) -> Column:
            understood = self.understand(value, chosen)
            return understood if isinstance(understood, Column) else variants.in_steps(understood)

        return of_value

    def recognises(self, value: Column) -> Column:
        """Whether a VARIANT is of this envelope; never null."""
        return self.marks.in_variant(value) if self.recognise is None else self.recognise(value)


def change(
    *,
    key: Column,
    op: Column,
    is_deleted: Column,
    position: Column,
    error: Column | None = None,
    changed_at: Column | None = None,
    record: Column | None = None,
    old_key: Column | None = None,
    unavailable: Column | None = None,
) -> Column:
    """One column with all fields of a change. A null `key` needs an `op` of `WITHOUT_KEY`.

    `position` is the version without the arrival; `record` is JSON of the row image, left out where
    that is the raw text itself; `unavailable` is a JSON array of the image's fields whose values
    the tool left out.
    """
    return F.struct(
        key.cast("string").alias("key"),
        position.alias("position"),
        is_deleted.alias("is_deleted"),
        op.alias("op"),
        _text(record).alias("record"),
        (F.lit(None) if changed_at is None else changed_at).cast("timestamp").alias("changed_at"),
        _text(error).alias("error"),
        _text(old_key).alias("old_key"),
        _text(unavailable).alias("unavailable"),
    )


def _text(column: Column | None) -> Column:
    return (F.lit(None) if column is None else column).cast("string")


def key_of(image: Column, key: Sequence[str]) -> Column:
    """One column's text, or several columns' texts as a JSON array; null if any is missing."""
    return key_of_texts([variants.text(image, name) for name in key])


def key_of_texts(parts: Sequence[Column]) -> Column:
    """The same, of the columns' texts."""
    if len(parts) == 1:
        return parts[0]
    has_all = reduce(lambda left, right: left & right, (part.isNotNull() for part in parts))
    return F.when(has_all, F.to_json(F.array(*parts)))


def is_of_table(chosen: Chosen, schema: Column, table: Column) -> Column:
    """Whether an event is of the chosen table; true if none is chosen."""
    if chosen.table is None:
        return F.lit(True)
    full_name = F.concat_ws(".", schema, table)
    return F.coalesce((full_name == chosen.table) | (table == chosen.table), F.lit(False))


def missing_key(key: Sequence[str]) -> str:
    """Why a change without a key is not understood."""
    names = ", ".join(key)
    return f"no value in the key column {names}" if len(key) == 1 else f"no value in one of {names}"
