"""A PostgreSQL server for all tests of the sinks."""

from collections.abc import Iterator

import pytest

from postgres_server import Server, postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def database(postgres: Server) -> Server:
    """The server with an empty schema."""
    postgres.run("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return postgres


_SLOW = ("TestDelta", "TestPostgresStaged", "TestLance")
_ALWAYS = ("before:commit:1", "after:commit:1")
_IN_A_LONGER_ONE = ("greatest_version_wins", "deleted_key_stays_dead")
"""Of Delta, whose batches take seconds, a history out of order has these cases in it."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the sinks that share their code with another one, or take long, some failures are enough.

    `make crash` runs them all.
    """
    for item in items:
        moment = getattr(item, "callspec", None) and item.callspec.params.get("moment")  # type: ignore[attr-defined]
        owner = getattr(getattr(item, "cls", None), "__name__", "")
        is_further = moment is not None and moment not in _ALWAYS
        is_contained = owner == "TestDelta" and any(part in item.name for part in _IN_A_LONGER_ONE)
        if (owner in _SLOW and is_further) or is_contained:
            item.add_marker(pytest.mark.long)
