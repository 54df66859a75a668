"""What is taken of a record: key and version, the text to embed, and typed attributes."""

import string
from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from freshet import schemas, variants


def project(
    changes: DataFrame,
    *,
    text: Sequence[str] = (),
    template: str | None = None,
    attributes: Mapping[str, str] | None = None,
) -> DataFrame:
    """Changes as records: `key`, `record_version`, `is_deleted`, `text`, and the attributes.

    Pure. Events in quarantine and events without a key are left out. The text is the values of the
    `text` columns, one a line, or the filled `template`; a value that is absent counts as empty.
    """
    usable = changes.where(F.col("error").isNull() & F.col("key").isNotNull())
    image = F.try_parse_json(F.coalesce(F.col("record"), F.col("raw")))
    parsed = usable.select("key", "record_version", "is_deleted", image.alias("__image"))
    return parsed.select(
        "key",
        "record_version",
        "is_deleted",
        (_joined(text) if template is None else _filled(template)).alias("text"),
        *(_attribute(name, kind).alias(name) for name, kind in (attributes or {}).items()),
    )


def _value(name: str, kind: str = "string") -> Column:
    return F.try_variant_get(F.col("__image"), variants.path(name), kind)


def _attribute(name: str, kind: str) -> Column:
    return _value(name, schemas.spark_type(schemas.ATTRIBUTE_TYPES[kind]))


def _joined(columns: Sequence[str]) -> Column:
    return F.concat_ws("\n", *(_value(name) for name in columns))


def _filled(template: str) -> Column:
    parts: list[Column] = []
    for literal, name, _, _ in string.Formatter().parse(template):
        parts.append(F.lit(literal))
        if name is not None:
            parts.append(F.coalesce(_value(name), F.lit("")))
    return F.concat(*parts)
