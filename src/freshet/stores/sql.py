"""Conditions for the stores' filters, with every value quoted."""

from collections.abc import Sequence


def quoted(value: str) -> str:
    """A string literal."""
    return "'" + value.replace("'", "''") + "'"


def is_among(column: str, values: Sequence[str]) -> str:
    """The column holds one of the strings."""
    return f"{column} IN ({','.join(quoted(value) for value in values)})"
