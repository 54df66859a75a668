"""What each tool writes, understood as changes: marks, ops, keys and, above all, order."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from freshet.changes import normalise, versions
from freshet.changes.envelope import OTHER
from freshet.changes.normalise import ENVELOPES

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parent.parent.parent
LANDING = "record string, file string, row bigint, seq bigint"


@dataclass(frozen=True)
class Group:
    """Records that are landed one a file, in this order, and understood together."""

    envelope: str
    records: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


def maxwell(kind: str, data: Any, **more: Any) -> dict[str, Any]:
    return {"database": "shop", "table": "items", "type": kind, "ts": 1000, "data": data} | more


def at(offset: int, file: str = "mysql-bin.000003") -> dict[str, Any]:
    return {"position": f"{file}:{offset}", "xid": 7}


def estuary(op: str, loc: list[int] | None, **more: Any) -> dict[str, Any]:
    source: dict[str, Any] = {"ts_ms": 1_700_000_000_000, "schema": "public", "table": "items"}
    if loc is not None:
        source["loc"] = loc
    return {"id": 1, "_meta": {"op": op, "source": source | more}}


def cdf(kind: str, version: int, **row: Any) -> dict[str, Any]:
    stamp = {"_commit_version": version, "_commit_timestamp": "2024-05-01T10:00:00.000Z"}
    return {"id": 1, **row, "_change_type": kind, **stamp}


def sequence(number: int) -> str:
    return f"{2024050110000000:016d}{number:019d}"


SYNCED = "2024-05-01T10:00:00Z"
UPDATED = {"_ab_cdc_updated_at": "2024-05-01T08:00:00Z"}
ACTIVE = {"_fivetran_active": True, "_fivetran_end": "9999-12-31T23:59:59.999Z"}
ENDED = {"_fivetran_active": False, "_fivetran_end": "2024-05-02T09:59:59.999Z"}

GROUPS = {
    "plain": Group(
        "plain",
        {
            "insert": {"id": 1, "record_version": 1},
            "deleted": {"id": 1, "record_version": 3, "is_deleted": True},
            "late": {"id": 1, "record_version": 2},
            "again": {"id": 1, "record_version": 3, "is_deleted": True},
        },
    ),
    "dms": Group(
        "dms",
        {
            "insert": {"Op": "I", "id": "1", "t": "a", "transact_id": sequence(1)},
            "deleted": {"Op": "D", "id": "1", "t": "b", "transact_id": sequence(10)},
            "late": {"Op": "U", "id": "1", "t": "b", "transact_id": sequence(9)},
            "again": {"Op": "D", "id": "1", "t": "b", "transact_id": sequence(10)},
            "lower": {"op": "U", "id": 1, "transact_seq": sequence(11)},
            "renamed": {"Op": "U", "id": "2", "BI_id": "1", "transact_id": sequence(12)},
            "touched": {"Op": "U", "id": "2", "BI_id": "2", "transact_id": sequence(13)},
            "image": {"Op": "before-image", "id": "1"},
            "without_key": {"Op": "U", "t": "x"},
            "loaded_with_op": {"Op": "I", "id": "1", "transact_id": sequence(99)},
        },
        files={"loaded_with_op": "s3://b/public/items/LOAD0000000A.csv"},
    ),
    "dms_load": Group(
        "dms",
        {
            "deleted": {"Op": "D", "id": "1"},
            "loaded": {"id": "1", "t": "a"},
            "unknown": {"Op": "X", "id": "1"},
            "nameless": {"c0": "I", "c1": "1"},
        },
    ),
    "dms_time": Group(
        "dms",
        {
            "deleted": {"Op": "D", "id": "1", "TIMESTAMP": "2024-05-01 10:00:00.200000"},
            "late": {"Op": "U", "id": "1", "TIMESTAMP": "2024-05-01 10:00:00.100000"},
            "mine": {"Op": "U", "id": "1", "transact_id": "7", "TIMESTAMP": "late"},
        },
    ),
    "dms_named": Group(
        "dms",
        {
            "deleted": {"Op": "D", "id": "1", "scn": "10"},
            "late": {"Op": "U", "id": "1", "scn": "9"},
            "empty": {"Op": "U", "id": "1", "scn": None},
            "loaded": {"id": "1"},
        },
        {"version": "scn"},
    ),
    "dms_tables": Group(
        "dms",
        {
            "ours": {"op": "I", "table": "items", "schema": "public", "id": "1"},
            "theirs": {"op": "I", "table": "others", "schema": "public", "id": "1"},
            "same_name": {"op": "I", "table": "items", "schema": "old", "id": "1"},
            "untold": {"op": "I", "id": "1"},
        },
        {"table": "public.items"},
    ),
    "fivetran": Group(
        "fivetran",
        {
            "insert": {"id": 1, "_fivetran_synced": "2024-05-01T09:00:00Z"},
            "deleted": {"id": 1, "_fivetran_synced": SYNCED, "_fivetran_deleted": True},
            "late": {"id": 1, "_fivetran_synced": "2024-05-01T09:30:00Z"},
            "again": {"id": 1, "_fivetran_synced": SYNCED, "_fivetran_deleted": "true"},
            "same_time": {"id": 1, "_fivetran_synced": SYNCED, "_fivetran_deleted": False},
            "keyless": {"_fivetran_id": "x", "_fivetran_index": 3, "_fivetran_synced": SYNCED},
        },
    ),
    "fivetran_history": Group(
        "fivetran",
        {
            "first": {"id": 1, "_fivetran_start": SYNCED, **ACTIVE},
            "past": {"id": 1, "_fivetran_start": SYNCED, **ENDED},
            "second": {"id": 1, "_fivetran_start": "2024-05-02T10:00:00Z", **ACTIVE},
            "ended": {"id": 1, "_fivetran_start": "2024-05-02T10:00:00Z", **ENDED},
            "unended": {"id": 1, "_fivetran_start": SYNCED, "_fivetran_active": "false"},
        },
    ),
    "airbyte": Group(
        "airbyte",
        {
            "insert": {"id": 1, "_ab_cdc_lsn": 5, "_airbyte_extracted_at": SYNCED},
            "deleted": {
                "id": 1,
                "_ab_cdc_lsn": 10,
                "_ab_cdc_deleted_at": SYNCED,
                "_ab_cdc_updated_at": "2024-05-01T08:00:00Z",
                "_airbyte_extracted_at": SYNCED,
            },
            "late": {"id": 1, "_ab_cdc_lsn": 9, "_airbyte_extracted_at": "2024-06-01T00:00:00Z"},
            "again": {
                "id": 1,
                "_ab_cdc_lsn": 10,
                "_ab_cdc_deleted_at": SYNCED,
                "_airbyte_extracted_at": SYNCED,
            },
            "resynced": {
                "id": 1,
                "_ab_cdc_lsn": 1,
                "_airbyte_generation_id": 1,
                "_airbyte_extracted_at": SYNCED,
            },
            "object": {
                "_airbyte_data": {"id": 1, "t": "x", "_ab_cdc_deleted_at": None},
                "_airbyte_emitted_at": 1_700_000_000_000,
            },
            "text": {
                "_airbyte_data": '{"id": 1, "t": "x", "_ab_cdc_deleted_at": "2024-05-01"}',
                "_airbyte_emitted_at": 1_700_000_000_001,
            },
            "bin_9": {"id": 1, "_ab_cdc_log_file": "b.999999", "_ab_cdc_log_pos": 50, **UPDATED},
            "bin_10": {"id": 1, "_ab_cdc_log_file": "b.1000000", "_ab_cdc_log_pos": 4, **UPDATED},
            "bin_10_later": {
                "id": 1,
                "_ab_cdc_log_file": "b.1000000",
                "_ab_cdc_log_pos": 30,
                **UPDATED,
            },
            "serial_1": {
                "id": 1,
                "_ab_cdc_lsn": "0:a:3",
                "_ab_cdc_event_serial_no": "1",
                **UPDATED,
            },
            "serial_2": {
                "id": 1,
                "_ab_cdc_lsn": "0:a:3",
                "_ab_cdc_event_serial_no": "2",
                **UPDATED,
            },
        },
    ),
    "maxwell": Group(
        "maxwell",
        {
            "insert": maxwell("insert", {"id": 1, "t": "a"}, **at(900)),
            "deleted": maxwell("delete", {"id": 1, "t": "b"}, **at(30, "mysql-bin.1000000")),
            "late": maxwell("update", {"id": 1, "t": "b"}, **at(1000, "mysql-bin.999999")),
            "again": maxwell("delete", {"id": 1, "t": "b"}, **at(30, "mysql-bin.1000000")),
            "snapshot": maxwell("bootstrap-insert", {"id": 1}, ts=9999),
            "start": maxwell("bootstrap-start", {}),
            "ddl": {"database": "shop", "type": "table-alter", "sql": "alter …", "ts": 10**15},
            "renamed": maxwell("update", {"id": 2}, old={"id": 1, "t": "a"}, **at(40)),
            "touched": maxwell("update", {"id": 2}, old={"t": "a"}, **at(50)),
            "strange": maxwell("vacuum", {"id": 1}),
            "empty": maxwell("insert", None, sql="…"),
            "second": maxwell("update", {"id": 1}, ts=1001),
            "second_later": maxwell("update", {"id": 1}, ts=1001, xid=5, xoffset=9),
            "second_last": maxwell("update", {"id": 1}, ts=1001, xid=5, xoffset=10),
            "gtid_9": maxwell("update", {"id": 1}, gtid="3e11fa47-71ca:9", ts=2000),
            "gtid_10": maxwell("update", {"id": 1}, gtid="3e11fa47-71ca:10", ts=1999),
            "no_time": maxwell("update", {"id": 1}, ts=9 * 10**18),
        },
    ),
    "maxwell_tables": Group(
        "maxwell",
        {
            "ours": maxwell("update", {"a": 1, "b": 2}, old={"b": 1}),
            "theirs": maxwell("insert", {"a": 1, "b": 2}) | {"table": "others"},
        },
        {"table": "shop.items", "key": ("a", "b")},
    ),
    "estuary": Group(
        "estuary",
        {
            "insert": estuary("c", [5, 4, 6]) | {"t": "a"},
            "deleted": estuary("d", [10, 3, 12]),
            "late": estuary("u", [9, 8, 11]) | {"t": "b"},
            "again": estuary("d", [10, 3, 12]),
            "snapshot": estuary("c", [99, 99, 99], snapshot=True),
            "bin_9": estuary("u", None, cursor="b.000009:900:1"),
            "bin_10": estuary("u", None, cursor="b.000010:90:0"),
            "bin_10_row": estuary("u", None, cursor="b.000010:90:1"),
            "server_1": estuary("u", None, lsn="AAAAJQAACmgAAw==", seqval="AAAAJQAACmgAAg=="),
            "server_2": estuary("u", None, lsn="AAAAJQAACmkAAw==", seqval="AAAAJQAACmgAAg=="),
            "clock_1": {
                "id": 1,
                "_meta": {"op": "u", "uuid": "ffffffff-0001-11ee-8000-000000000000"},
            },
            "clock_2": {
                "id": 1,
                "_meta": {"op": "u", "uuid": "00000000-0002-11ee-8000-000000000000"},
            },
            "renamed": {"id": 2, "_meta": {"op": "u", "before": {"id": 1}}},
            "strange": {"id": 2, "_meta": {"op": "x"}},
        },
    ),
    "delta_cdf": Group(
        "delta-cdf",
        {
            "insert": cdf("insert", 1),
            "deleted": cdf("delete", 10),
            "late": cdf("update_postimage", 9),
            "again": cdf("delete", 10),
            "merged": cdf("insert", 10),
            "before": cdf("update_preimage", 9, id=None),
            "strange": cdf("upsert", 9),
        },
    ),
    "not_theirs": Group("delta-cdf", {"row": {"id": 1}}),
    "not_maxwell": Group("maxwell", {"row": {"id": 1}}),
    "not_airbyte": Group("airbyte", {"row": {"id": 1}}),
    "not_fivetran": Group("fivetran", {"row": {"id": 1}}),
    "not_estuary": Group("estuary", {"row": {"id": 1}}),
}

Changes = dict[str, dict[str, Any]]
Found = Callable[[str], Changes]


def landed(group: Group) -> list[tuple[str, str]]:
    return [
        (json.dumps(record), group.files.get(name, f"{name}.json"))
        for name, record in group.records.items()
    ]


def numbered(rows: list[tuple[str, str]]) -> list[tuple[str, str, int, int]]:
    return [(record, file, 0, seq) for seq, (record, file) in enumerate(rows)]


def understood(spark: SparkSession, rows: list[Any], **options: Any) -> list[dict[str, Any]]:
    frame = spark.createDataFrame(rows, LANDING).coalesce(1)
    made = normalise(frame, **({"key": ("id",)} | options)).collect()
    return sorted((row.asDict() for row in made), key=lambda row: row["seq"])


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> Found:
    """The changes of a group, by name; groups of the same settings are understood together."""
    known: dict[str, Changes] = {}

    def get(name: str) -> Changes:
        if name not in known:
            chosen = GROUPS[name].envelope, GROUPS[name].options
            alike = {n: g for n, g in GROUPS.items() if (g.envelope, g.options) == chosen}
            rows = numbered([row for group in alike.values() for row in landed(group)])
            made = iter(understood(spark, rows, envelope=chosen[0], **chosen[1]))
            for one, group in alike.items():
                known[one] = {record: next(made) for record in group.records}
        return known[name]

    return get


def without_arrival(change: dict[str, Any]) -> dict[str, Any]:
    return change | {"seq": None, "record_version": change["record_version"].rsplit(" ", 2)[0]}


def in_order(changes: Changes, *names: str) -> bool:
    """Whether each of these sorts below the next, wherever it arrived."""
    found = [changes[name]["record_version"] for name in names]
    return all(left < right for left, right in pairwise(found))


ALL = ("plain", "dms", "fivetran", "airbyte", "maxwell", "estuary", "delta_cdf")


# --- what is true of every envelope --------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_a_deleted_row_does_not_come_back_with_an_older_update_that_lands_later(
    found: Found, name: str
) -> None:
    made = found(name)
    assert made["late"]["seq"] > made["deleted"]["seq"]
    assert in_order(made, "insert", "late", "deleted")
    assert [made[one]["is_deleted"] for one in ("insert", "late", "deleted")] == [
        False,
        False,
        True,
    ]
    assert {made[one]["key"] for one in ("insert", "late", "deleted")} == {"1"}
    assert {made[one]["error"] for one in ("insert", "late", "deleted", "again")} == {None}
    assert made["deleted"]["op"] == "d"


@pytest.mark.parametrize("name", ALL)
def test_what_is_delivered_again_takes_its_old_place(found: Found, name: str) -> None:
    made = found(name)
    position = [made[one]["record_version"].rsplit(" ", 2)[0] for one in ("deleted", "again")]
    assert position[0] == position[1]
    assert in_order(made, "deleted", "again")


def test_auto_understands_every_record_as_its_own_envelope_does(
    spark: SparkSession, found: Found
) -> None:
    """But rows of a full load of DMS bear no mark; they sort below its changes all the same."""
    names = [name for name, group in GROUPS.items() if not group.options and "not_" not in name]
    rows = [row for name in names for row in landed(GROUPS[name])]
    expected = [(name, one, change) for name in names for one, change in found(name).items()]
    made = understood(spark, numbered(rows), envelope="auto")
    for (name, one, explicit), auto in zip(expected, made, strict=True):
        if (name, one) in {("dms_load", n) for n in ("loaded", "unknown", "nameless")}:
            assert auto["envelope"] == "plain"
            continue
        assert without_arrival(auto) == without_arrival(explicit), (name, one)
    loaded, deleted = (
        made[[key[:2] for key in expected].index(("dms_load", one))]
        for one in ("loaded", "deleted")
    )
    assert loaded["record_version"] < deleted["record_version"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("not_theirs", "not a row of a change data feed: there is no _change_type"),
        ("not_maxwell", "not an event of Maxwell: there is no type"),
        ("not_airbyte", "not a record of Airbyte: there is none of _airbyte_extracted_at"),
        ("not_fivetran", "there is neither _fivetran_synced nor _fivetran_start"),
        ("not_estuary", "not a document of Estuary: there is no _meta.op"),
    ],
)
def test_records_without_the_marks_say_so(found: Found, name: str, reason: str) -> None:
    assert reason in found(name)["row"]["error"]


def test_the_page_tells_what_every_envelope_guarantees() -> None:
    page = " ".join((ROOT / "docs/changes.md").read_text().split())
    for one in ENVELOPES.values():
        assert " ".join(one.guarantee.split()) in page, one.name
        assert f"`{one.name}`" in page


def test_an_envelope_whose_events_tell_of_another_key_says_so(found: Found) -> None:
    """Or the pipeline would not look for such events, and the old key would stay in the index."""
    for name, group in GROUPS.items():
        tells = any(change["old_key"] is not None for change in found(name).values())
        if tells and group.envelope in ENVELOPES:
            assert ENVELOPES[group.envelope].tells_of_others, group.envelope


# --- dms -----------------------------------------------------------------------------------------


def test_dms_changes_say_what_happened(found: Found) -> None:
    made = found("dms")
    ops = {one: change["op"] for one, change in made.items()}
    assert (ops["insert"], ops["late"], ops["lower"], ops["deleted"]) == ("c", "u", "u", "d")
    assert (ops["image"], made["image"]["error"]) == (OTHER, None)
    assert made["insert"]["record"] is None
    assert made["without_key"]["error"] == "no value in the key column id"
    assert (made["renamed"]["key"], made["renamed"]["old_key"]) == ("2", "1")
    assert made["touched"]["old_key"] is None


def test_dms_rows_of_a_full_load_never_beat_a_change(found: Found) -> None:
    assert in_order(found("dms"), "loaded_with_op", "insert")
    assert found("dms")["loaded_with_op"]["op"] == "r"
    made = found("dms_load")
    assert (made["loaded"]["op"], made["loaded"]["error"]) == ("r", None)
    assert in_order(made, "loaded", "deleted")


def test_dms_is_ordered_by_commit_time_where_there_is_no_sequence(found: Found) -> None:
    made = found("dms_time")
    assert in_order(made, "late", "deleted")
    assert made["deleted"]["changed_at"] == datetime(2024, 5, 1, 10, 0, 0, 200_000)  # noqa: DTZ001
    assert made["mine"]["record_version"].startswith("P011 - - ")  # a user's own columns


def test_dms_is_ordered_by_the_column_that_the_settings_name(found: Found) -> None:
    made = found("dms_named")
    assert in_order(made, "loaded", "late", "deleted")
    assert made["empty"]["error"] == "no value in the version column scn"
    assert made["loaded"]["error"] is None


def test_dms_transaction_files_hold_several_tables(found: Found) -> None:
    ops = {one: change["op"] for one, change in found("dms_tables").items()}
    assert ops == {"ours": "c", "theirs": OTHER, "same_name": OTHER, "untold": "c"}


def test_dms_rows_that_are_not_understood_say_why(found: Found) -> None:
    made = found("dms_load")
    assert made["unknown"]["error"] == "the DMS Op is not understood: X"
    assert "set landing.csv_columns" in made["nameless"]["error"]


# --- fivetran ------------------------------------------------------------------------------------


def test_a_fivetran_delete_beats_a_row_of_the_same_time(found: Found) -> None:
    made = found("fivetran")
    assert made["same_time"]["seq"] > made["deleted"]["seq"]
    assert in_order(made, "same_time", "deleted")


def test_fivetran_history_deletes_only_what_has_no_newer_version(found: Found) -> None:
    made = found("fivetran_history")
    assert in_order(made, "first", "past", "second", "ended")
    flags = {one: change["is_deleted"] for one, change in made.items()}
    assert flags == {
        "first": False,
        "past": True,
        "second": False,
        "ended": True,
        "unended": False,
    }


# --- airbyte -------------------------------------------------------------------------------------


def test_airbyte_rows_are_found_flat_and_wrapped(found: Found) -> None:
    made = found("airbyte")
    for one, is_deleted in (("object", False), ("text", True)):
        assert (made[one]["key"], made[one]["is_deleted"]) == ("1", is_deleted)
        assert json.loads(made[one]["record"])["t"] == "x"
    assert made["insert"]["record"] is None
    assert made["object"]["changed_at"] == datetime(2023, 11, 14, 22, 13, 20)  # noqa: DTZ001
    assert made["deleted"]["changed_at"] == datetime(2024, 5, 1, 8)  # noqa: DTZ001


def test_airbyte_is_ordered_by_what_the_source_has(found: Found) -> None:
    made = found("airbyte")
    assert in_order(made, "object", "text")
    assert in_order(made, "bin_9", "bin_10", "bin_10_later")
    assert in_order(made, "serial_1", "serial_2")
    assert in_order(made, "deleted", "resynced")


# --- maxwell -------------------------------------------------------------------------------------


def test_maxwell_events_say_what_happened(found: Found) -> None:
    made = found("maxwell")
    ops = {one: change["op"] for one, change in made.items()}
    assert (ops["insert"], ops["late"], ops["snapshot"]) == ("c", "u", "r")
    assert (ops["start"], ops["ddl"]) == (OTHER, OTHER)
    assert (made["start"]["error"], made["ddl"]["error"]) == (None, None)
    assert json.loads(made["deleted"]["record"]) == {"id": 1, "t": "b"}
    assert made["insert"]["changed_at"] == datetime(1970, 1, 1, 0, 16, 40)  # noqa: DTZ001
    assert (made["no_time"]["changed_at"], made["no_time"]["error"]) == (None, None)


def test_maxwell_orders_by_binlog_then_gtid_then_time(found: Found) -> None:
    made = found("maxwell")
    assert in_order(made, "snapshot", "second", "second_later", "second_last", "insert")
    assert in_order(made, "gtid_9", "gtid_10")


def test_a_maxwell_update_of_the_key_tells_the_old_key(found: Found) -> None:
    made = found("maxwell")
    assert (made["renamed"]["key"], made["renamed"]["old_key"]) == ("2", "1")
    assert made["touched"]["old_key"] is None
    pair = found("maxwell_tables")["ours"]
    assert (pair["key"], pair["old_key"]) == ('["1","2"]', '["1","1"]')
    assert found("maxwell_tables")["theirs"]["op"] == OTHER


def test_maxwell_events_that_are_not_understood_say_why(found: Found) -> None:
    made = found("maxwell")
    assert made["strange"]["error"] == "the Maxwell type vacuum is not understood"
    assert made["empty"]["error"] == "an event of Maxwell without data"


# --- estuary -------------------------------------------------------------------------------------


def test_estuary_documents_say_what_happened(found: Found) -> None:
    made = found("estuary")
    ops = {one: change["op"] for one, change in made.items()}
    assert (ops["insert"], ops["late"], ops["snapshot"]) == ("c", "u", "r")
    assert made["strange"]["error"] == "_meta.op is not understood: x"
    assert (made["renamed"]["key"], made["renamed"]["old_key"]) == ("2", "1")
    assert made["insert"]["changed_at"] == datetime(2023, 11, 14, 22, 13, 20)  # noqa: DTZ001


def test_estuary_is_ordered_by_what_the_source_has(found: Found) -> None:
    made = found("estuary")
    assert in_order(made, "snapshot", "insert")
    assert in_order(made, "bin_9", "bin_10", "bin_10_row")
    assert in_order(made, "server_1", "server_2")
    assert in_order(made, "clock_1", "clock_2")


# --- delta-cdf -----------------------------------------------------------------------------------


def test_a_change_data_feed_drops_before_images_and_lets_an_insert_follow_a_delete(
    found: Found,
) -> None:
    made = found("delta_cdf")
    assert (made["before"]["op"], made["before"]["error"]) == (OTHER, None)
    assert in_order(made, "again", "merged")
    assert (made["insert"]["op"], made["late"]["op"]) == ("c", "u")
    assert made["strange"]["error"] == "the change type upsert is not understood"
    assert made["insert"]["changed_at"] == datetime(2024, 5, 1, 10)  # noqa: DTZ001


# --- versions ------------------------------------------------------------------------------------

NUMBER = re.compile(r"-?[0-9]+(\.[0-9]*)?([eE].*)?")
Value = tuple[str | None, tuple[Any, ...]]
"""A text and what it is sorted by: its kind, then its value."""


@st.composite
def numbers(draw: st.DrawFn) -> Value:
    whole = draw(st.integers(0, 10 ** draw(st.sampled_from((1, 3, 19, 40, 98, 99, 100, 130)))))
    zeros, sign = "0" * draw(st.integers(0, 2)), draw(st.sampled_from(("", "-")))
    fraction = draw(st.sampled_from(("", ".", ".0", ".5", ".50", ".49", ".5000001", ".05")))
    text = f"{sign}{zeros}{whole}{fraction}"
    if whole < 10**15 and not fraction.endswith("."):
        text += draw(st.sampled_from(("", "", "E9", "e-2")))
    return text, (1, Decimal(text))


@st.composite
def moments(draw: st.DrawFn) -> Value:
    day = draw(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)))  # noqa: DTZ001
    minutes = draw(st.sampled_from((0, 0, 60, -330, 345)))
    zone = {0: draw(st.sampled_from(("", "Z", " UTC", "+00"))), 60: "+01", -330: "-0530"}
    zone[345] = "+05:45"
    nanos = draw(st.sampled_from(("", ".5", ".000001", ".000001001", ".000001999")))
    text = f"{day:%Y}".rjust(4, "0") + f"{day:-%m-%d}{draw(st.sampled_from('T '))}{day:%H:%M:%S}"
    since = day.replace(microsecond=0, tzinfo=UTC) - datetime(1, 1, 1, tzinfo=UTC)
    seconds = (since - timedelta(minutes=minutes)) // timedelta(seconds=1)
    return f"{text}{nanos}{zone[minutes]}", (2, seconds, Decimal(f"0{nanos}"))


@st.composite
def texts(draw: st.DrawFn) -> Value:
    letters = st.sampled_from('\x00\t\n !"#-09aPTW~é漢😀￿')
    text = draw(st.text(letters | st.characters(exclude_categories=("Cs",)), max_size=5))
    return (f"x{text}" if NUMBER.fullmatch(text) else text), (
        3,
        f"x{text}" if NUMBER.fullmatch(text) else text,
    )


VALUES = st.one_of(st.just((None, (0,))), numbers(), moments(), texts())
TUPLES = st.lists(VALUES, min_size=1, max_size=3)
NAMES = st.tuples(
    texts().map(lambda value: str(value[0]).rstrip("0123456789")),
    st.integers(0, 2),
    st.none() | st.integers(0, 10**12),
)


def drawn(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    """So many values, to be looked at in one Spark job."""
    values: list[Any] = []

    @settings(max_examples=count, deadline=None, database=None)
    @given(strategy)
    def draw(value: Any) -> None:
        values.append(value)

    draw()
    return values


def assert_sorted_alike(strings: list[str], keys: list[Any], spelled: list[Any]) -> None:
    ranked = sorted(zip(strings, keys, spelled, strict=True), key=lambda one: one[0])
    for left, right in pairwise(ranked):
        assert (left[0] == right[0]) == (left[1] == right[1]), (left, right)
        assert left[1] <= right[1], (left, right)


def test_the_order_of_versions_is_the_order_of_what_they_are_made_of(spark: SparkSession) -> None:
    tuples = drawn(TUPLES, 500)
    spelled = [[text for text, _ in one] for one in tuples]
    frame = spark.createDataFrame([(one + [None] * (3 - len(one)), len(one)) for one in spelled],
                                  "v array<string>, n int").coalesce(1)  # fmt: skip
    parts = [
        F.coalesce(versions.component(versions.without_exponent(F.col("v")[place])), F.lit("-"))
        for place in range(3)
    ]
    joined = F.array_join(F.slice(F.array(*parts), F.lit(1), F.col("n")), " ")
    strings = [row[0] for row in frame.select(joined).collect()]
    assert_sorted_alike(strings, [tuple(key for _, key in one) for one in tuples], spelled)


def test_names_with_a_counter_are_ordered_by_name_and_number(spark: SparkSession) -> None:
    names = [*drawn(NAMES, 200), ("mysql-bin.", 0, 999_999), ("mysql-bin.", 0, 1_000_000)]
    spelled = [
        f"{stem}{'' if number is None else '0' * zeros + str(number)}"
        for stem, zeros, number in names
    ]
    keys = [(stem, -1 if number is None else number) for stem, _, number in names]
    frame = spark.createDataFrame([(one,) for one in spelled], "v string").coalesce(1)
    strings = [row[0] for row in frame.select(versions.numbered(F.col("v"))).collect()]
    assert_sorted_alike(strings, keys, spelled)
    assert {len(one.split(" ")) for one in strings if "!" not in one} == {2}
