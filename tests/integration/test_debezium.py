"""Debezium's events as changes: those it really wrote, and those of each of its connectors."""

import base64
import hashlib
import json
import random
import uuid
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from freshet.changes import normalise
from freshet.changes.decoding import check_types
from freshet.errors import SettingsError

DATA = Path(__file__).parent.parent / "data" / "debezium"
LANDING = "record string, file string, row bigint, seq bigint"
PLACEHOLDER = "__debezium_unavailable_value"
KEYS = {"articles": ("id",), "translations": ("article_id", "lang")}
Change = dict[str, Any]


Group = dict[str, list[Any]]


def changes_of(
    spark: SparkSession, records: Sequence[Any], *, key: Sequence[str] = ("id",), **options: Any
) -> list[Change]:
    """The changes of some records, in the order in which they are given."""
    rows = [
        (one if isinstance(one, str) else json.dumps(one), "f", number, 0)
        for number, one in enumerate(records)
    ]
    made = normalise(spark.createDataFrame(rows, LANDING), key=key, **options)
    return [row.asDict() for row in made.orderBy("row").collect()]


def in_one_go(spark: SparkSession, group: Group, **options: Any) -> dict[str, list[Change]]:
    """The changes of several lists of records: planning costs more than all of them."""
    made = iter(changes_of(spark, [one for listed in group.values() for one in listed], **options))
    return {name: list(islice(made, len(listed))) for name, listed in group.items()}


@cache
def lines_of(name: str) -> tuple[str, ...]:
    return tuple((DATA / f"{name}.jsonl").read_text().split("\n")[:-1])


def replayed(made: Sequence[Change]) -> dict[str, Change]:
    """What is alive at the end, by the versions alone."""
    emptied = max((row["record_version"] for row in made if row["op"] == "truncate"), default="")
    latest: dict[str, Change] = {}
    for row in made:
        held = latest.get(row["key"])
        if row["key"] and (held is None or row["record_version"] > held["record_version"]):
            latest[row["key"]] = row
    return {
        key: row
        for key, row in latest.items()
        if not row["is_deleted"] and row["record_version"] > emptied
    }


def expected_of(table: str) -> dict[str, dict[str, Any]]:
    rows = [json.loads(line, parse_float=Decimal) for line in lines_of(f"expected/{table}")]
    texts = [[str(row[name]) for name in KEYS[table]] for row in rows]
    keys = [one[0] if len(one) == 1 else json.dumps(one, separators=(",", ":")) for one in texts]
    return dict(zip(keys, rows, strict=True))


OTHERS = [
    '{"ts_ms": 1794729109775}',
    '{"source": {"db": "a"}, "databaseName": "a", "ddl": "create table t (id int)"}',
]


def shuffled(lines: Sequence[str]) -> list[str]:
    found = list(lines)
    random.Random(3).shuffle(found)
    return found


@pytest.fixture(scope="module")
def plain(spark: SparkSession) -> dict[str, list[Change]]:
    """Full events, with nothing said but the key."""
    group: Group = {
        "shuffled": shuffled(lines_of("envelope/articles")),
        "other": [*lines_of("envelope/message"), *lines_of("envelope/transaction"), *OTHERS],
        "without key": list(lines_of("envelope/audit_nopk")),
        "headers": with_headers(CREATE, WITH_SCHEMA, json.dumps(CREATE), json.dumps(WITH_SCHEMA)),
        "key only": [{"key": key, "value": GONE} for key in KEYS_OF_7],
        "tombstones": TOMBSTONES,
        "documents": DOCUMENTS,
        "placeholders": [placed(value) for value in FORMS],
        "texts": [placed(value) for value in TEXTS],
        "deleted": [{"op": "d", "before": {"id": 1, "t": PLACEHOLDER}, "source": {"lsn": 1}}],
        "values": [with_schema(one) for one in VALUES],
        "wrapped values": [{"key": {"id": 1}, "value": json.dumps(with_schema(one))}
                           for one in VALUES],
        "decimal keys": DECIMAL_KEYS,
    } | {name: list(reversed(listed)) for name, listed in POSITIONS.items()}  # fmt: skip
    return in_one_go(spark, group, envelope="debezium")


