"""What an envelope makes of one record: the fields that every tool's format comes down to."""

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from freshet import variants

TOMBSTONE: Final = "tombstone"


def change(
    *,
    image: Column,
    key: Sequence[str],
    op: Column,
    is_deleted: Column,
    position: Column,
    error: Column,
    changed_at: Column | None = None,
    record: Column | None = None,
) -> Column:
    """One column with all fields of a change. A null `key` without an `error`: nothing to do.

    `image` is the row, as a VARIANT; `position` is the version without the arrival; `record` is
    JSON of the row image, left out where that is the raw text itself.
    """
    return F.struct(
        key_of(image, key).alias("key"),
        position.alias("position"),
        is_deleted.alias("is_deleted"),
        op.alias("op"),
        (F.lit(None) if record is None else record).cast("string").alias("record"),
        (F.lit(None) if changed_at is None else changed_at).cast("timestamp").alias("changed_at"),
        error.cast("string").alias("error"),
    )


def key_of(image: Column, key: Sequence[str]) -> Column:
    """One column's text, or several columns' texts as a JSON array; null if any is missing."""
    parts = [variants.text(image, name) for name in key]
    if len(parts) == 1:
        return parts[0]
    has_all = reduce(lambda left, right: left & right, (part.isNotNull() for part in parts))
    return F.when(has_all, F.to_json(F.array(*parts)))


def missing_key(key: Sequence[str]) -> str:
    """Why a change without a key is not understood."""
    names = ", ".join(key)
    return f"no value in the key column {names}" if len(key) == 1 else f"no value in one of {names}"
