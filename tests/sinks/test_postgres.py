"""What only a sink to PostgreSQL does: refusals, types, staging, and a server that fails."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from freshet import PostgresSink
from freshet.errors import SinkError, StoreError
from freshet.sink import Ledger
from freshet.testing.contract import Event, frame, recount
from postgres_server import Server, postgres_server

PIPELINE = "tests"
STAGING = "SELECT relname FROM pg_class WHERE starts_with(relname, 'freshet_staging_')"
BOTH_WAYS = pytest.mark.parametrize("staged", [False, True], ids=["direct", "staged"])
SECRET = "correct horse"  # noqa: S105 - of a server that lives for one test


@dataclass
class Desk:
    """One table in a database, and its ledger."""

    spark: SparkSession
    server: Server
    place: Path
    table: str = "t"
    name: str = "table"
    told: dict[str, Any] = field(default_factory=dict)
    _sink: PostgresSink | None = None

    def restart(self, **told: Any) -> None:
        """The next batch is written by a new sink, which may be told something else."""
        self.told |= told
        self._sink = None

    def write(self, batch_id: int, *events: Event) -> Any:
        return self.write_rows(batch_id, frame(self.spark, events))

    def write_rows(self, batch_id: int, rows: DataFrame) -> Any:
        if self._sink is None:
            told = {"create": True, "ledger": str(self.place / "ledger")} | self.told
            address = told.pop("address", self.server.address)
            self._sink = PostgresSink(
                address, self.table, pipeline=PIPELINE, sink=self.name, **told
            )
        ends = f"at {batch_id}"
        return self._sink.write(rows, query_id="query", batch_id=batch_id, offsets=ends)

    def ask(self, sql: str) -> list[dict[str, Any]]:
        with psycopg.connect(self.server.address, row_factory=dict_row) as connection:
            return connection.execute(sql).fetchall()  # type: ignore[arg-type]

    def rows(self, order: str = "key") -> list[dict[str, Any]]:
        if self.ask(f"SELECT to_regclass('{self.table}') AS t") == [{"t": None}]:
            return []
        return self.ask(f"SELECT * FROM {self.table} ORDER BY {order}")

    def notes(self) -> dict[str, str]:
        found = self.rows()
        assert len(found) == len({row["key"] for row in found})
        return {row["key"]: row["note"] for row in found}

    def number(self) -> int:
        """How many batches the database says that have landed."""
        if self.ask("SELECT to_regclass('freshet_batches') AS t") == [{"t": None}]:
            return 0
        found = self.ask(f"SELECT number FROM freshet_batches WHERE sink = '{self.name}'")
        return int(found[0]["number"]) if found else 0

    def staging(self) -> list[str]:
        return [row["relname"] for row in self.ask(STAGING)]

    def ledger(self) -> list[dict[str, Any]]:
        return Ledger(str(self.place / "ledger")).rows(PIPELINE, self.name)

    @contextmanager
    def refuses(self, kind: type[Exception], match: str) -> Iterator[None]:
        """A batch is refused with a sentence, which is in the ledger, and nothing else changes."""
        before = self.rows(), self.number()
        with pytest.raises(kind, match=match) as raised:
            yield
        assert (self.rows(), self.number()) == before
        last = self.ledger()[-1]
        assert last["status"] == "failed"
        assert last["error"] == f"{kind.__name__}: {raised.value}"


@pytest.fixture
def desk(spark: SparkSession, database: Server, tmp_path: Path) -> Desk:
    return Desk(spark, database, tmp_path)


def test_a_column_that_postgresql_cannot_take_is_named(desk: Desk) -> None:
    desk.write(0, ("a", 1, "x"))
    odd = frame(desk.spark, [("b", 1, "y")]).withColumn("pause", F.expr("INTERVAL 1 DAY"))
    with desk.refuses(SinkError, "cannot take the column pause, which is interval day"):
        desk.write_rows(1, odd)
    desk.restart()
    desk.write(1, ("b", 1, "y"))
    assert desk.notes() == {"a": "x", "b": "y"}
    assert "pause" not in desk.rows()[0]


@BOTH_WAYS
@pytest.mark.parametrize(
    ("column", "note", "match"),
    [
        ("note varchar(3)", "long", r"value too long for type character varying\(3\)"),
        ("note text CHECK (note <> 'bad')", "bad", 'violates check constraint "t_note_check"'),
        ("note text NOT NULL", None, 'null value in column "note" .* violates not-null'),
        ("note text", "a\0b", 'invalid byte sequence for encoding "UTF8": 0x00'),
        ("note integer", "seven", 'invalid input syntax for type integer: "seven"'),
    ],
    ids=["too-long", "check", "not-null", "nul", "no-number"],
)
def test_a_row_that_the_table_refuses_holds_its_whole_batch_back(
    desk: Desk, staged: bool, column: str, note: str | None, match: str
) -> None:
    desk.server.run(f"CREATE TABLE t (key text PRIMARY KEY, record_version text, {column})")
    desk.restart(create=False, staged=staged)
    desk.write(0, ("a", 1, "1"))
    bad = [("a", 2, "2"), ("b", 1, "3"), ("c", 1, note or "")]
    bad_note = F.when(F.col("key") == "c", F.lit(note)).otherwise(F.col("note"))
    rows = frame(desk.spark, bad).withColumns({"note": bad_note, "is_deleted": F.lit(False)})
    with desk.refuses(StoreError, match):
        desk.write_rows(1, rows)
    desk.restart()
    desk.write(1, ("a", 3, "4"), ("b", 1, "5"))
    assert [(row["key"], str(row["note"])) for row in desk.rows()] == [("a", "4"), ("b", "5")]
    assert desk.staging() == []
    assert [row["status"] for row in desk.ledger()] == ["committed", "failed", "committed"]


def test_a_table_is_made_and_widened_only_if_that_is_asked(desk: Desk) -> None:
    desk.restart(create=False)
    with desk.refuses(SinkError, 'no table "public"."t" in the database: .* say create=True'):
        desk.write(0, ("a", 1, "x"))
    desk.server.run("CREATE TABLE t (key text PRIMARY KEY, record_version text)")
    desk.restart()
    with desk.refuses(SinkError, 'the table "public"."t" has no column note: add it, or say'):
        desk.write(0, ("a", 1, "x"))
    desk.restart(create=True)
    desk.write(0, ("a", 1, "x"))
    assert desk.rows() == [{"key": "a", "record_version": "P000001", "note": "x"}]


@pytest.mark.parametrize(
    "index",
    ["", "CREATE INDEX ON t (key)", "CREATE UNIQUE INDEX ON t (key, note)"],
    ids=["none", "not-unique", "of-two-columns"],
)
def test_a_table_whose_key_is_not_unique_is_refused(desk: Desk, index: str) -> None:
    desk.server.run(f"CREATE TABLE t (key text, record_version text, note text); {index}")
    with desk.refuses(SinkError, 'the column key of the table "public"."t" is not unique'):
        desk.write(0, ("a", 1, "x"))
    desk.server.run("CREATE UNIQUE INDEX ON t (key)")
    desk.restart()
    desk.write(0, ("a", 1, "x"))
    desk.write(1, ("a", 2, "y"))
    assert desk.notes() == {"a": "y"}


def test_rows_that_cannot_be_told_apart_are_refused(desk: Desk) -> None:
    desk.write(0, ("a", 1, "x"))
    good = frame(desk.spark, [("b", 1, "y"), ("b", 2, "z")])
    for column in ("key", "record_version"):
        with desk.refuses(SinkError, f"there are rows without a {column}"):
            desk.write_rows(1, good.withColumn(column, F.lit(None).cast("string")))
    desk.restart(version=None)
    with desk.refuses(SinkError, "a key stands more than once in a batch"):
        desk.write_rows(1, good)
    assert desk.notes() == {"a": "x"}


def test_the_later_batch_wins_without_a_version_and_integers_are_keys(desk: Desk) -> None:
    desk.restart(key="id", version=None)
    columns = "id bigint, is_deleted boolean, note string"

    def write(batch: int, *rows: tuple[int, bool, str]) -> None:
        desk.write_rows(batch, desk.spark.createDataFrame(list(rows), columns))

    write(0, (1, False, "one"), (-(2**62), False, "small"), (3, False, "three"))
    write(1, (1, False, "other"), (3, True, ""))
    assert {row["id"]: row["note"] for row in desk.rows("id")} == {1: "other", -(2**62): "small"}
    write(2, (3, False, "back"))
    assert {row["id"]: row["note"] for row in desk.rows("id")}[3] == "back"


def test_integer_keys_are_guarded_by_their_version(desk: Desk) -> None:
    desk.restart(key="id")
    for batch, events in enumerate([[("1", 1, "x"), ("10", 2, None)], [("10", 1, "late")]]):
        rows = frame(desk.spark, events).withColumn("id", F.col("key").cast("int")).drop("key")
        desk.write_rows(batch, rows)
    assert [(row["id"], row["note"]) for row in desk.rows("id")] == [(1, "x")]


def test_a_wrong_password_is_told_and_never_shown(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(logging.getLogger("freshet"), "propagate", True)
    with postgres_server(password=SECRET) as server:
        desk = Desk(spark, server, tmp_path)
        monkeypatch.setenv("PGPASSWORD", "battery staple")
        with pytest.raises(StoreError, match="password authentication failed") as raised:
            desk.write(0, ("a", 1, "x"))
        monkeypatch.delenv("PGPASSWORD")
        passes = tmp_path / "pgpass"
        passes.write_text(f"*:*:*:*:{SECRET}\n")
        passes.chmod(0o600)
        # Tasks have the environment that Spark was started with, so a file is named to them.
        desk.restart(address=f"{server.address}?passfile={passes}")
        desk.write(0, ("a", 1, "x"))
        monkeypatch.setenv("PGPASSWORD", SECRET)
        assert desk.notes() == {"a": "x"}
    failed, landed = desk.ledger()
    assert (failed["status"], landed["status"]) == ("failed", "committed")
    assert "password authentication failed" in failed["error"]
    assert "batch_failed" in caplog.messages
    logged = [f"{record.getMessage()} {record.__dict__}" for record in caplog.records]
    for text in (str(raised.value), str(failed), str(landed), *logged):
        assert "battery staple" not in text
        assert SECRET not in text


@pytest.mark.parametrize(
    ("address", "match"),
    [
        ("postgresql://writer:hunter2@127.0.0.1/db", "a password stands in the address"),
        ("postgresql://writer@127.0.0.1/db?password=hunter2", "a password stands in the address"),
        ("host=127.0.0.1 password=hunter2", "a password stands in the address"),
        ("host=127.0.0.1 sslpassword=hunter2", "a password stands in the address"),
        ("postgresql://writer:hunter2@[::1/db", "the address of the database cannot be read"),
        ("postgresql://writer:hunter2@127.0.0.1/db?cat=7", "cannot be read"),
        ("host=127.0.0.1 hunter2", "cannot be read"),
    ],
)
def test_a_password_in_the_address_is_refused_and_not_repeated(
    tmp_path: Path, address: str, match: str
) -> None:
    with pytest.raises(SinkError, match=match) as raised:
        PostgresSink(address, "t", ledger=str(tmp_path / "ledger"), pipeline=PIPELINE)
    assert "hunter2" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert not (tmp_path / "ledger").exists()


def up(server: Server) -> None:
    """Waits until a server that was killed has read its log."""
    server.restart()
    give_up_at = time.monotonic() + 60
    while True:
        try:
            server.run("SELECT 1")
        except RuntimeError:
            assert time.monotonic() < give_up_at
            time.sleep(0.1)
        else:
            return


def test_a_server_that_is_down_fails_a_batch_and_not_the_next_one(desk: Desk) -> None:
    desk.write(0, ("a", 1, "x"))
    desk.server.kill()
    try:
        desk.restart()
        with pytest.raises(StoreError, match=r"could not read .*: connection failed.*refused"):
            desk.write(1, ("b", 1, "y"))
    finally:
        up(desk.server)
    assert "connection failed" in desk.ledger()[-1]["error"]
    desk.restart()
    desk.write(1, ("b", 1, "y"))
    assert desk.notes() == {"a": "x", "b": "y"}
    assert [row["status"] for row in desk.ledger()] == ["committed", "failed", "committed"]


@BOTH_WAYS
def test_a_server_killed_in_a_batch_has_it_once_when_it_is_back(desk: Desk, staged: bool) -> None:
    def lights_out(step: Any, when: str, batch_id: int) -> None:
        if (str(step), when, batch_id) == ("commit", "before", 1):
            desk.server.kill()

    batches: list[list[Event]] = [
        [("a", 1, "x"), ("b", 1, "x")],
        [("a", 2, None), ("b", 2, "y"), ("c", 1, "z")],
        [("a", 1, "late"), ("c", 2, "zz")],
    ]
    desk.restart(staged=staged, probe=lights_out)
    desk.write(0, *batches[0])
    try:
        with pytest.raises(StoreError, match=r"could not write to postgresql://127\.0\.0\.1"):
            desk.write(1, *batches[1])
    finally:
        up(desk.server)
    assert desk.ledger()[-1]["status"] == "failed"
    assert (desk.notes(), desk.number()) == ({"a": "x", "b": "x"}, 1)
    assert len(desk.staging()) == staged
    desk.restart(probe=lambda *_: None)
    desk.write(1, *batches[1])
    desk.write(2, *batches[2])
    assert desk.notes() == recount(event for batch in batches for event in batch)
    assert (desk.number(), desk.staging()) == (3, [])


def test_a_large_batch_is_staged_unless_it_is_said(desk: Desk) -> None:
    seen: list[int] = []

    def look(step: Any, when: str, batch_id: int) -> None:
        if (str(step), when) == ("commit", "before"):
            seen.append(len(desk.staging()))

    def many(count: int) -> DataFrame:
        key = F.col("id").cast("string").alias("key")
        return desk.spark.range(count).select(key, F.lit("x").alias("note"))

    desk.restart(mode="append", probe=look)
    desk.write_rows(0, many(20_000))
    desk.write_rows(1, many(20_001))
    desk.restart(staged=False)
    desk.write_rows(2, many(20_001))
    desk.restart(staged=True)
    desk.write_rows(3, many(1))
    assert seen == [0, 1, 0, 1]
    assert desk.ask("SELECT count(*) AS n FROM t") == [{"n": 60_003}]
    assert desk.staging() == []


def test_what_a_crashed_batch_staged_is_dropped_by_the_next_one(desk: Desk) -> None:
    seen: list[list[str]] = []

    def look(step: Any, when: str, batch_id: int) -> None:
        if (str(step), when) == ("prepare", "after"):
            seen.append(desk.staging())

    desk.restart(staged=True, probe=look)
    desk.write(0, ("a", 1, "x"))
    (own,) = seen[0]
    crashed, foreign = f"{own[:-8]}deadbeef", "freshet_staging_of_somebody_else"
    desk.server.run(f'CREATE TABLE "{crashed}" (x int); CREATE TABLE "{foreign}" (x int)')
    desk.write(1, ("a", 2, "y"))
    assert crashed not in seen[1]
    assert desk.staging() == [foreign]


@BOTH_WAYS
def test_two_sinks_in_one_database_do_not_meet(desk: Desk, staged: bool) -> None:
    other = Desk(desk.spark, desk.server, desk.place, "u", "other", {"staged": staged})

    def meanwhile(step: Any, when: str, batch_id: int) -> None:
        if (str(step), when) == ("commit", "before"):
            other.write(batch_id, ("o", batch_id + 1, f"other {batch_id}"))

    desk.restart(staged=staged, probe=meanwhile)
    desk.write(0, ("a", 1, "x"))
    desk.write(1, ("a", 2, "y"), ("b", 1, "z"))
    other.write(2, ("p", 1, "alone"))
    assert desk.notes() == {"a": "y", "b": "z"}
    assert other.notes() == {"o": "other 1", "p": "alone"}
    assert (desk.number(), other.number(), desk.staging()) == (2, 3, [])


def test_whoever_may_write_but_not_make_tables_can_go_on(desk: Desk) -> None:
    """Roles outlive a schema, so it is dropped at the end."""
    desk.write(0, ("a", 1, "x"), ("b", 1, "x"))
    desk.server.run(
        "CREATE ROLE writer LOGIN; GRANT USAGE ON SCHEMA public TO writer; "
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO writer"
    )
    address = desk.server.address.replace("//postgres@", "//writer@")
    try:
        desk.restart(address=address, create=False)
        desk.write(1, ("a", 2, "y"), ("b", 2, None))
        desk.restart(staged=True)
        with desk.refuses(StoreError, "permission denied for schema public"):
            desk.write(2, ("c", 1, "z"))
    finally:
        desk.server.run("DROP OWNED BY writer; DROP ROLE writer")
    assert desk.notes() == {"a": "y"}


def test_vectors_are_arrays_where_pgvector_is_not(desk: Desk) -> None:
    if desk.ask("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"):
        desk.server.run("CREATE EXTENSION vector")
        expected = "vector(3)"
    else:
        expected = "real[]"
    desk.restart(mode="append", vectors={"embedding": 3})
    columns = "key string, embedding array<float>"
    rows = [("a", [0.5, -1.0, 2.0]), ("b", None)]
    desk.write_rows(0, desk.spark.createDataFrame(rows, columns))
    kind = "SELECT format_type(atttypid, atttypmod) AS t FROM pg_attribute WHERE attname ="
    assert desk.ask(f"{kind} 'embedding' AND attrelid = 't'::regclass") == [{"t": expected}]
    found = desk.ask("SELECT embedding::real[] AS vector FROM t ORDER BY key")
    assert found == [{"vector": [0.5, -1.0, 2.0]}, {"vector": None}]


ODD = 'it\'s "odd" \\ {1,2}, \t\r\n\\.\n;-- ü \N{SNOWMAN} \N{PILE OF POO}'
NOON = datetime(2024, 2, 29, 12, 0, 0, 123_456, tzinfo=UTC)
FIRST, LAST = map(datetime.fromisoformat, ("0001-01-01", "9999-12-31T23:59:59.999999"))
BERLIN = datetime(1890, 1, 1, 11, 6, 32, 1, tzinfo=UTC)
KINDS: dict[str, tuple[DataType, str, list[Any]]] = {
    "text": (StringType(), "text", [ODD, "", "NULL"]),
    "flag": (BooleanType(), "boolean", [True, False, True]),
    "day": (DateType(), "date", [date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29)]),
    "money": (
        DecimalType(38, 18),
        "numeric(38,18)",
        [Decimal("0.000000000000000001"), Decimal("-12345678901234567890.5"), Decimal(0)],
    ),
    "i1": (ByteType(), "smallint", [-128, 127, 0]),
    "i2": (ShortType(), "smallint", [-(2**15), 2**15 - 1, 0]),
    "i4": (IntegerType(), "integer", [-(2**31), 2**31 - 1, 0]),
    "i8": (LongType(), "bigint", [-(2**63), 2**63 - 1, 0]),
    "f4": (FloatType(), "real", [0.5, float("inf"), -0.25]),
    "f8": (DoubleType(), "double precision", [0.1, 1.7976931348623157e308, 5e-324]),
    "at": (
        TimestampType(),
        "timestamp with time zone",
        [NOON, BERLIN, datetime(1970, 1, 1, tzinfo=UTC)],
    ),
    "local": (
        TimestampNTZType(),
        "timestamp without time zone",
        [NOON.replace(tzinfo=None), FIRST, LAST],
    ),
    "raw": (BinaryType(), "bytea", [b"\0\xff\\x", b"", b'"']),
    "numbers": (ArrayType(DoubleType()), "double precision[]", [[0.1, None, -2.0], [], [1e300]]),
    "whole": (ArrayType(LongType()), "bigint[]", [[1, None, 2**62], [], [None]]),
    "texts": (ArrayType(StringType()), "jsonb", [[ODD, None, ""], [], ["a,b"]]),
    "pairs": (MapType(StringType(), IntegerType()), "jsonb", [{"a": 1, ODD: None}, {}, {"": 0}]),
    "nested": (
        StructType(
            [
                StructField("name", StringType()),
                StructField("inner", ArrayType(StructType([StructField("n", IntegerType())]))),
            ]
        ),
        "jsonb",
        [
            {"name": ODD, "inner": [{"n": 1}, None]},
            {"name": None, "inner": []},
            {"name": "", "inner": None},
        ],
    ),
}


def all_kinds(spark: SparkSession) -> tuple[DataFrame, list[dict[str, Any]]]:
    """A row for each of the values, and one of nulls."""
    schema = StructType(
        [
            StructField("key", StringType()),
            *(StructField(name, kind) for name, (kind, _, _) in KINDS.items()),
        ]
    )
    rows = [
        {"key": f"k{one}"} | {name: values[one] for name, (_, _, values) in KINDS.items()}
        for one in range(3)
    ]
    rows.append({"key": "k3"} | dict.fromkeys(KINDS))
    return spark.createDataFrame([tuple(row.values()) for row in rows], schema), rows


@BOTH_WAYS
def test_every_type_comes_back_as_it_was(desk: Desk, staged: bool) -> None:
    desk.restart(staged=staged, version=None, deleted=None)
    rows, expected = all_kinds(desk.spark)
    desk.write_rows(0, rows)
    assert desk.rows() == expected
    types = desk.ask(
        "SELECT attname, format_type(atttypid, atttypmod) AS type FROM pg_attribute "
        "WHERE attrelid = 't'::regclass AND attnum > 1 ORDER BY attnum"
    )
    assert [row["type"] for row in types] == [sql for _, sql, _ in KINDS.values()]
    desk.write_rows(1, rows.where("key <> 'k3'"))
    assert desk.rows() == expected


def test_an_instant_is_the_same_in_every_time_zone(desk: Desk) -> None:
    """Zones had seconds once, and a struct has instants, too."""
    desk.restart(mode="append")
    rows = desk.spark.createDataFrame([("a", BERLIN)], "key string, at timestamp")
    desk.spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        desk.write_rows(0, rows.withColumn("told", F.struct("at")))
    finally:
        desk.spark.conf.set("spark.sql.session.timeZone", "UTC")
    found = desk.ask("SELECT at, (told ->> 'at')::timestamptz AS told FROM t")
    assert found == [{"at": BERLIN, "told": BERLIN}]


def test_a_table_of_your_own_may_have_other_types(desk: Desk) -> None:
    desk.server.run(
        "CREATE TABLE t (key uuid PRIMARY KEY, record_version text, note char(2), tags text[], "
        "times timestamptz[], told json, number numeric, since timestamp DEFAULT now())"
    )
    key = "00000000-0000-0000-0000-00000000000a"
    desk.restart(create=False, deleted=None)
    tags = [ODD, None, "a,b", "NULL", "", "{}"]
    rows = desk.spark.createDataFrame(
        [(key, "1", "x", tags, [BERLIN, None], '{"a": 1}', "1e3")],
        "key string, record_version string, note string, tags array<string>, "
        "times array<timestamp>, told string, number string",
    )
    desk.write_rows(0, rows)
    (row,) = desk.rows()
    assert str(row["key"]) == key
    assert (row["note"], row["tags"], row["times"]) == ("x ", tags, [BERLIN, None])
    assert (row["told"], row["number"]) == ({"a": 1}, Decimal(1000))
    assert row["since"] is not None


def test_tombstones_are_forgotten_after_their_time(desk: Desk) -> None:
    desk.write(0, ("a", 2, None), ("b", 2, None))
    desk.server.run(
        "UPDATE freshet_batches SET number = 99; "
        "UPDATE t_tombstones SET deleted_at = now() - interval '3 days' WHERE key = 'a'"
    )
    desk.restart(tombstone_retention=timedelta(days=2))
    desk.write(1, ("c", 1, "x"))
    assert desk.ask("SELECT key FROM t_tombstones") == [{"key": "b"}]
    desk.write(2, ("a", 1, "late"), ("b", 1, "late"))
    assert desk.notes() == {"a": "late", "c": "x"}