@pytest.fixture(scope="module")
def flattened(spark: SparkSession) -> dict[str, list[Change]]:
    """Flat rows, with nothing said but the key."""
    rows: list[Any] = [flat_value(one) for one in VALUES]
    group: Group = {
        "shuffled": shuffled(lines_of("flat/articles")),
        "other": [*lines_of("flat/message"), *lines_of("envelope/transaction")],
        "without key": list(lines_of("flat/audit_nopk")),
        "headers": with_headers({"id": 2, "__op": "c"}),
        "rows": FLAT_ROWS,
        "values": [{"schema": {"fields": columns_told()}, "payload": row} for row in rows],
        "tombstones": TOMBSTONES,
    } | {name: [flat(one) for one in reversed(listed)] for name, listed in POSITIONS.items()}
    return in_one_go(spark, group, envelope="debezium-flat")


@pytest.fixture(scope="module")
def typed(spark: SparkSession) -> dict[str, dict[str, list[Change]]]:
    """Both forms, with types and a table."""
    full: Group = {
        "articles": list(lines_of("envelope/articles")),
        "values": VALUES,
        "other tables": list(lines_of("envelope/translations")),
    }
    rows: Group = {
        "articles": list(lines_of("flat/articles")),
        "values": [flat_value(one) for one in VALUES],
        "other tables": list(lines_of("flat/translations")),
    }
    return {
        form: in_one_go(spark, group, envelope=form, types=TYPES, table=table)
        for form, group, table in (
            ("debezium", full, "public.articles"),
            ("debezium-flat", rows, "articles"),
        )
    }


@pytest.fixture(scope="module")
def translations(spark: SparkSession) -> dict[str, list[Change]]:
    """A key of two columns, one of them a decimal, and another placeholder."""
    image = {"article_id": 2, "lang": "x y", "body": "gone", "u": PLACEHOLDER}
    value = {"op": "c", "after": image, "source": {"lsn": 5}}
    group: Group = {
        "real": list(lines_of("envelope/translations")),
        "old keys": [
            {"key": None, "value": value, "headers": {"__debezium.oldkey": old}}
            for old in ({"article_id": 1, "lang": "x y"}, "Struct{article_id=1,lang=x y}")
        ],
        "decimal": [{"op": "d", "before": {"article_id": coded(150), "lang": "de"},
                     "source": {"lsn": 1}}],
    }  # fmt: skip
    types = {"article_id": "decimal(1)"}
    return in_one_go(spark, group, key=KEYS["translations"], envelope="debezium",
                     types=types, placeholder="gone")  # fmt: skip


# --- what Debezium really wrote ------------------------------------------------------------------

Typed = dict[str, dict[str, list[Change]]]
Made = dict[str, list[Change]]


def test_every_real_event_is_understood_and_sorts_as_it_was_emitted(
    typed: Typed, translations: Made
) -> None:
    streams = [(lines_of("envelope/translations"), translations["real"])]
    streams += [
        (lines_of(f"{folder}/articles"), typed[form]["articles"])
        for form, folder in (("debezium", "envelope"), ("debezium-flat", "flat"))
    ]
    for lines, made in streams:
        assert {row["error"] for row in made} == {None}
        told = [row["record_version"] for row in made if row["op"] != "tombstone"]
        assert told == sorted(told)
        tombstones = [row for row in made if row["op"] == "tombstone"]
        assert all(row["key"] is None and row["record"] is None for row in tombstones)
        assert len(tombstones) == sum('"value":null' in line for line in lines)


def test_a_replay_ends_in_the_tables_of_the_source(typed: Typed, translations: Made) -> None:
    alive = replayed(translations["real"])
    found = {key: json.loads(row["record"]) for key, row in alive.items()}
    assert found == expected_of("translations")
    expected = expected_of("articles")
    for made in typed.values():
        alive = replayed(made["articles"])
        assert alive.keys() == expected.keys()
        for key, row in alive.items():
            _compare_article(row, expected[key])


# Written after the column's scale was changed from 2 to 4, which no event tells.
LATER_SCALE = {"402", "20", "403", "404", "999"}


def _compare_article(row: Change, expected: dict[str, Any]) -> None:
    image = json.loads(row["record"], parse_float=Decimal)
    missing = set(json.loads(row["unavailable"] or "[]"))
    for name in {"title", "body", "tags", "meta"} - missing:
        assert image.get(name) == expected[name]
    if row["key"] not in LATER_SCALE:
        price = image["price"]
        assert price is None or isinstance(price, (int, Decimal))
        assert price == expected["price"]
    if image["published"] and "BC" not in expected["published"]:
        found = image["published"].removesuffix("Z").rstrip("0")
        assert found == expected["published"].removesuffix("+00:00").rstrip("0")
    assert not [column for column in image if column.startswith("__")]


