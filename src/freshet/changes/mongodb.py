"""What is different when the source is MongoDB: documents and keys are texts of extended JSON."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from freshet import variants

_ID: Final = ("_id", "id")
_MARKED: Final = r'^\{"\$[A-Za-z0-9]+":"?([^"{}]*)"?\}$'
_AS_TEXT: Final = r'\{"\$(?:oid|uuid|date)":("[^"\\]*")\}'
_AS_NUMBER: Final = r'\{"\$number(?:Int|Long|Decimal|Double)":"(-?[0-9]+(?:\.[0-9]+)?)"\}'


def is_id(columns: Sequence[str]) -> bool:
    """Whether a key is the document's own; it may be called `_id` or `id`."""
    return tuple(columns) in {(name,) for name in _ID}


def id_of(document: Column, key: Column) -> Column:
    """The `_id` of a document; of a delete, which has no document, from the key beside it."""
    in_key = F.try_variant_get(F.try_parse_json(variants.text(key, "id")), "$", "string")
    # Extended JSON marks the type of an id that is neither text nor a small number.
    return F.regexp_replace(F.coalesce(variants.text(document, "_id"), in_key), _MARKED, "$1")


def readable(document: Column) -> Column:
    """A document's JSON with ids, dates and numbers as plain values, where they are marked."""
    # Quotes inside a text are escaped, so these patterns fit objects alone.
    plain = F.regexp_replace(document, _AS_TEXT, "$1")
    return F.regexp_replace(plain, _AS_NUMBER, "$1")
