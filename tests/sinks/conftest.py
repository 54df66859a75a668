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