def test_the_placeholder_is_found_exactly_where_it_stands(typed: Typed) -> None:
    found = 0
    for form, folder in (("debezium", "envelope"), ("debezium-flat", "flat")):
        for row, line in zip(typed[form]["articles"], lines_of(f"{folder}/articles"), strict=True):
            value = json.loads(line)["value"] or {}
            image = value if folder == "flat" else value.get("after") or {}
            left_out = sorted(
                column for column, one in image.items() if one in (PLACEHOLDER, [PLACEHOLDER])
            )
            wanted = json.dumps(left_out, separators=(",", ":")) if left_out else None
            assert row["unavailable"] == wanted
            found += len(left_out)
    assert found == 10


def test_a_changed_key_says_what_it_was(typed: Typed, translations: Made) -> None:
    for made in typed.values():
        old_keys = {row["key"]: row["old_key"] for row in made["articles"] if row["old_key"]}
        assert old_keys == {"1007": "7", "1110": "110", "1112": "112", "1018": "18"}
    [moved] = [row for row in translations["real"] if row["old_key"]]
    assert (moved["key"], moved["old_key"]) == ('["2","de-AT"]', '["2","de"]')
    assert {row["old_key"] for row in translations["old keys"]} == {'["1","x y"]'}


def test_a_truncate_has_no_key_and_deletes(translations: Made) -> None:
    truncates = [row for row in translations["real"] if row["op"] == "truncate"]
    found = [(row["key"], row["is_deleted"], row["error"]) for row in truncates]
    assert found == [(None, True, None)] * 3


def test_shuffled_files_end_in_the_same_rows(plain: Made, flattened: Made, typed: Typed) -> None:
    for form, made in (("debezium", plain), ("debezium-flat", flattened)):
        before, again = replayed(typed[form]["articles"]), replayed(made["shuffled"])
        assert again.keys() == before.keys()
        for key, row in again.items():
            assert json.loads(row["record"])["title"] == json.loads(before[key]["record"])["title"]


def test_what_is_not_about_rows_is_passed_over(plain: Made, flattened: Made) -> None:
    for made in (plain, flattened):
        found = {(row["op"], row["key"], row["error"]) for row in made["other"]}
        assert found == {("other", None, None)}


def test_a_table_without_a_key_is_an_error_that_says_so(plain: Made, flattened: Made) -> None:
    for made in (plain, flattened):
        about_rows = [
            row for row in made["without key"] if row["op"] not in ("truncate", "tombstone")
        ]
        assert {row["error"] for row in about_rows} == {"no value in the key column id"}


def test_events_of_other_tables_are_passed_over(typed: Typed) -> None:
    for made in typed.values():
        assert {row["op"] for row in made["other tables"]} <= {"other", "tombstone"}
        assert {row["error"] for row in made["other tables"]} == {None}


def test_auto_tells_the_forms_apart(spark: SparkSession) -> None:
    group: Group = {
        "debezium": [
            *lines_of("envelope/articles"),
            *lines_of("envelope/message"),
            *lines_of("envelope/transaction"),
            *with_headers(CREATE, json.dumps(WITH_SCHEMA)),
        ],
        "debezium-flat": [*lines_of("flat/articles"), *FLAT_ROWS],
        "plain": [{"id": 1, "key": "a", "value": None}, {"id": 2, "key": "b", "value": "null"}],
    }
    for name, made in in_one_go(spark, group).items():
        assert {row["envelope"] for row in made} == {name}
        assert {row["error"] for row in made} == {None}


# --- positions -----------------------------------------------------------------------------------


def event(op: str = "u", *, order: int | None = None, **source: Any) -> dict[str, Any]:
    image = {"id": 1, "t": "x"}
    return {
        "op": op,
        "before": image if op == "d" else None,
        "after": None if op == "d" else image,
        "source": source,
        "transaction": None if order is None else {"total_order": order},
    }


