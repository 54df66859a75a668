"""The `plain` envelope: each record is the row itself, with a version and a deleted flag."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from freshet import variants
from freshet.changes import versions
from freshet.changes.envelope import Chosen, Envelope, Marks, change, key_of
from freshet.settings import DEFAULT_VERSION_COLUMN

# Spelt out, since lower-casing in Spark loads all of ICU: 1.5 s of every start.
_TRUE: Final = ("true", "True", "TRUE", "t", "T", "1", "yes", "Yes", "YES", "y", "Y")
_FALSE: Final = ("false", "False", "FALSE", "f", "F", "0", "no", "No", "NO", "n", "N", "")


def _understand(value: Column, chosen: Chosen) -> Column:
    """The row itself; an unset flag means that it is alive."""
    version, flag = _version(value, chosen), F.trim(variants.text(value, chosen.deleted))
    is_deleted = F.coalesce(flag.isin(*_TRUE), F.lit(False))
    return change(
        key=key_of(value, chosen.key),
        op=F.when(is_deleted, "d").otherwise("u"),
        is_deleted=is_deleted,
        position=versions.composed(versions.component(version)),
        error=F.coalesce(_flag_error(flag, chosen.deleted), _version_error(version, chosen)),
    )


def _version(value: Column, chosen: Chosen) -> Column:
    name = chosen.version or DEFAULT_VERSION_COLUMN
    return versions.without_exponent(variants.text(value, name))


def _flag_error(flag: Column, deleted: str) -> Column:
    sentence = F.concat(F.lit(f"the column {deleted} is neither true nor false: "), flag)
    return F.when(flag.isNotNull() & ~flag.isin(*_TRUE, *_FALSE), F.left(sentence, F.lit(200)))


def _version_error(version: Column, chosen: Chosen) -> Column:
    if chosen.version is None:
        return F.lit(None).cast("string")
    sentence = F.lit(f"no value in the version column {chosen.version}")
    return F.when(version.isNull(), sentence)


PLAIN: Final = Envelope(
    name="plain",
    guarantee="A record's versions are ordered by its version column, ties by arrival; without a "
    "version column by arrival alone, and then a file that is delivered twice counts as newer the "
    "second time.",
    marks=Marks(((),)),
    understand=_understand,
)
