"""Real kills of programs that write to Delta and to PostgreSQL: a sample, and the whole chains."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg
import pytest
from kills import Cell, Chain, Kill, Left, all_kills, transaction_kills

from freshet.sink import Step
from freshet.testing.processes import left_over
from postgres_server import Server, postgres_server

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

SINKS = ("delta", "postgres", "postgres-staged")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgres_server() as one:
        yield one


@pytest.fixture
def address(request: pytest.FixtureRequest) -> str:
    """Of an empty database; nothing for a sink that needs none."""
    if request.getfixturevalue("sink") == "delta":
        return ""
    server: Server = request.getfixturevalue("server")
    server.run("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return server.address


def run(folder: Path, sink: str, mode: str, address: str, kills: Sequence[Kill]) -> list[Cell]:
    """Every cell, after nothing is left that a kill left."""
    reported: list[Cell] = []
    cells = Chain(mode, folder, kills, reported.append, sink=sink, address=address).run()
    assert [str(cell) for cell in cells if cell.problems] == []
    assert sorted(map(str, reported)) == sorted(map(str, cells))
    assert not left_over(folder)
    if address:
        with psycopg.connect(address) as connection:
            tables = connection.execute("SELECT relname FROM pg_class WHERE relkind = 'r'")
            assert not [name for (name,) in tables if name.startswith("freshet_staging_")]
            marks = "SELECT number FROM freshet_batches"
            assert connection.execute(marks).fetchall() == [(len(kills) + 3,)]
    return cells


@pytest.mark.parametrize(
    "sink",
    [sink if sink == "postgres" else pytest.param(sink, marks=pytest.mark.long) for sink in SINKS],
)
def test_killed_on_either_side_of_its_commit_a_batch_is_there_once(
    tmp_path: Path, sink: str, address: str
) -> None:
    """Prepared and no more, in the middle of the commit, and committed without a record."""
    kills = [
        Kill("after", Step.PREPARE, Left.NOWHERE),
        transaction_kills(sink, "update")[-1],
        Kill("after", Step.COMMIT, Left.LANDED),
    ]
    cells = run(tmp_path, sink, "update", address, kills)
    assert [cell.healed for cell in cells] == ["committed", "committed", "recovered", "at rest"]


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(
    ("sink", "mode"),
    [*((sink, mode) for sink in SINKS for mode in ("update", "append")), ("delta", "complete")],
)
def test_killed_at_every_step_and_store_call_every_row_is_there_once(
    tmp_path: Path, sink: str, mode: str, address: str
) -> None:
    run(tmp_path, sink, mode, address, all_kills(mode, sink))
