"""The section [gold]."""

import re
import string
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from freshet import schemas
from freshet.settings.section import Section

_IDENTIFIER: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


class GoldSettings(Section):
    """What of a record is embedded, and what is taken along for filtering."""

    text: tuple[str, ...] = Field(
        (), description="Columns whose values, one a line, are the text to embed."
    )
    template: str | None = Field(
        None, description='Instead of `text`: a pattern such as `"{title}: {body}"`.'
    )
    attributes: tuple[str, ...] = Field(
        (),
        description="Columns to filter by: `name` (a string) or `name:type` with "
        + ", ".join(f"`{kind}`" for kind in schemas.ATTRIBUTE_TYPES)
        + '; or `"*"`: all columns of the records, also those that come later, with the types that '
        "they have. A value that is not of the type is null, and kept in the column `rescued`.",
    )
    missing_text: Literal["keep", "delete", "quarantine"] = Field(
        "keep",
        description="A record whose text is missing or blank: `keep` it with an empty text, "
        "`delete` it from the index, or put the event in `quarantine`, and the record stays as it "
        "was.",
    )
    vectors: dict[str, tuple[str, ...]] = Field(
        default_factory=dict,
        description="Further vectors of a record: name of the index column → columns to embed, "
        'such as `{ title_vector = ["title"] }`.',
    )
    keep_table: bool = Field(
        False, description="Also keep Gold, with whole records, as the Delta table `<home>/gold`."
    )
    chunk_tokens: int | None = Field(
        None, ge=8, description="Longest piece of text given to the model. Unset: its window."
    )
    chunk_overlap: int = Field(
        32, ge=0, description="Tokens that a piece repeats of the one before it."
    )

    @property
    def takes_all(self) -> bool:
        """Whether all columns of the records are attributes."""
        return schemas.ALL_ATTRIBUTES in self.attributes

    @property
    def rescues(self) -> bool:
        """Whether the index has a column for values that are not of their attribute's type."""
        return self.takes_all or any(kind != "string" for kind in self.attribute_types.values())

    @property
    def attribute_types(self) -> dict[str, str]:
        """The attributes that are listed, name → type, in their order."""
        if self.takes_all:
            return {}
        pairs = (entry.partition(":") for entry in self.attributes)
        return {name.strip(): kind.strip() or "string" for name, _, kind in pairs}

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns that the text is made of."""
        if self.template is None:
            return self.text
        return template_columns(self.template)

    @property
    def vector_columns(self) -> tuple[str, ...]:
        """The index columns that further vectors take up."""
        return tuple(column for name in self.vectors for column in (name, schemas.hash_of(name)))

    @field_validator("attributes", mode="before")
    @classmethod
    def _all_or_a_list(cls, value: Any) -> Any:
        if isinstance(value, str) and value != schemas.ALL_ATTRIBUTES:
            raise ValueError(f'"{value}" is neither a list of columns nor "*"')
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_text(self)
        if self.takes_all and len(self.attributes) > 1:
            raise ValueError('attributes: "*" stands alone, since it means all columns')
        _check_attributes(self.attribute_types, 0 if self.takes_all else len(self.attributes))
        _check_vectors(self)
        if self.chunk_tokens is not None and self.chunk_overlap >= self.chunk_tokens:
            raise ValueError("chunk_overlap must be smaller than chunk_tokens")
        return self


def _check_text(gold: GoldSettings) -> None:
    if bool(gold.text) == (gold.template is not None):
        raise ValueError("give either text (a list of columns) or template, and not both")
    if gold.template is not None:
        _check_template(gold.template)
    _check_names(gold.text_columns)


def template_columns(template: str) -> tuple[str, ...]:
    """The columns that a template names."""
    return tuple(name for _, name, _, _ in string.Formatter().parse(template) if name)


def _check_template(template: str) -> None:
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ValueError(
            f"template: {error}: a brace that is no column's is written twice"
        ) from None
    for _, name, form, conversion in parts:
        if name == "" or form or conversion:
            raise ValueError('template: between braces stands a column and nothing else: "{title}"')
    if all(name is None for _, name, _, _ in parts):
        raise ValueError('template must name at least one column, as in "{title}"')


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        if "\\" in name or ("'" in name and '"' in name):
            raise ValueError(f"a column name may not hold both quotes or a backslash: {name}")


def _check_vectors(gold: GoldSettings) -> None:
    taken = {*schemas.INDEX_COLUMNS, schemas.RESCUED, "is_deleted"}
    taken |= {name.casefold() for name in gold.attribute_types}
    for name, columns in gold.vectors.items():
        if not _IDENTIFIER.fullmatch(name):
            raise ValueError(f'vectors: "{name}" is not a name of letters, digits and underscores')
        if not columns:
            raise ValueError(f'vectors: "{name}" names no columns')
        for column in (name, schemas.hash_of(name)):
            if column.casefold() in taken:
                raise ValueError(f'vectors: "{name}" needs the column {column}, which is taken')
            taken.add(column.casefold())
        _check_names(columns)


def _check_attributes(types: Mapping[str, str], listed: int) -> None:
    if len(types) != listed:
        raise ValueError("attributes names a column twice")
    for name, kind in types.items():
        if name in schemas.INDEX_COLUMNS:
            raise ValueError(f'attributes: "{name}" is a column of every index already')
        if name == schemas.RESCUED:
            raise ValueError(f'attributes: "{name}" is where values go that do not fit')
        if kind not in schemas.ATTRIBUTE_TYPES:
            known = ", ".join(schemas.ATTRIBUTE_TYPES)
            raise ValueError(f'attributes: "{name}" has the unknown type "{kind}" ({known})')