def flat(event: dict[str, Any]) -> dict[str, Any]:
    """What the flattening makes of an event, when it is told to add all of its source."""
    image: dict[str, Any] = event["before"] or event["after"]
    added = {f"__source_{name}": value for name, value in event["source"].items()}
    order = (event["transaction"] or {}).get("total_order")
    deleted = str(event["op"] == "d").lower()
    return image | added | {
        "__op": event["op"], "__deleted": deleted, "__transaction_total_order": order,
    }  # fmt: skip


POSITIONS = {
    "postgres": [
        event("r", lsn=140, sequence='[null,"140"]', snapshot="true"),
        event("c", lsn=145, sequence='[null,"145"]', order=1),
        event("u", lsn=99, sequence='["150","99"]', order=1),
        event("u", lsn=99, sequence='["150","99"]', order=2),
        event("u", lsn=151, sequence='["150","151"]', order=10),
        event("r", lsn=None, sequence='["152",null]', snapshot="incremental"),
        event("u", lsn=120, sequence='["152","120"]', order=1),
        event("r", lsn=None, sequence='["153","900"]', snapshot="incremental"),
        event("d", lsn=90, sequence='["1000","90"]', order=1),
        event("r", lsn=2000, sequence='[null,"2000"]', snapshot="true"),  # a second snapshot
        event("u", lsn=2001, sequence='["2001","2001"]', order=1),
    ],
    "postgres without sequence": [event(lsn=9), event(lsn=10), event("d", lsn=11)],
    "mysql": [
        event("r", file="", pos=0, row=0, connector="mysql", snapshot="incremental"),
        event("r", file="mysql-bin.000009", pos=4, row=0, gtid=None),
        event(file="mysql-bin.000009", pos=999, row=0, gtid="a:2"),
        event(file="mysql-bin.000010", pos=4, row=0, gtid="a:1"),
        event(file="mysql-bin.000010", pos=4, row=1),
        event(file="mysql-bin.000010", pos=30, row=0),
        event(file="mysql-bin.999999", pos=1, row=0),
        event("d", file="mysql-bin.1000000", pos=1, row=0),
    ],
    "sql server": [
        event("r", connector="sqlserver", ts_ms=99, snapshot="incremental"),
        event("r", commit_lsn="00000027:00000ac0:0002", change_lsn=None),
        event(commit_lsn="00000027:00000ac0:0002", change_lsn="00000027:00000ac0:0001"),
        event(commit_lsn="00000027:00000b00:0001", change_lsn="1", event_serial_no=9),
        event(commit_lsn="00000027:00000b00:0001", change_lsn="1", event_serial_no=10),
        event("d", commit_lsn="00000028:00000000:0001", change_lsn="1", event_serial_no=1),
    ],
    "oracle": [
        event("r", connector="oracle", scn=None, ts_ms=1700000000000),
        event("r", scn="900", commit_scn=None),
        event(scn="880", commit_scn="901:1:0a,899:2:", rs_id=" 0x0001.0001 ", ssn=0),
        event(scn=999, commit_scn=1000, rs_id="0x0001.0002", ssn=9),
        event(scn="999", commit_scn="1000", rs_id="0x0001.0002", ssn=10),
        event(scn="999", commit_scn="1000", rs_id="0x0001.0003", ssn=0),
        event("d", scn="950", commit_scn="1001"),
        event("r", scn="1200", commit_scn=None),  # a second snapshot
        event(scn="1100", commit_scn="1300"),
    ],
    "mongodb": [
        event("r", ts_ms=1700000000000, ord=0),
        event(ts_ms=1700000000000, ord=9),
        event(ts_ms=1700000000000, ord=10, wallTime=1700000000100),
        event("d", ts_ms=1700000001000, ord=1),
    ],
    "others": [event(ts_ms=99), event(ts_ms=100), event("d", ts_ms=101)],
}


FLAT_ROWS: list[dict[str, Any]] = [
    {"id": 1, "__deleted": "false", "__source_ts_ms": 99},
    {"id": 1, "__deleted": True, "__source_ts_ms": 100, "t": None},
    {"id": 1, "__deleted": "false", "__source_ts_ms": 99},
    {"id": 2, "__op": "d"},
    {"id": 2, "__op": "c"},
    {"id": 3, "key": "k", "value": "v", "payload": "p", "__deleted": False},
    {"id": 4, "__file": "bin.9", "__pos": 5, "__row": 0, "__deleted": "false"},
    {"id": 4, "__file": "bin.10", "__pos": 4, "__row": 0, "__deleted": "false"},
]


