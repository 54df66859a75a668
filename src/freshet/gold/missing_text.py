"""Records without a text: all columns that it is made of are absent, null or blank."""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from freshet import schemas, variants


def is_missing(image: Column, names: Sequence[str]) -> Column:
    """Whether none of some columns of a row image holds more than spaces; never null."""
    blank = (~F.coalesce(variants.text(image, name).rlike(r"\S"), F.lit(False)) for name in names)
    return reduce(Column.__and__, blank, F.lit(True))


def leaves_out(names: Sequence[str]) -> str:
    """Whether an event leaves a value of some fields out, as SQL; null if it leaves none out."""
    listed = ", ".join(variants.literal(name) for name in names)
    return f"arrays_overlap(from_json(unavailable, 'array<string>'), array({listed}))"


def refused(changes: DataFrame, names: Sequence[str]) -> DataFrame:
    """The changes; an upsert whose text is missing says so in `error`.

    Pure. Deletes stay as they are, and so do events that leave a column of the text out: what it
    holds is not known yet.
    """
    image = F.try_parse_json(F.coalesce(F.col("record"), F.col("raw")))
    is_upsert = F.expr(
        f"key IS NOT NULL AND NOT is_deleted AND NOT coalesce({leaves_out(names)}, false)"
    )
    reason = F.when(is_upsert & is_missing(image, names), f"no text in {', '.join(names)}")
    return changes.withColumn("error", F.coalesce("error", reason)).select(*schemas.CHANGES.names)
