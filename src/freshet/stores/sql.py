"""Conditions for the stores' filters, with every value quoted."""

from collections.abc import Sequence


def quoted(value: str) -> str:
    """A string literal."""
    return "'" + value.replace("'", "''") + "'"


def is_among(column: str, values: Sequence[str | int]) -> str:
    """The column holds one of the values."""
    literals = (quoted(value) if isinstance(value, str) else str(value) for value in values)
    return f"{column} IN ({','.join(literals)})"