@pytest.mark.parametrize("source", POSITIONS)
def test_positions_sort_as_the_source_wrote_whatever_arrives_first(
    plain: Made, flattened: Made, source: str
) -> None:
    """Also: an update that is older than a delete and comes after it does not revive the row."""
    for made in (plain, flattened):
        assert {row["error"] for row in made[source]} == {None}
        found = [row["record_version"] for row in reversed(made[source])]
        assert found == sorted(found)
        assert len({version.rsplit(" ", 2)[0] for version in found}) == len(found)


def test_flat_rows_are_ordered_by_what_they_have(flattened: Made) -> None:
    made = flattened["rows"]
    assert [row["op"] for row in made] == ["u", "d", "u", "d", "c", "u", "u", "u"]
    version = [row["record_version"] for row in made]
    assert version[0] < version[2] < version[1]
    assert version[3] < version[4]
    assert version[6] < version[7]
    assert json.loads(made[5]["record"]) == {"id": 3, "key": "k", "value": "v", "payload": "p"}
    assert made[0]["changed_at"].timestamp() == 0.099


# --- wrappers and keys ---------------------------------------------------------------------------

CREATE = {"op": "c", "after": {"id": 2}, "source": {"lsn": 5}}
WITH_SCHEMA = {"schema": {"type": "struct"}, "payload": CREATE}
GONE = {"op": "d", "before": None, "after": None, "source": {"lsn": 5}}
KEYS_OF_7: list[Any] = [{"id": 7}, '{"id":7}', {"schema": {}, "payload": {"id": 7}}]
TOMBSTONES: list[Any] = [
    "null",
    '{"schema":null,"payload":null}',
    {"key": {"id": 7}, "value": None},
    {"key": '{"id":7}', "value": '{"schema":null,"payload":null}'},
]
OLD_KEYS: list[Any] = [
    {"id": 1},
    '{"id":1}',
    {"schema": {"type": "struct"}, "payload": {"id": 1}},
    '{"schema":null,"payload":{"id":1}}',
    "Struct{id=1}",
]


def with_headers(*values: Any) -> list[Any]:
    """Each value as the create of a key change, with headers of every form."""
    name = "__debezium.oldkey"
    headers: list[Any] = []
    for old in OLD_KEYS:
        headers.append([{"key": "a", "value": "b"}, {"key": name, "value": old}])
        headers.append([{"name": name, "value": old}])
        headers.append({"a": "b", name: old})
    return [{"key": {"id": 2}, "value": value, "headers": one} for value in values
            for one in headers]  # fmt: skip


def test_keys_and_headers_are_found_in_every_form(plain: Made, flattened: Made) -> None:
    for made in (plain, flattened):
        found = {(row["key"], row["old_key"], row["error"]) for row in made["headers"]}
        assert found == {("2", "1", None)}


def test_a_delete_with_nothing_but_its_key_is_a_delete(plain: Made) -> None:
    found = {(row["key"], row["op"], row["is_deleted"], row["error"]) for row in plain["key only"]}
    assert found == {("7", "d", True, None)}


def test_tombstones_do_nothing_whatever_is_around_them(plain: Made, flattened: Made) -> None:
    for made in (plain, flattened):
        found = {(row["op"], row["key"], row["error"]) for row in made["tombstones"]}
        assert found == {("tombstone", None, None)}


OID = {"$oid": "596e275826f08b2730779e1f"}
MONGODB = {"connector": "mongodb", "db": "shop", "collection": "articles", "ts_ms": 9, "ord": 1}
DOCUMENT = {"_id": OID, "n": {"$numberLong": "12"}, "t": 'a {"$oid":"x"}'}
DOCUMENTS: list[Any] = [
    {"op": "c", "after": json.dumps(DOCUMENT), "source": MONGODB},
    {
        "key": {"id": json.dumps(OID)},
        "value": {"op": "d", "before": None, "after": None, "source": MONGODB},
    },
    {"op": "c", "after": '{"_id": 1004, "t": "x"}', "source": MONGODB},
    {"key": '{"id":"1004"}', "value": {"op": "d", "source": MONGODB}},
    {"key": {"id": '"abc"'}, "value": {"op": "d", "source": MONGODB}},
]


