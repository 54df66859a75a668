"""What is taken of a record: key and version, the text to embed, and typed attributes."""

import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from freshet import schemas, variants
from freshet.gold.attributes import Attribute, columns, listed, rescued, with_values
from freshet.gold.missing_text import is_missing
from freshet.settings import template_columns


@dataclass(frozen=True)
class Images:
    """Which values of a record are kept as they were told."""

    needed: frozenset[str] | None
    """Fields that text and attributes are made of; None: all."""
    envelopes: frozenset[str]
    """Envelopes that may leave values out."""

    def columns(self, given: Sequence[str]) -> list[str]:
        """The columns `image` and `filled`, as SQL over rows with `__image`."""
        whole = "coalesce(record, raw)" if self.needed is None else self._of_fields(self.needed)
        names = ", ".join(variants.literal(name) for name in sorted(self.envelopes))
        filled = schemas.FILLED if schemas.FILLED in given else "CAST(NULL AS STRING)"
        return [
            f"CASE WHEN envelope IN ({names}) AND NOT is_deleted THEN {whole} END "
            f"AS {schemas.IMAGE}",
            f"{filled} AS {schemas.FILLED}",
        ]

    @staticmethod
    def _of_fields(names: Iterable[str]) -> str:
        pairs = (
            f"{variants.literal(name)}, "
            f"try_variant_get(__image, {variants.literal(variants.path(name))}, 'variant')"
            for name in sorted(names)
        )
        return f"to_json(named_struct({', '.join(pairs)}))"


def project(
    changes: DataFrame,
    *,
    text: Sequence[str] = (),
    template: str | None = None,
    attributes: Mapping[str, str] | Sequence[Attribute] = (),
    with_rescued: bool = False,
    images: Images | None = None,
    vectors: Mapping[str, Sequence[str]] | None = None,
    deletes_without_text: bool = False,
    with_record: bool = False,
) -> DataFrame:
    """Changes as records: `key`, `record_version`, `is_deleted`, `text`, and the attributes.

    Pure. Events in quarantine and events without a key are left out. The text is the values of the
    `text` columns, one a line, or the filled `template`; a value that is absent counts as empty.
    A value that is not of its attribute's type is null there; `with_rescued` keeps it in a column
    of its own; with `images`, the values are kept as they were told, of tools that may leave them
    out later. Each of the `vectors` has a column of its name with the text that it is of, null if
    that is missing. With `deletes_without_text` a record whose text is missing counts as deleted;
    `with_record` adds the whole row image, and when it changed.
    """
    chosen = listed(attributes) if isinstance(attributes, Mapping) else list(attributes)
    usable = changes.where(F.col("error").isNull() & F.col("key").isNotNull())
    image = F.try_parse_json(F.coalesce("record", "raw"))
    parsed = with_values(variants.with_columns(usable, __image=image), "__image", chosen)
    composed = _joined(text) if template is None else _filled(template)
    names = text if template is None else template_columns(template)
    textless = is_missing(F.col("__image"), names) if deletes_without_text else F.lit(False)
    further = {name: _text_of(some) for name, some in (vectors or {}).items()}
    made = variants.with_columns(parsed, __text=composed, __textless=textless)
    return made.select(
        "*", *(one.alias(f"__of_{name}") for name, one in further.items())
    ).selectExpr(
        "key",
        "record_version",
        "is_deleted OR __textless AS is_deleted",
        "__text AS text",
        *(f"__of_{name} AS {name}" for name in further),
        *columns(chosen),
        *([rescued(chosen)] if with_rescued else []),
        *([] if images is None else images.columns(changes.columns)),
        *(["coalesce(record, raw) AS record", "changed_at"] if with_record else []),
    )


def _text_of(names: Sequence[str]) -> Column:
    return F.when(~is_missing(F.col("__image"), names), _joined(names))


def _value(name: str) -> Column:
    return variants.text(F.col("__image"), name)


def _joined(names: Sequence[str]) -> Column:
    return F.concat_ws("\n", *(_value(name) for name in names))


def _filled(template: str) -> Column:
    parts: list[Column] = []
    for literal, name, _, _ in string.Formatter().parse(template):
        parts.append(F.lit(literal))
        if name is not None:
            parts.append(F.coalesce(_value(name), F.lit("")))
    return F.concat(*parts)
