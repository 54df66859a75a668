"""Which attributes the index has: those of the settings, or all columns of the records."""

from dataclasses import dataclass, field

from freshet import evolution, gold, schemas
from freshet.evolution import Kind, Schema, Span
from freshet.settings import GoldSettings


@dataclass(frozen=True)
class Attributes:
    """The attributes at one version of the schema, as each stage wants to know them."""

    projected: tuple[gold.Attribute, ...]
    """For gold; also those that left the index, since their misfits are still in `rescued`."""
    types: dict[str, str] = field(default_factory=dict)
    """The columns of the index, name → type."""
    retired: tuple[str, ...] = ()
    """Columns that must leave the index."""

    @classmethod
    def of(cls, settings: GoldSettings, schema: Schema) -> "Attributes":
        """Listed ones are what they are; with `"*"` they follow the schema."""
        if settings.takes_all:
            taken = {name.casefold() for name in settings.vector_columns}
            surfaced = evolution.surfaced(schema)
            projected = [_attribute(one) for one in surfaced if one.name.casefold() not in taken]
        else:
            projected = gold.listed(settings.attribute_types)
        types = {one.name: one.type for one in projected if one.since is not None}
        rescued = {schemas.RESCUED: "string"} if settings.rescues else {}
        retired = tuple(one.name for one in projected if one.since is None)
        return cls(tuple(projected), types | rescued, retired)


def _attribute(one: evolution.Surfaced) -> gold.Attribute:
    column = one.column
    takes_everything = all(span == Span(Kind.STRING) for span in column.spans)
    takes = None if takes_everything else tuple(_taken(span) for span in column.spans)
    return gold.Attribute(one.name, one.type, takes, column.since)


def _taken(span: Span) -> gold.Taken:
    kinds = tuple(kind.value for kind in Kind if evolution.takes(span.kind, kind))
    return gold.Taken(kinds, span.from_seq, span.to_seq)
