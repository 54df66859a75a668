"""Tables on S3, without Spark: who comes second knows it, and a table's age costs no requests."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from freshet.errors import CommitConflictError
from freshet.stores.delta_logs import SharedTable
from freshet.stores.delta_tables import SmallTable, newest_version
from freshet.stores.lance_tables import LanceTable
from freshet.stores.locks import ExpiringLock
from servers import counting_s3_server

ROWS = pa.schema([("writer", pa.int64()), ("number", pa.int64())])
WRITERS = 6


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with counting_s3_server() as running:
        running.make_bucket("tables")
        yield running


@pytest.fixture
def place(server: Any, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    for name, value in {**server.access, "AWS_ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(name, value)
    return f"s3://tables/{request.node.name.replace('_', '-')}"


def requests(server: Any) -> Counter[str]:
    counts: Counter[str] = Counter()
    for asked in server.asked():
        counts[asked.kind] += asked.number
    return counts


def test_of_many_who_append_on_top_of_one_version_one_does(place: str) -> None:
    first = SharedTable(place, ROWS)
    first.append([{"writer": -1, "number": 0}])
    tables = [SharedTable(place, ROWS) for _ in range(WRITERS)]
    seen = {table.snapshot()[0] for table in tables}
    assert len(seen) == 1, "they must all have seen the same version"

    def append(writer: int) -> int | None:
        return tables[writer].append_after(seen.copy().pop(), [{"writer": writer, "number": 1}])

    with ThreadPoolExecutor(WRITERS) as pool:
        landed = list(pool.map(append, range(WRITERS)))
    assert sum(version is not None for version in landed) == 1
    winner = next(writer for writer, version in enumerate(landed) if version is not None)
    rows = sorted((row["writer"], row["number"]) for row in SmallTable(place, ROWS).read())
    assert rows == [(-1, 0), (winner, 1)]


def test_rows_of_several_processes_at_once_all_land_and_none_twice(place: str) -> None:
    SmallTable(place, ROWS).append([{"writer": -1, "number": 0}])

    def append(writer: int) -> None:
        table = SmallTable(place, ROWS)
        for number in range(3):
            table.append([{"writer": writer, "number": number}])

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(append, range(WRITERS)))
    rows = sorted((row["writer"], row["number"]) for row in SmallTable(place, ROWS).read())
    assert rows == [(-1, 0), *((w, n) for w in range(WRITERS) for n in range(3))]


def test_of_many_who_overwrite_one_version_of_a_lance_table_one_does(place: str) -> None:
    uri = f"{place}.lance"
    tables = [LanceTable.create(uri, ROWS) for _ in range(WRITERS)]

    def overwrite(writer: int) -> bool:
        rows = pa.Table.from_pylist([{"writer": writer, "number": 0}], ROWS)
        try:
            tables[writer].overwrite(ROWS, tables[writer].write_files(rows.to_reader()), {})
        except CommitConflictError:
            return False
        return True

    with ThreadPoolExecutor(WRITERS) as pool:
        won = list(pool.map(overwrite, range(WRITERS)))
    assert won.count(True) == 1
    table = LanceTable.open(uri)
    kept = [
        row for batch in table.read(["writer"], table.fragment_ids) for row in batch.to_pylist()
    ]
    assert kept == [{"writer": won.index(True)}]


def test_one_of_many_gets_a_lock(place: str) -> None:
    now = datetime(2026, 5, 1, tzinfo=UTC)
    locks = [
        ExpiringLock(f"{place}.lance", f"{number}", timedelta(minutes=1), lambda: now)
        for number in range(WRITERS)
    ]
    with ThreadPoolExecutor(WRITERS) as pool:
        others = list(pool.map(lambda lock: lock.take(), locks))
    assert others.count(None) == 1
    holder = locks[0].holder()
    assert holder is not None
    assert holder.purpose == str(others.index(None))


def test_a_table_that_is_kept_open_costs_no_more_requests_as_its_log_grows(
    server: Any, place: str
) -> None:
    table, costs = SmallTable(place, ROWS), list[Counter[str]]()
    for number in range(20):
        before = requests(server)
        table.append([{"writer": 0, "number": number}])
        assert [row["number"] for row in table.read(where=f"number = {number}")] == [number]
        assert table.version() == newest_version(place) == number + 1
        costs.append(requests(server) - before)
    assert costs[2] == costs[19]
    assert costs[19]["PUT"] == 2
    assert sum(costs[19].values()) <= 13


def test_what_another_process_wrote_is_read_though_the_table_is_kept_open(place: str) -> None:
    mine, other = SmallTable(place, ROWS), SmallTable(place, ROWS)
    assert mine.read() == []
    assert newest_version(place) is None
    mine.append([{"writer": 0, "number": 0}])
    other.append([{"writer": 1, "number": 0}])
    assert {row["writer"] for row in mine.read()} == {0, 1}
    assert mine.version() == 2
