"""Attributes: typed columns taken along for filtering, and what happens to values of other types.

A value that is not of its attribute's type is null in the attribute's column, and stands as JSON in
the column `rescued`. Text takes every value.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame

from freshet import schemas, variants

_SPARK_KINDS: Final = {ours: sparks for sparks, ours in schemas.JSON_KINDS.items()}


@dataclass(frozen=True)
class Taken:
    """JSON types that an attribute takes, in files from one number up to another."""

    kinds: tuple[str, ...]
    """Of `schemas.JSON_KINDS`."""
    from_seq: int = 0
    to_seq: int | None = None


@dataclass(frozen=True)
class Attribute:
    """One attribute of the index."""

    name: str
    type: str = "string"
    """Of `schemas.ATTRIBUTE_TYPES`."""
    takes: tuple[Taken, ...] | None = None
    """None: all values that can be read as the type."""
    since: int | None = 0
    """The first file whose values the column holds; None if the index does not have it any more."""

    @property
    def is_free(self) -> bool:
        """Whether it takes every value, so that nothing is ever rescued."""
        return self.takes is None and self.type == "string"


def listed(types: Mapping[str, str]) -> list[Attribute]:
    """Attributes as the settings list them: name → type."""
    return [Attribute(name, kind) for name, kind in types.items()]


def with_values(rows: DataFrame, image: str, attributes: Sequence[Attribute]) -> DataFrame:
    """Adds a struct for each attribute: its `value`, null if it does not fit, and its `misfit`.

    `image` is the column of the record's VARIANT. The expressions are text, since every call that
    builds one through Python costs as much as a row.
    """
    looked = rows.selectExpr(
        "*",
        *(
            f"{_looked_at(one, image)} AS __field{place}"
            for place, one in enumerate(attributes)
            if not one.is_free
        ),
    )
    made = (
        f"{_made(one, image, f'__field{place}')} AS __attribute{place}"
        for place, one in enumerate(attributes)
    )
    return looked.selectExpr("*", *made)


def columns(attributes: Sequence[Attribute]) -> list[str]:
    """The attributes' own columns, of rows that `with_values` made, as SQL."""
    return [
        f"__attribute{place}.value AS `{one.name.replace('`', '``')}`"
        for place, one in enumerate(attributes)
        if one.since is not None
    ]


def rescued(attributes: Sequence[Attribute]) -> str:
    """What did not fit, as one JSON object by name; null if everything did. SQL, as `columns`."""
    misfits = [
        f"__attribute{place}.misfit" for place, one in enumerate(attributes) if not one.is_free
    ]
    if not misfits:
        return f"CAST(NULL AS STRING) AS {schemas.RESCUED}"
    joined = f"concat_ws(',', {', '.join(misfits)})"
    return f"concat('{{', nullif({joined}, ''), '}}') AS {schemas.RESCUED}"


def _looked_at(one: Attribute, image: str) -> str:
    field = _get(image, variants.path(one.name), "variant")
    return f"struct({field} AS value, schema_of_variant({field}) AS kind)"


def _made(one: Attribute, image: str, field: str) -> str:
    wanted = schemas.spark_type(schemas.ATTRIBUTE_TYPES[one.type])
    value = _get(image, variants.path(one.name), wanted)
    if one.is_free:
        return f"struct({value} AS value)"
    if one.takes is None:
        fits, is_expected = _is_exact(value, field, one.type), "true"
    else:
        fits = _any(
            f"{_covers(taken)} AND {_is_of(f'{field}.kind', taken.kinds)}" for taken in one.takes
        )
        is_expected = _any(_covers(taken) for taken in one.takes)
    since = f"seq >= {one.since}" if one.since else "true"
    name = variants.literal(json.dumps(one.name, ensure_ascii=False) + ":")
    return (
        f"struct(CASE WHEN {fits} AND {since} THEN {value} END AS value, "
        f"CASE WHEN {field}.kind != 'VOID' AND {is_expected} AND NOT {fits} "
        f"THEN concat({name}, to_json({field}.value)) END AS misfit)"
    )


def _is_exact(value: str, field: str, kind: str) -> str:
    """Whether a cast succeeded, and cut nothing off: 1.5 is no whole number."""
    if kind not in ("int", "long"):
        return f"({value} IS NOT NULL)"
    number = _get(f"{field}.value", "$", "double")
    return f"({value} IS NOT NULL AND coalesce({number} = {value}, true))"


def _is_of(kind: str, kinds: Iterable[str]) -> str:
    """Whether a JSON type is one of several; types with parts go by their beginning."""
    return _any(f"startswith({kind}, '{_SPARK_KINDS[name]}')" for name in kinds)


def _covers(taken: Taken) -> str:
    ends = [f"seq >= {taken.from_seq}"] if taken.from_seq > 0 else []
    ends += [] if taken.to_seq is None else [f"seq <= {taken.to_seq}"]
    return f"({' AND '.join(ends)})" if ends else "true"


def _any(conditions: Iterable[str]) -> str:
    return f"({' OR '.join(conditions)})"


def _get(variant: str, path: str, kind: str) -> str:
    return f"try_variant_get({variant}, {variants.literal(path)}, '{kind}')"
