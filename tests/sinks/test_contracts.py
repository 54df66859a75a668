"""Every sink keeps the contract that `freshet.testing` states."""

import re
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import lance
import pytest
from pyspark.sql import SparkSession

from freshet import DeltaSink, LanceSink, PostgresSink
from freshet.sink.store_sink import StoreSink
from freshet.testing.contract import AppendContract, CompleteContract, Row, SinkContract
from postgres_server import Server

DOCS = Path(__file__).parent.parent.parent / "docs"


class TestLance(SinkContract, AppendContract, CompleteContract):
    def sink(self, place: Path, mode: str, **told: Any) -> Any:
        return LanceSink(str(place / "t.lance"), mode=mode, **told)

    def contents(self, place: Path, mode: str) -> Iterable[Row]:
        rows: list[Row] = lance.dataset(str(place / "t.lance")).to_table().to_pylist()
        return rows


class TestDelta(SinkContract, AppendContract, CompleteContract):
    @pytest.fixture(autouse=True)
    def _session(self, spark: SparkSession) -> None:
        self.spark = spark

    def sink(self, place: Path, mode: str, **told: Any) -> StoreSink:
        return DeltaSink(str(place / "table"), mode=mode, **told)

    def contents(self, place: Path, mode: str) -> Iterable[Row]:
        rows = self.spark.read.format("delta").load(str(place / "table"))
        return [row.asDict() for row in rows.collect()]


class _Postgres(SinkContract, AppendContract, CompleteContract):
    staged: bool

    @pytest.fixture(autouse=True)
    def _server(self, database: Server) -> None:
        self.server = database

    def sink(self, place: Path, mode: str, **told: Any) -> StoreSink:
        address = self.server.address
        return PostgresSink(address, "t", mode=mode, create=True, staged=self.staged, **told)

    def contents(self, place: Path, mode: str) -> Iterable[Row]:
        import psycopg
        from psycopg.rows import dict_row

        with psycopg.connect(self.server.address, row_factory=dict_row) as connection:
            return connection.execute("SELECT * FROM t").fetchall()


class TestPostgresDirect(_Postgres):
    staged = False


class TestPostgresStaged(_Postgres):
    staged = True


def documented_store() -> Any:
    """The class that the documentation shows, as it stands there."""
    text = (DOCS / "sinks.md").read_text()
    (source,) = re.findall(r"```python\n(\"\"\"A sink for SQLite.*?)```", text, re.DOTALL)
    assert len(source.splitlines()) <= 60
    found: dict[str, Any] = {}
    exec(compile(source, "docs/sinks.md", "exec"), found)  # noqa: S102 - our own documentation
    return found["SQLiteStore"]


class TestTheDocumentedSink(SinkContract):
    def sink(self, place: Path, mode: str, **told: Any) -> StoreSink:
        return StoreSink(documented_store()(str(place / "t.db")), **told)

    def contents(self, place: Path, mode: str) -> Iterable[Row]:
        with sqlite3.connect(place / "t.db") as database:
            database.row_factory = sqlite3.Row
            return database.execute("SELECT * FROM rows WHERE NOT is_deleted").fetchall()