def test_documents_of_mongodb_are_known_by_their_id(plain: Made) -> None:
    made = plain["documents"]
    assert [row["error"] for row in made] == [None] * 5
    assert [row["key"] for row in made] == [OID["$oid"], OID["$oid"], "1004", "1004", "abc"]
    assert json.loads(made[0]["record"]) == DOCUMENT | {"_id": OID["$oid"], "n": 12}


# --- placeholders --------------------------------------------------------------------------------

RAW = PLACEHOLDER.encode()
IN_BASE64 = base64.b64encode(RAW).decode()
EACH = [base64.b64encode(bytes([byte])).decode() for byte in RAW]
AS_UUID = str(uuid.UUID(bytes=hashlib.md5(RAW, usedforsecurity=False).digest(), version=3))
FORMS: list[Any] = [
    PLACEHOLDER,
    IN_BASE64,
    RAW.hex(),
    [PLACEHOLDER],
    [IN_BASE64],
    {PLACEHOLDER: PLACEHOLDER},
    json.dumps({PLACEHOLDER: PLACEHOLDER}, separators=(",", ":")),
    list(RAW),
    [float(byte) for byte in RAW],
    EACH,
    [{"scale": 0, "value": one} for one in EACH],
    [AS_UUID],
]
TEXTS: list[Any] = [
    f"about {PLACEHOLDER}",
    f'"{PLACEHOLDER}"',
    [PLACEHOLDER, "x"],
    {"a": 1, PLACEHOLDER: "x"},
    f'["{PLACEHOLDER}"]',
    f'x":"{PLACEHOLDER}","y',
    None,
    list(RAW)[:-1],
]


def placed(value: Any) -> dict[str, Any]:
    return {"op": "u", "after": {"id": 1, 'b"é': value, "z": "é"}, "source": {"lsn": 1}}


def test_the_placeholder_is_known_in_all_its_forms(plain: Made, translations: Made) -> None:
    assert [row["unavailable"] for row in plain["placeholders"]] == ['["b\\"é"]'] * len(FORMS)
    assert [row["unavailable"] for row in plain["texts"]] == [None] * len(TEXTS)
    assert [row["unavailable"] for row in plain["deleted"]] == [None]
    assert {row["unavailable"] for row in translations["old keys"]} == {'["body"]'}


# --- values --------------------------------------------------------------------------------------


def coded(number: int) -> str:
    size = number.bit_length() // 8 + 1
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


