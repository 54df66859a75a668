"""The time, as everything here writes it down."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    """The time now, with its zone."""
    return datetime.now(UTC)
