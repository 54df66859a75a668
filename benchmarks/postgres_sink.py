"""100,000 rows upserted into a table of PostgreSQL that has 200,000: `PostgresSink` and rivals.

Half of the keys are in the table, the others are new. All get the same rows of one DataFrame, held
by Spark, in turn, and the table is as it was before each of them. They are

- `staged` and `direct`: `PostgresSink`, by all tasks or by one;
- `executemany`: psycopg in the driver, `INSERT … ON CONFLICT` with a guard by version, in one
  transaction; its time has two parts, since the rows must be fetched from the DataFrame first;
- `JDBC append`: what Spark has itself, with and without `reWriteBatchedInserts`. It cannot upsert,
  so it adds the rows to a table that is empty: less to do, and a batch that comes twice fails or
  doubles.

The first round is left out: after it the JVM has compiled what it runs. The server is on the same
machine, and takes its share of the cores.
"""

import argparse
import hashlib
import time
import urllib.request
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from freshet import PostgresSink
from freshet.settings import SparkSettings
from freshet.spark import find_java, start_session
from freshet.stores import delta_jars
from measuring import machine, median, scratch_folder, show_progress
from postgres_server import USER, postgres_server
from sink_vs_merge_insert import key_of

TABLE_ROWS, BATCH_ROWS = 200_000, 100_000
OLD, NEW = "P000001", "P000002"
COLUMNS = {
    "key": "text PRIMARY KEY",
    "record_version": "text",
    "text": "text",
    "summary": "text",
    "price": "double precision",
    "stock": "bigint",
    "section": "integer",
    "updated_at": "timestamptz",
}
DRIVER = delta_jars.Jar(
    "org.postgresql",
    "postgresql",
    "42.7.8",
    "2a32a9dcbc42d67a50ad3a0de5efd102c8d2be46720045f2cbd6689f160ab7c7",
)
CENTRAL = "https://repo1.maven.org/maven2"


def jdbc_driver() -> Path:
    """Spark does not bring it: fetched once from Maven Central, checked, and kept."""
    kept = delta_jars.cache_folder() / DRIVER.file
    if not kept.exists():
        place = f"{DRIVER.group.replace('.', '/')}/{DRIVER.name}/{DRIVER.version}/{DRIVER.file}"
        with urllib.request.urlopen(f"{CENTRAL}/{place}", timeout=60) as answer:  # noqa: S310
            data: bytes = answer.read()
        assert hashlib.sha256(data).hexdigest() == DRIVER.sha256
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(data)
    return kept


def rows_of(numbers: Sequence[int], version: str) -> pa.Table:
    rows = len(numbers)
    body = "the text of document {0} in version {1}, which goes on for a while; " * 3
    columns = {
        "key": [key_of(number) for number in numbers],
        "record_version": [version] * rows,
        "text": [body.format(number, version) for number in numbers],
        "summary": [f"what document {number} is about, in short, " * 5 for number in numbers],
        "price": [number * 0.25 for number in numbers],
        "stock": pa.array([number % 1_000 for number in numbers], pa.int64()),
        "section": pa.array([number % 50 for number in numbers], pa.int32()),
        "updated_at": pa.array(
            [1_800_000_000_000_000 + number for number in numbers], pa.timestamp("us", "UTC")
        ),
    }
    return pa.table(columns)