LARGE = int("9" * 38)
DAY = 19_782
MOMENT = DAY * 86_400 + 23 * 3600 + 15 * 60
DECIMALS = [0, 1, -1, 127, 128, -128, -129, 1990, -1234567890, 2**63, -(2**64), 10**37, LARGE]
COLUMNS: dict[str, tuple[str, dict[str, Any] | None, list[tuple[Any, Any]]]] = {
    "price": (
        "decimal(2)",
        {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
        [(coded(one), Decimal(f"{one}e-2")) for one in [*DECIMALS, -LARGE]]
        + [(PLACEHOLDER, PLACEHOLDER), (coded(10**39), coded(10**39)), (None, None)],
    ),
    "born": (
        "days",
        {"name": "io.debezium.time.Date"},
        [(DAY, "2024-02-29"), (-1, "1969-12-31"), (-719163, -719163), (2**31 - 1, 2**31 - 1)],
    ),
    "m3": (
        "millis",
        {"name": "io.debezium.time.Timestamp"},
        [(MOMENT * 1000, "2024-02-29T23:15:00"), (-1, "1969-12-31T23:59:59.999")],
    ),
    "m6": (
        "micros",
        {"name": "io.debezium.time.MicroTimestamp"},
        [
            (MOMENT * 10**6 + 1, "2024-02-29T23:15:00.000001"),
            (9223371331200000000, 9223371331200000000),
            (-9223372036832400000, -9223372036832400000),
            ("infinity", "infinity"),
        ],
    ),
    "m9": (
        "nanos",
        {"name": "io.debezium.time.NanoTimestamp"},
        [
            (MOMENT * 10**9 + 1200, "2024-02-29T23:15:00.0000012"),
            (-1, "1969-12-31T23:59:59.999999999"),
        ],
    ),
    "t3": ("time-millis", {"name": "io.debezium.time.Time"}, [(83_700_500, "23:15:00.5")]),
    "t6": (
        "time-micros",
        {"name": "io.debezium.time.MicroTime"},
        [(1, "00:00:00.000001"), (-5, -5), (86_400_000_000, 86_400_000_000)],
    ),
    "t9": ("time-nanos", {"name": "io.debezium.time.NanoTime"}, [(3_600 * 10**9, "01:00:00")]),
    "meta": (
        "json",
        {"name": "io.debezium.data.Json"},
        [('{"a":[1,null]}', {"a": [1, None]}), ("not json", "not json"), ("null", None)],
    ),
    "days": (
        "days",
        {"type": "array", "items": {"type": "int32", "name": "io.debezium.time.Date"}},
        [([DAY, None, 0], ["2024-02-29", None, "1970-01-01"]), ([], [])],
    ),
    "seen": ("", {"name": "io.debezium.time.ZonedTimestamp"}, [("2024-01-01T00:00:00Z",) * 2]),
    "any": (
        "",
        {"name": "io.debezium.data.VariableScaleDecimal"},
        [
            ({"scale": 3, "value": coded(-12345)}, Decimal("-12.345")),
            ({"scale": -2, "value": coded(7)}, 700),
            ([{"scale": 1, "value": coded(15)}], [Decimal("1.5")]),
            ({"scale": 1, "value": coded(15), "more": 1},) * 2,
        ],
    ),
}
TYPES = {name: kind for name, (kind, *_) in COLUMNS.items() if kind}


def columns_told() -> list[dict[str, Any]]:
    columns = [{"field": name, "type": "int64"} | (told or {}) for name, (_, told, _) in
               COLUMNS.items()]  # fmt: skip
    return [{"field": "id", "type": "int32"}, *columns]


CASES = [(name, *case) for name, (*_, listed) in COLUMNS.items() for case in listed]
OF_ARTICLES = {"lsn": 1, "schema": "public", "table": "articles"}
VALUES: list[Any] = [
    {"op": "u", "after": {"id": 1, name: value}, "source": OF_ARTICLES} for name, value, _ in CASES
]
DECIMAL_KEYS: list[Any] = [
    {"op": "u", "after": {"id": {"scale": 0, "value": coded(1001)}}, "source": {"scn": 1}},
    {"key": {"id": {"scale": 0, "value": coded(1001)}}, "value": {"op": "d", "source": {"scn": 2}}},
]


def with_schema(event: dict[str, Any]) -> dict[str, Any]:
    images = [{"field": name, "type": "struct", "fields": columns_told()}
              for name in ("before", "after")]  # fmt: skip
    return {"schema": {"type": "struct", "fields": images}, "payload": event}


def flat_value(event: dict[str, Any]) -> dict[str, Any]:
    return {**event["after"], "__deleted": "false"}


def _check_decoded(made: list[Change]) -> None:
    assert {row["error"] for row in made} == {None}
    for row, (name, _, wanted) in zip(made, CASES, strict=True):
        assert "E" not in row["record"].replace(PLACEHOLDER, "") or isinstance(wanted, str)
        found = json.loads(row["record"], parse_float=Decimal)[name]
        assert found == wanted, row["record"]
        if isinstance(wanted, Decimal):
            assert isinstance(found, (int, Decimal)), row["record"]


def test_values_are_decoded_by_the_schema_of_the_event(plain: Made, flattened: Made) -> None:
    for made in (plain["values"], plain["wrapped values"], flattened["values"]):
        _check_decoded(made)


def test_values_are_decoded_by_the_settings(typed: Typed) -> None:
    for made in typed.values():
        _check_decoded(made["values"])


def test_keys_that_are_decimals_read_as_numbers(plain: Made, translations: Made) -> None:
    found = {(row["key"], row["error"]) for row in plain["decimal keys"]}
    assert found == {("1001", None)}
    assert [row["key"] for row in translations["decimal"]] == ['["15.0","de"]']


def test_an_unknown_type_is_refused_and_the_known_ones_are_named(spark: SparkSession) -> None:
    for kind in ("date", "decimal", "decimal(2,1)"):
        with pytest.raises(
            SettingsError, match=r"born is .* not one of decimal.*days.*nanos.*json"
        ):
            check_types({"born": kind})
    with pytest.raises(SettingsError, match="born"):
        normalise(spark.range(0), key=["id"], types={"born": "date"})
