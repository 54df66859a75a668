"""Types of JSON values, and how a schema of them grows. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from freshet import schemas


class Kind(StrEnum):
    """The type of a column. Dates and times are strings in JSON; a null has no type."""

    BOOLEAN = "boolean"
    LONG = "long"
    DECIMAL = "decimal"
    DOUBLE = "double"
    STRING = "string"
    ARRAY = "array"
    STRUCT = "struct"
    MIXED = "mixed"
    """Elements of several types in one array."""


class What(StrEnum):
    """What a value's type means for a column."""

    ADDED = "added"
    WIDENED = "widened"
    CONFLICT = "conflict"


Shape = Mapping[str, Kind]
"""Columns and their types, by path; a column comes before what is inside of it."""

_NUMBERS: Final = (Kind.LONG, Kind.DECIMAL, Kind.DOUBLE)
_DEEPEST: Final = 32


class Node(NamedTuple):
    """A column of one record, or a field or an element inside of one."""

    path: str
    parent: str
    """The path of what it is inside of; empty for a column."""
    kind: Kind


@dataclass(frozen=True)
class Change:
    """What one value does to the schema."""

    what: What
    column: str
    known: Kind | None
    """The type that the column has; None if it is new."""
    seen: Kind
    """The type of the value."""


def takes(known: Kind, seen: Kind) -> bool:
    """Whether a column of one type holds values of another: every value has a text form."""
    if known in (seen, Kind.STRING, Kind.MIXED):
        return True
    return widened(known, seen) is known


def widened(known: Kind, seen: Kind) -> Kind | None:
    """The narrower of the types that hold both; None if they do not go together."""
    if known is seen:
        return known
    if known in _NUMBERS and seen in _NUMBERS:
        return max(known, seen, key=_NUMBERS.index)
    return None


def merged(known: Shape, seen: Iterable[Node]) -> tuple[dict[str, Kind], list[Change]]:
    """The schema with all that can be taken of a record, and what that changes.

    Nothing ever narrows or leaves. A conflict leaves the known type, and hides what is inside.
    """
    shape, changes, closed = dict(known), list[Change](), set[str]()
    for node in seen:
        if node.parent in closed:
            closed.add(node.path)
            continue
        have = shape.get(node.path)
        if have is not None and takes(have, node.kind):
            if have is not node.kind:
                closed.add(node.path)
            continue
        both = node.kind if have is None else widened(have, node.kind)
        if both is None:
            closed.add(node.path)
            changes.append(Change(What.CONFLICT, node.path, have, node.kind))
            continue
        shape[node.path] = both
        what = What.ADDED if have is None else What.WIDENED
        changes.append(Change(what, node.path, have, node.kind))
    return shape, changes


_TOKEN: Final = re.compile(
    r"(?P<name>`(?:[^`]|``)*`|\w+): |(?P<open>OBJECT|ARRAY)<|(?P<close>>)"
    r"|(?P<scalar>[A-Z]+)(?:\([\d, ]+\))?"
)


@lru_cache(maxsize=4_096)
def parsed(schema: str) -> tuple[Node, ...]:
    """The columns of a record whose `schema_of_variant` this is; nulls and empty things have none.

    What lies deeper than 32 levels is not looked at.
    """
    nodes: list[Node] = []
    around: list[str] = []
    path = ""
    for token in _TOKEN.finditer(schema):
        found = token.lastgroup
        if found == "name":
            path = _inside(around[-1], _unquoted(token["name"]))
        elif found == "close":
            around.pop()
        else:
            kind = schemas.JSON_KINDS.get(token["open"] or token["scalar"], Kind.MIXED)
            if path and kind is not None and len(around) <= _DEEPEST:
                nodes.append(Node(path, around[-1] if around else "", Kind(kind)))
            if found == "open":
                around.append(path)
                path = f"{path}[]"
    return tuple(nodes)


# --- paths ---------------------------------------------------------------------------------------

_PLAIN: Final = re.compile(r"[^.`\[\]\s]+")
_STEP: Final = re.compile(r"`(?:[^`]|``)*`|[^.`\[\]]+|\[\]")


def path_of(*names: str) -> str:
    """Names, outermost first, as one path: `a.b`; odd names stand between backticks."""
    path = ""
    for name in names:
        path = _inside(path, name)
    return path


def column_name(path: str) -> str | None:
    """The name of a column; None for what is inside of one."""
    name = _STEP.fullmatch(path)
    return None if name is None or path == "[]" else _unquoted(path)


def parent_of(path: str) -> str:
    """The path of what something is inside of; empty for a column."""
    last = _STEP.findall(path)[-1]
    return path[: -len(last)].removesuffix(".")


def names_of(path: str) -> list[str | None]:
    """The names of a path, outermost first; None stands for the elements of an array."""
    return [None if step == "[]" else _unquoted(step) for step in _STEP.findall(path)]


def _inside(path: str, name: str) -> str:
    step = name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"
    return f"{path}.{step}" if path else step


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