def batch_frame(spark: SparkSession, table_rows: int, batch_rows: int) -> DataFrame:
    """Half of it known keys, in no order; held by Spark."""
    chooser = np.random.default_rng(0)
    known = chooser.choice(table_rows, batch_rows // 2, replace=False)
    new = np.arange(table_rows, table_rows + batch_rows - len(known))
    numbers = chooser.permutation(np.concatenate([known, new])).tolist()
    told = rows_of(numbers, NEW).append_column("is_deleted", pa.repeat(False, batch_rows))
    frame = spark.createDataFrame(told).cache()
    assert frame.count() == batch_rows
    return frame


@dataclass
class Server:
    """The database, with what the table has at first in a table beside it."""

    host: str
    port: int
    table_rows: int

    @property
    def address(self) -> str:
        """What psycopg connects to."""
        return f"postgresql://{USER}@{self.host}:{self.port}/postgres"

    def run(self, *statements: str) -> Any:
        """What the last statement answers, if it does."""
        with psycopg.connect(self.address, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else None

    def fill(self) -> None:
        """Makes the tables."""
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        self.run(*(f"CREATE TABLE {name} ({columns})" for name in ("first", "articles", "added")))
        told = ", ".join(COLUMNS)
        with psycopg.connect(self.address) as connection, connection.cursor() as cursor:
            for start in range(0, self.table_rows, 50_000):
                numbers = range(start, min(start + 50_000, self.table_rows))
                with cursor.copy(f"COPY first ({told}) FROM STDIN") as copy:
                    for row in rows_of(numbers, OLD).to_pylist():
                        copy.write_row(tuple(row.values()))

    def reset(self) -> None:
        """The tables as they were, and nothing left to write to the disk."""
        self.run(
            "TRUNCATE articles, added",
            "INSERT INTO articles SELECT * FROM first",
            "VACUUM ANALYZE articles",
            "CHECKPOINT",
        )

    def check(self, table: str, batch_rows: int) -> None:
        """The batch is there, each row once, and nothing else has changed."""
        first = self.table_rows - batch_rows // 2 if table == "articles" else 0
        asked = f"count(*), count(*) FILTER (WHERE record_version = '{NEW}')"
        asked += f", count(*) FILTER (WHERE text LIKE '%version {NEW}%')"
        ((rows, *changed),) = self.run(f"SELECT {asked} FROM {table}")
        assert rows == first + batch_rows, rows
        assert changed == [batch_rows, batch_rows], changed


Write = Callable[[DataFrame], object]


def sink_to(server: Server, ledger: str, *, is_staged: bool) -> Write:
    sink = PostgresSink(
        server.address,
        "articles",
        ledger=ledger,
        pipeline="bench",
        sink="staged" if is_staged else "direct",
        staged=is_staged,
    )
    batches = iter(range(1_000))

    def write(rows: DataFrame) -> object:
        return sink.write(rows, query_id="bench", batch_id=next(batches))

    return write


@dataclass
class ExecuteMany:
    """Rows through the driver; notes what it took to fetch them."""

    server: Server
    fetch_s: list[float] = field(default_factory=list)

    def __call__(self, rows: DataFrame) -> None:
        """Writes a batch."""
        started = time.perf_counter()
        fetched = list(rows.select(*COLUMNS).toLocalIterator())
        self.fetch_s.append(time.perf_counter() - started)
        changes = ", ".join(f"{name} = EXCLUDED.{name}" for name in COLUMNS if name != "key")
        statement = (
            f"INSERT INTO articles AS t ({', '.join(COLUMNS)}) "
            f"VALUES ({', '.join(['%s'] * len(COLUMNS))}) ON CONFLICT (key) DO UPDATE "
            f"SET {changes} WHERE t.record_version < EXCLUDED.record_version"
        )
        with psycopg.connect(self.server.address) as connection, connection.cursor() as cursor:
            cursor.executemany(statement, fetched)


def jdbc_append(server: Server, more: str = "") -> Write:
    options = {
        "url": f"jdbc:postgresql://{server.host}:{server.port}/postgres{more}",
        "dbtable": "added",
        "user": USER,
        "driver": "org.postgresql.Driver",
    }

    def write(rows: DataFrame) -> object:
        return rows.select(*COLUMNS).write.format("jdbc").options(**options).mode("append").save()

    return write


def writers(server: Server, folder: Path) -> dict[str, Write]:
    return {
        "staged": sink_to(server, str(folder / "staged"), is_staged=True),
        "direct": sink_to(server, str(folder / "direct"), is_staged=False),
        "executemany": ExecuteMany(server),
        "JDBC append": jdbc_append(server),
        "JDBC append, rewritten": jdbc_append(server, "?reWriteBatchedInserts=true"),
    }


def measure(
    server: Server, frame: DataFrame, each: dict[str, Write], options: argparse.Namespace
) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {name: [] for name in each}
    for number in range(options.rounds + 1):
        for name, write in each.items():
            show_progress(f"round {number}: {name}")
            server.reset()
            started = time.perf_counter()
            write(frame)
            seconds = time.perf_counter() - started
            is_append = name.startswith("JDBC")
            server.check("added" if is_append else "articles", options.batch_rows)
            if number > 0:
                taken[name].append(seconds)
    return taken


def show(taken: dict[str, list[float]], fetch_s: Sequence[float], rows: int) -> None:
    print(f"{'median of a batch':<28}{'s':>8}{'rows/s':>12}{'of executemany':>16}")
    rival = median(taken["executemany"])
    for name, seconds in taken.items():
        took = median(seconds)
        print(f"{name:<28}{took:8.2f}{rows / took:12,.0f}{took / rival:16.2f}")
    print(f"  of executemany, the rows to the driver {median(fetch_s):.2f} s")
    print("JDBC adds to an empty table: it cannot upsert")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of table and batch")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    options.batch_rows, table_rows = (
        int(BATCH_ROWS * options.scale),
        int(TABLE_ROWS * options.scale),
    )
    warnings.filterwarnings("ignore", message=".*fork.*")
    jars = ",".join(map(str, [*delta_jars.fetched(find_java()), jdbc_driver()]))
    with scratch_folder() as folder, postgres_server() as (host, port):
        server = Server(host, port, table_rows)
        ((version,),) = server.run("SHOW server_version")
        print(f"{machine()}, PostgreSQL {version.split()[0]} beside")
        print(
            f"{options.batch_rows:,} rows of {len(COLUMNS)} columns, half of the keys known, into "
            f"{table_rows:,}; medians of {options.rounds} rounds"
        )
        server.fill()
        settings = SparkSettings(conf={"spark.jars": jars})
        spark = start_session(settings, name="bench", log_file=folder / "spark.log")
        each = writers(server, folder)
        frame = batch_frame(spark, table_rows, options.batch_rows)
        taken = measure(server, frame, each, options)
        spark.stop()
    show_progress("")
    many = each["executemany"]
    assert isinstance(many, ExecuteMany)
    show(taken, many.fetch_s[1:], options.batch_rows)


if __name__ == "__main__":
    main()
