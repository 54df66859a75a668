"""The `plain` envelope: each record is the row itself, with a version and a deleted flag.

Guarantee: a record's versions are ordered by its version column, ties by arrival; without a version
column by arrival alone, and then a file that is delivered twice counts as newer the second time.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from freshet import variants
from freshet.changes import versions
from freshet.changes.envelope import change
from freshet.settings import DEFAULT_VERSION_COLUMN

# Spelt out, since lower-casing in Spark loads all of ICU: 1.5 s of every start.
_TRUE: Final = ("true", "True", "TRUE", "t", "T", "1", "yes", "Yes", "YES", "y", "Y")
_FALSE: Final = ("false", "False", "FALSE", "f", "F", "0", "no", "No", "NO", "n", "N", "")


def understand(
    rows: DataFrame,
    value: Column,
    *,
    key: Sequence[str],
    version: str | None,
    deleted: str,
) -> DataFrame:
    """Adds `__plain`, the change that each row is; an unset flag means that the row is alive."""
    read = variants.with_columns(
        rows,
        __version=versions.without_exponent(
            variants.text(value, version or DEFAULT_VERSION_COLUMN)
        ),
        __flag=F.trim(variants.text(value, deleted)),
    )
    is_deleted = F.coalesce(F.col("__flag").isin(*_TRUE), F.lit(False))
    return variants.with_columns(
        read,
        __plain=change(
            image=value,
            key=key,
            op=F.when(is_deleted, "d").otherwise("u"),
            is_deleted=is_deleted,
            position=versions.composed(versions.component(F.col("__version"))),
            error=F.coalesce(_flag_error(deleted), _version_error(version)),
        ),
    )


def _flag_error(deleted: str) -> Column:
    flag = F.col("__flag")
    sentence = F.concat(F.lit(f"the column {deleted} is neither true nor false: "), flag)
    return F.when(flag.isNotNull() & ~flag.isin(*_TRUE, *_FALSE), F.left(sentence, F.lit(200)))


def _version_error(version: str | None) -> Column:
    if version is None:
        return F.lit(None).cast("string")
    sentence = F.lit(f"no value in the version column {version}")
    return F.when(F.col("__version").isNull(), sentence)
