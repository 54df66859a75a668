"""Rows of CSV, Parquet, ORC and Avro as JSON objects: dialects, types without loss, damage."""

import gzip
import json
import math
import random
import struct
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc
from pyarrow import parquet as pq

from freshet.landing import read_records
from freshet.landing.avro_executor import Source
from freshet.landing.read_options import ReadOptions
from freshet.landing.values_executor import date_text, duration_text, timestamp_text

SOME_UUID = UUID("12345678-1234-5678-1234-567812345678")


def read_all(file: Path, file_format: str = "auto", **options: Any) -> list[dict[str, Any]]:
    batches = list(read_records(str(file), ReadOptions(format=file_format, **options)))
    rows = [row for batch in batches for row in batch.to_pylist()]
    numbers = [row["row"] for row in rows]
    assert numbers == sorted(set(numbers))
    return rows


def objects_of(file: Path, file_format: str = "auto", **options: Any) -> list[Any]:
    rows = read_all(file, file_format, **options)
    assert [row["error"] for row in rows] == [None] * len(rows)
    assert [row["row"] for row in rows] == list(range(len(rows)))
    return [json.loads(row["record"]) for row in rows]


def csv(folder: Path, content: bytes | str) -> Path:
    file = folder / "a.csv"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


# --- CSV -----------------------------------------------------------------------------------------


def test_csv_rows_become_objects_of_text(tmp_path: Path) -> None:
    file = csv(tmp_path, 'id,title,note\n1,"two\nlines",\n02,"a ""b"", c",""\n')
    assert objects_of(file) == [
        {"id": "1", "title": "two\nlines", "note": None},
        {"id": "02", "title": 'a "b", c', "note": ""},
    ]


def test_a_csv_dialect_is_read_as_the_options_say(tmp_path: Path) -> None:
    file = csv(tmp_path, "a;b\n'x;y';\\N\n'\\N';''\n;z\"\n")
    options = {"csv_delimiter": ";", "csv_quote": "'", "csv_null": "\\N"}
    assert objects_of(file, **options) == [
        {"a": "x;y", "b": None},
        {"a": "\\N", "b": ""},
        {"a": "", "b": 'z"'},
    ]


def test_csv_escapes_and_rows_without_quotes_are_read(tmp_path: Path) -> None:
    escaped = csv(tmp_path, 'a,b\nx\\,y,"say \\"hi\\""\n')
    assert objects_of(escaped, csv_escape="\\") == [{"a": "x,y", "b": 'say "hi"'}]
    unquoted = csv(tmp_path, 'a,b\n"x,y"\n')
    assert objects_of(unquoted, csv_quote="") == [{"a": '"x', "b": 'y"'}]


def test_csv_without_a_header_has_the_names_given_or_places(tmp_path: Path) -> None:
    file = csv(tmp_path, "1,2\n3,4\n")
    assert objects_of(file, csv_header=False) == [{"c0": "1", "c1": "2"}, {"c0": "3", "c1": "4"}]
    named = objects_of(file, csv_header=False, csv_columns=("x", "y"))
    assert named == [{"x": "1", "y": "2"}, {"x": "3", "y": "4"}]


def test_names_given_do_not_replace_a_header(tmp_path: Path) -> None:
    assert objects_of(csv(tmp_path, "a,b\n1,2\n"), csv_columns=("x", "y")) == [{"a": "1", "b": "2"}]


def test_a_csv_column_without_a_name_is_called_by_its_place(tmp_path: Path) -> None:
    assert objects_of(csv(tmp_path, ",a,\n1,2,3\n")) == [{"c0": "1", "a": "2", "c2": "3"}]


def test_a_csv_header_that_names_two_columns_alike_is_an_error(tmp_path: Path) -> None:
    [row] = read_all(csv(tmp_path, "id,a,a\n1,2,3\n"))
    assert row["record"] is None
    assert row["error"] == 'not readable as csv: the header names "a" more than once'


def test_csv_rows_with_other_numbers_of_fields_are_set_aside_in_their_places(
    tmp_path: Path,
) -> None:
    rows = read_all(csv(tmp_path, 'id,title\n1,a\n2,b,"c\n"\n\n3,d\n4\n'))
    assert [row["error"] for row in rows] == [
        None,
        "3 fields where the header has 2",
        None,
        "1 field where the header has 2",
    ]
    assert [row["row"] for row in rows] == [0, 1, 2, 3]
    assert [rows[1]["record"], rows[3]["record"]] == ['2,b,"c\n"', "4"]
    assert json.loads(rows[2]["record"]) == {"id": "3", "title": "d"}


def test_csv_rows_are_numbered_in_order_over_many_blocks(tmp_path: Path) -> None:
    chance = random.Random(3)
    lines = [f"{n},{'x' * 200}{',extra' * (chance.random() < 0.1)}" for n in range(60_000)]
    rows = read_all(csv(tmp_path, "n,text\n" + "\n".join(lines) + "\n"))
    assert [row["row"] for row in rows] == list(range(60_000))
    for line, row in zip(lines, rows, strict=True):
        if line.endswith("extra"):
            assert row["record"] == line
            assert row["error"] == "3 fields where the header has 2"
        else:
            assert row["record"] == f'{{"n": "{row["row"]}", "text": "{"x" * 200}"}}'
            assert row["error"] is None


def test_a_csv_in_which_no_row_fits_is_given_up_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = csv(tmp_path, "a,b\n" + "1;2\n" * 5_000 + "3,4\n")
    rows = read_all(file)
    assert [row["error"] for row in rows] == ["1 field where the header has 2"] * 5_000 + [None]
    monkeypatch.setattr("freshet.landing.csv_executor._MOST_WAITING_ROWS", 1_000)
    *refused, last = read_all(file)
    assert [row["record"] for row in refused] == ["1;2"] * 1_001
    assert last["error"] == (
        "not readable as csv: too many rows do not fit: is the delimiter right?"
    )


def test_csv_rows_that_do_not_fit_amid_a_file_are_handed_over_block_by_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freshet.landing.csv_executor.BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr("freshet.landing.csv_executor._MOST_WAITING_ROWS", 4_096)
    file = csv(tmp_path, "a,b\n1,2\n" + "1;2\n" * 50_000 + "3,4\n")
    rows = read_all(file)
    assert len(rows) == 50_002
    assert [row["row"] for row in rows if not row["error"]] == [0, 50_001]


def test_a_reader_of_csv_may_stop_early(tmp_path: Path) -> None:
    file = csv(tmp_path, "a,b\n" + "1,2\n" * 3_000_000)
    batches = read_records(str(file), ReadOptions(format="csv"))
    assert next(batches).num_rows > 0
    batches.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("content", ["", "\n\n", "id,title", "id,title\n", "\ufeff", "id\n"])
def test_a_csv_without_rows_gives_nothing(tmp_path: Path, content: str) -> None:
    file = csv(tmp_path, content)
    assert read_all(file) == []
    if not content.strip("\ufeff\n"):
        assert read_all(file, csv_header=False) == []
        assert read_all(file, csv_header=False, csv_columns=("a", "b")) == []


def test_a_csv_of_one_column_is_read_to_its_last_row(tmp_path: Path) -> None:
    assert objects_of(csv(tmp_path, 'a\n1\n""\n2')) == [{"a": "1"}, {"a": ""}, {"a": "2"}]


def test_a_byte_order_mark_and_carriage_returns_are_no_part_of_a_csv(tmp_path: Path) -> None:
    assert objects_of(csv(tmp_path, "\ufeffid,a\r\n1,2\r\n")) == [{"id": "1", "a": "2"}]


def test_a_csv_row_longer_than_a_block_comes_once_and_so_do_those_around_it(tmp_path: Path) -> None:
    lines = [f"{n},{'x' * 99}" for n in range(100_000)]
    lines[2_000] = "2000,bad,row"
    lines[70_000] = f'70000,"{"y" * 12_000_000}\n"'
    lines[90_000] = "90000,bad,row"
    rows = read_all(csv(tmp_path, "n,text\n" + "\n".join(lines)))
    assert [row["row"] for row in rows] == list(range(100_000))
    assert [row["row"] for row in rows if row["error"]] == [2_000, 90_000]
    assert json.loads(rows[70_000]["record"])["text"] == "y" * 12_000_000 + "\n"


@pytest.mark.parametrize(
    ("content", "unfinished"),
    [
        ('a,b\n1,2\n3,"4\n5,6\n', '{"a": "3", "b": "4\\n5,6\\n"}'),
        ('a,b\n1,2\n"3,4\n5,6\n', '"3,4\n5,6\n'),
        ('a,b\n1,2\n3,"4', '{"a": "3", "b": "4"}'),
    ],
)
def test_a_quote_that_is_not_closed_is_no_value(
    tmp_path: Path, content: str, unfinished: str
) -> None:
    good, bad = read_all(csv(tmp_path, content))
    assert good == {"row": 0, "record": '{"a": "1", "b": "2"}', "error": None}
    assert bad == {
        "row": 1,
        "record": unfinished,
        "error": "not readable as csv: a quote is not closed",
    }


def test_a_quote_that_is_not_closed_for_long_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freshet.landing.csv_executor.BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr("freshet.landing.csv_executor.LONGEST_RECORD_BYTES", 1 << 14)
    rows = read_all(csv(tmp_path, "a,b\n" + "1,2\n" * 2_000 + '3,"' + "5,6\n" * 100_000))
    assert [row["error"] for row in rows[:-1]] == [None] * (len(rows) - 1)
    assert rows[-1]["error"].startswith("not readable as csv: a row has no end")


def test_a_csv_header_without_end_is_an_error(tmp_path: Path) -> None:
    [row] = read_all(csv(tmp_path, '"a,b\n1,2\n'))
    assert row["error"] == "not readable as csv: a quote of the header is not closed"


def test_only_the_csv_rows_that_are_not_utf8_are_bad(tmp_path: Path) -> None:
    file = csv(tmp_path, b"a,b\n1,\xff\n2,\xc3\xa9\n3,\xe9,4\n5,6\n\xe9")
    rows = read_all(file)
    assert [(row["record"], row["error"]) for row in rows] == [
        ('{"a": "1", "b": "\\xff"}', "not UTF-8 at byte 17"),
        ('{"a": "2", "b": "é"}', None),
        ("3,\\xe9,4", "3 fields where the header has 2"),
        ('{"a": "5", "b": "6"}', None),
        ("\\xe9", "1 field where the header has 2"),
    ]


def test_a_csv_header_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    [row] = read_all(csv(tmp_path, b"\xe9,b\n1,2\n"))
    assert row["error"] == "not readable as csv: the header is not UTF-8"


def test_a_truncated_csv_gives_its_whole_rows_and_then_says_so(tmp_path: Path) -> None:
    lines = [f'{n},"{n * n}\n{n}"' for n in range(50_000)]
    content = gzip.compress("\n".join(["n,text", *lines]).encode())
    file = tmp_path / "a.csv.gz"
    for part in (0.5, 0.50005, 0.9):
        file.write_bytes(content[: int(len(content) * part)])
        *good, last = read_all(file)
        assert len(good) > 10_000
        for n, row in enumerate(good):
            assert json.loads(row["record"]) == {"n": str(n), "text": f"{n * n}\n{n}"}
        assert last["error"] == "not readable as csv: Truncated compressed stream"


# --- Types ---------------------------------------------------------------------------------------


def parquet(folder: Path, **columns: pa.Array) -> Path:
    file = folder / "a.parquet"
    pq.write_table(pa.table(columns), file)
    return file


def orc_file(folder: Path, **columns: pa.Array) -> Path:
    file = folder / "a.orc"
    orc.write_table(pa.table(columns), file)
    return file


NANOSECONDS = 1_704_164_645_000_000_007  # 2024-01-02T03:04:05.000000007

IN_BOTH: list[tuple[pa.DataType, Any, Any]] = [
    (pa.bool_(), True, True),
    (pa.int8(), -128, -128),
    (pa.int64(), 2**63 - 1, 2**63 - 1),
    (pa.float32(), 0.5, 0.5),
    (pa.float64(), 0.1, 0.1),
    (pa.float64(), math.nan, "NaN"),
    (pa.float64(), math.inf, "Infinity"),
    (pa.float32(), -math.inf, "-Infinity"),
    (pa.list_(pa.float64()), [1.0, math.nan], [1.0, "NaN"]),
    (pa.decimal128(38, 10), Decimal("1234567890123456789012345678.10"), None),
    (pa.decimal128(38, 30), Decimal("0.000000000000000000000000000012"), None),
    (pa.timestamp("ns"), NANOSECONDS, "2024-01-02T03:04:05.000000007"),
    (pa.timestamp("ns", "UTC"), NANOSECONDS, "2024-01-02T03:04:05.000000007+00:00"),
    (pa.timestamp("us"), NANOSECONDS // 10**3, "2024-01-02T03:04:05"),
    (pa.timestamp("us"), -1, "1969-12-31T23:59:59.999999"),
    (pa.date32(), date(2024, 2, 29), "2024-02-29"),
    (pa.binary(), b"\x00\xff", "AP8="),
    (pa.string(), 'a "b"\né\U0001f600\x00', 'a "b"\né\U0001f600\x00'),
    (pa.large_string(), "a", "a"),
    (pa.list_(pa.int64()), [1, None, 2**60 + 1], [1, None, 2**60 + 1]),
    (pa.list_(pa.list_(pa.string())), [["a"], [], None], [["a"], [], None]),
    (
        pa.struct([("d", pa.decimal128(5, 2)), ("t", pa.list_(pa.date32()))]),
        {"d": Decimal("1.20"), "t": [date(2024, 1, 1)]},
        {"d": "1.20", "t": ["2024-01-01"]},
    ),
    (pa.list_(pa.struct([("a", pa.int8())])), [{"a": 1}, None], [{"a": 1}, None]),
    (pa.map_(pa.string(), pa.binary()), [("k", b"\x00"), ("l", None)], {"k": "AA==", "l": None}),
    (
        pa.map_(pa.int32(), pa.string()),
        [(1, "a"), (2, None)],
        [{"key": 1, "value": "a"}, {"key": 2, "value": None}],
    ),
]

IN_PARQUET: list[tuple[pa.DataType, Any, Any]] = [
    (pa.uint64(), 2**64 - 1, 2**64 - 1),
    (pa.float16(), 0.5, 0.5),
    (pa.float16(), math.nan, "NaN"),
    (pa.decimal256(70, 2), Decimal("9" * 60 + ".10"), "9" * 60 + ".10"),
    (pa.timestamp("ms", "Europe/Berlin"), 1_704_164_645_006, "2024-01-02T04:04:05.006000+01:00"),
    (pa.timestamp("us", "-03:30"), 0, "1969-12-31T20:30:00-03:30"),
    (pa.timestamp("us", "Nowhere/Land"), 0, "1970-01-01T00:00:00+00:00"),
    (pa.timestamp("us"), 253_402_300_800_000_001, "+10000-01-01T00:00:00.000001"),
    (pa.timestamp("us", "UTC"), -62_135_596_800_000_001, "+0000-12-31T23:59:59.999999+00:00"),
    (pa.timestamp("us"), 2**63 - 1, "+294247-01-10T04:00:54.775807"),
    (pa.date64(), date(1600, 2, 29), "1600-02-29"),
    (pa.time32("ms"), 3_723_004, "01:02:03.004000"),
    (pa.time64("us"), 86_399_999_999, "23:59:59.999999"),
    (pa.time64("ns"), 7, "00:00:00.000000007"),
    (pa.duration("ns"), 90_000_000_007, "PT90.000000007S"),
    (pa.duration("s"), -90, "-PT90S"),
    (pa.duration("ms"), -1, "-PT0.001000S"),
    (pa.binary(2), b"\x00\xff", "AP8="),
    (pa.large_binary(), b"\x00\xff", "AP8="),
    (pa.binary_view(), b"\x00\xff", "AP8="),
    (pa.string_view(), "a", "a"),
    (pa.large_list(pa.int8()), [1], [1]),
    (pa.list_(pa.int8(), 2), [1, 2], [1, 2]),
    (pa.list_view(pa.int8()), [1, 2], [1, 2]),
    (pa.dictionary(pa.int8(), pa.string()), "a", "a"),
    (pa.dictionary(pa.int8(), pa.decimal128(5, 2)), Decimal("1.20"), "1.20"),
    (pa.null(), None, None),
    (pa.json_(), '{"a":1.10}', '{"a":1.10}'),
    (pa.uuid(), SOME_UUID.bytes, str(SOME_UUID)),
]


def column(kind: pa.DataType, value: Any) -> pa.Array:
    """The value between nulls, so that places are told apart."""
    values = [None, value, None, value]
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, kind)


@pytest.mark.parametrize(("kind", "value", "plain"), IN_BOTH, ids=str)
@pytest.mark.parametrize("write", [parquet, orc_file])
def test_types_survive_in_parquet_and_orc(
    tmp_path: Path, write: Callable[..., Path], kind: pa.DataType, value: Any, plain: Any
) -> None:
    if plain is None:
        plain = format(value, f".{kind.scale}f")
    file = write(tmp_path, v=column(kind, value))
    assert objects_of(file) == [{"v": None}, {"v": plain}, {"v": None}, {"v": plain}]


@pytest.mark.parametrize(("kind", "value", "plain"), IN_PARQUET, ids=str)
def test_types_that_only_parquet_has_survive(
    tmp_path: Path, kind: pa.DataType, value: Any, plain: Any
) -> None:
    file = parquet(tmp_path, v=column(kind, value))
    assert objects_of(file) == [{"v": None}, {"v": plain}, {"v": None}, {"v": plain}]


def test_parquet_of_other_writers_keeps_uuids_and_old_timestamps(tmp_path: Path) -> None:
    far = pa.array([253_402_300_799_999_999], pa.timestamp("us"))
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([SOME_UUID.bytes], pa.binary(16)))
    file = tmp_path / "a.parquet"
    table = pa.table({"far": far, "id": uuids})
    pq.write_table(table, file, store_schema=False, use_deprecated_int96_timestamps=True)
    assert pq.ParquetFile(file).schema.column(0).physical_type == "INT96"
    assert objects_of(file) == [{"far": "9999-12-31T23:59:59.999999", "id": str(SOME_UUID)}]


def test_enums_of_parquet_are_text(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    kind = pa.struct([("raw", pa.binary()), ("e", pa.string())])
    nested = pa.array([[{"raw": b"\x00", "e": "RED"}]], pa.list_(kind))
    pq.write_table(pa.table({"e": pa.array(["BLUE"]), "n": nested}), file, store_schema=False)
    # Arrow writes no enums: its text becomes one where the schema of the file says so.
    text, enum = bytes.fromhex("18016525004c1c00"), bytes.fromhex("18016525084c4c00")
    assert file.read_bytes().count(text) == 2
    file.write_bytes(file.read_bytes().replace(text, enum))
    assert pq.ParquetFile(file).schema_arrow.field("e").type == pa.binary()
    assert objects_of(file) == [{"e": "BLUE", "n": [{"raw": "AA==", "e": "RED"}]}]


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
def test_parquet_is_read_whatever_its_pages_are_compressed_with(tmp_path: Path, codec: str) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": range(10_000)}), file, compression=codec, row_group_size=3_000)
    assert objects_of(file) == [{"n": n} for n in range(10_000)]


@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "zlib", "zstd", "lz4"])
def test_orc_is_read_whatever_its_stripes_are_compressed_with(tmp_path: Path, codec: str) -> None:
    file = tmp_path / "a.orc"
    with orc.ORCWriter(file, compression=codec, stripe_size=100_000) as writer:
        for start in range(0, 100_000, 10_000):
            texts = [f"{n * n}" for n in range(start, start + 10_000)]
            maps = pa.array([[(text, 1)] for text in texts], pa.map_(pa.string(), pa.int8()))
            writer.write(pa.table({"text": texts, "map": maps}))
    assert orc.ORCFile(file).nstripes > 1
    rows = objects_of(file)
    assert [row["text"] for row in rows] == [f"{n * n}" for n in range(100_000)]
    assert all(row["map"] == {row["text"]: 1} for row in rows)


def test_parquet_with_two_columns_of_one_name_is_set_aside(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table([[1], [2]], names=["a", "a"]), file)
    [row] = read_all(file)
    assert "a name is there twice" in row["error"]


def test_only_the_parquet_rows_that_are_not_utf8_are_bad(tmp_path: Path) -> None:
    content = pa.array([b"a", b"\xff", b"c"]).view(pa.string())
    rows = read_all(parquet(tmp_path, t=content))
    assert [row["error"] for row in rows] == [None, "not UTF-8 at byte 7", None]
    assert [row["record"] for row in rows] == ['{"t": "a"}', '{"t": "\\xff"}', '{"t": "c"}']


def test_a_parquet_file_of_wide_rows_comes_in_small_batches(tmp_path: Path) -> None:
    file = parquet(tmp_path, t=pa.array([f"{n}" * 500_000 for n in range(10, 90)]))
    batches = list(read_records(str(file), ReadOptions(format="parquet")))
    assert sum(batch.num_rows for batch in batches) == 80
    assert max(batch.nbytes for batch in batches) < 20 << 20


def test_far_moments_and_long_times_have_exact_texts() -> None:
    assert timestamp_text(-(2**63), 1_000_000, None) == "-290308-12-21T19:59:05.224192"
    assert date_text(-719_529) == "-0001-12-31"
    assert date_text(2_932_897) == "+10000-01-01"
    assert duration_text(2**63 - 1, 10**9) == "PT9223372036.854775807S"


# --- Avro ----------------------------------------------------------------------------------------

CODECS = ["null", "deflate", "snappy", "zstandard", "bzip2"]


def avro(folder: Path, kind: Any, values: list[Any], **options: Any) -> Path:
    """A file of records with one field, written as it is stored, without conversions."""
    file = folder / "a.avro"
    schema = {"type": "record", "name": "R", "fields": [{"name": "v", "type": kind}]}
    with file.open("wb") as stream:
        fastavro.writer(stream, schema, [{"v": value} for value in values], **options)
    return file


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


DURATION = {"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}
FIXED_UUID = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
RED = {"type": "record", "name": "Red", "fields": [{"name": "at", "type": logical("int", "date")}]}
BLUE = {"type": "record", "name": "x.Blue", "fields": [{"name": "at", "type": "bytes"}]}
TREE = {
    "type": "record",
    "name": "Tree",
    "namespace": "n",
    "fields": [
        {"name": "raw", "type": "bytes", "default": 1},
        {"name": "left", "type": ["null", "Tree"], "default": "wrong"},
    ],
}

IN_AVRO: list[tuple[Any, Any, Any]] = [
    ("boolean", True, True),
    ("long", 2**63 - 1, 2**63 - 1),
    ("double", 0.1, 0.1),
    ("double", math.nan, "NaN"),
    ("float", -math.inf, "-Infinity"),
    ("string", 'é "x"', 'é "x"'),
    ("bytes", b"\x00\xff", "AP8="),
    ({"type": "fixed", "name": "F", "size": 2}, b"\x00\xff", "AP8="),
    ({"type": "enum", "name": "E", "symbols": ["RED", "BLUE"]}, "BLUE", "BLUE"),
    ({"type": "array", "items": "bytes"}, [b"\x00"], ["AA=="]),
    ({"type": "array", "items": "long"}, [1, 2], [1, 2]),
    ({"type": "map", "values": logical("int", "date")}, {"a": 0}, {"a": "1970-01-01"}),
    (logical("string", "uuid"), str(SOME_UUID), str(SOME_UUID)),
    (FIXED_UUID, SOME_UUID.bytes, str(SOME_UUID)),
    (logical("bytes", "decimal", precision=4, scale=2), b"\xfb\x2e", "-12.34"),
    (
        {"type": "fixed", "name": "D", "size": 16, **logical("fixed", "decimal", precision=38)},
        (10**37 + 1).to_bytes(16, "big"),
        "1" + "0" * 36 + "1",
    ),
    (logical("int", "date"), 2_932_897, "+10000-01-01"),
    (logical("int", "time-millis"), 3_723_004, "01:02:03.004000"),
    (logical("long", "time-micros"), 3_723_000_004, "01:02:03.000004"),
    (logical("long", "timestamp-millis"), -1, "1969-12-31T23:59:59.999000+00:00"),
    (logical("long", "timestamp-micros"), 6, "1970-01-01T00:00:00.000006+00:00"),
    (logical("long", "timestamp-nanos"), NANOSECONDS, "2024-01-02T03:04:05.000000007+00:00"),
    (logical("long", "local-timestamp-millis"), 1, "1970-01-01T00:00:00.001000"),
    (logical("long", "local-timestamp-micros"), 6, "1970-01-01T00:00:00.000006"),
    (logical("long", "local-timestamp-nanos"), NANOSECONDS, "2024-01-02T03:04:05.000000007"),
    (logical("long", "timestamp-micros"), 2**63 - 1, "+294247-01-10T04:00:54.775807+00:00"),
    (logical("long", "somebodys-own"), 7, 7),
    (DURATION, struct.pack("<III", 1, 2, 3_004), "P1M2DT3.004000S"),
    (["null", logical("long", "timestamp-micros")], 6, "1970-01-01T00:00:00.000006+00:00"),
    (["null", "string", logical("int", "date")], 0, "1970-01-01"),
    (["null", "string", logical("int", "date")], "x", "x"),
    (["null", "string"], None, None),
    (["null", RED, BLUE], ("Red", {"at": 1}), {"at": "1970-01-02"}),
    (["null", RED, BLUE], ("x.Blue", {"at": b"\x00"}), {"at": "AA=="}),
    (["int", logical("long", "timestamp-micros")], 2**40, 2**40),
    (
        TREE,
        {"raw": b"\x00", "left": {"raw": b"\x01", "left": None}},
        {"raw": "AA==", "left": {"raw": "AQ==", "left": None}},
    ),
]


def stored_avro(file: Path, kind: Any, value: Any) -> Path:
    """Written with types that are stored alike, and then given its own schema."""
    plain = json.loads(json.dumps(kind).replace('"logicalType"', '"oncelogicalType"'))
    harmless = json.loads(json.dumps(plain).replace('"default"', '"once"'))
    avro(file.parent, harmless, [value, value])
    with file.open("rb") as stream:
        written = fastavro.reader(stream)
        text = str(written.metadata["avro.schema"]).encode()
    own = text.replace(b"oncelogicalType", b"logicalType").replace(b'"once"', b'"default"')
    content = file.read_bytes()
    length = fastavro_length(len(text)) + text
    assert content.count(length) == 1
    file.write_bytes(content.replace(length, fastavro_length(len(own)) + own))
    return file


def fastavro_length(value: int) -> bytes:
    """A whole number as Avro stores it."""
    coded, rest = b"", value << 1
    while rest > 0x7F:
        coded, rest = coded + bytes([rest & 0x7F | 0x80]), rest >> 7
    return coded + bytes([rest])


@pytest.mark.parametrize(("kind", "value", "plain"), IN_AVRO, ids=str)
def test_types_survive_in_avro(tmp_path: Path, kind: Any, value: Any, plain: Any) -> None:
    file = stored_avro(tmp_path / "a.avro", kind, value)
    assert objects_of(file) == [{"v": plain}, {"v": plain}]


@pytest.mark.parametrize("codec", CODECS)
def test_avro_is_read_whatever_its_blocks_are_compressed_with(tmp_path: Path, codec: str) -> None:
    file = avro(tmp_path, "long", list(range(50_000)), codec=codec)
    assert objects_of(file) == [{"v": n} for n in range(50_000)]


def test_only_the_avro_records_that_are_not_utf8_are_bad(tmp_path: Path) -> None:
    file = avro(tmp_path, "string", ["aaa", "bbb", "ccc"], codec="null")
    file.write_bytes(file.read_bytes().replace(b"bbb", b"b\xffb"))
    rows = read_all(file)
    assert [row["error"] for row in rows] == [None, "not UTF-8 at byte 8", None]


def test_a_length_in_avro_that_is_a_lie_asks_for_no_memory(tmp_path: Path) -> None:
    file = avro(tmp_path, "string", ["a"])
    with pa.OSFile(str(file)) as opened:
        assert len(Source(opened).read(1 << 60)) < file.stat().st_size


def test_avro_values_that_are_no_records_are_texts_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "a.avro"
    with file.open("wb") as stream:
        fastavro.writer(stream, "bytes", [b"\x00"])
    assert objects_of(file) == ["AA=="]


# --- Damage --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("whole")
    texts = pa.array([f"{n * n}" for n in range(40_000)])
    parquet(folder, v=texts)
    orc_file(folder, v=texts)
    avro(folder, "string", texts.to_pylist(), codec="deflate")
    return {name: (folder / f"a.{name}").read_bytes() for name in ("parquet", "orc", "avro")}


@pytest.mark.parametrize("name", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("part", [0.0, 0.001, 0.5, 0.9999])
def test_part_of_a_file_is_set_aside_after_what_can_be_read(
    tmp_path: Path, whole_files: dict[str, bytes], name: str, part: float
) -> None:
    whole = whole_files[name]
    file = tmp_path / f"a.{name}"
    file.write_bytes(whole[: int(len(whole) * part)])
    *good, last = read_all(file)
    assert [json.loads(row["record"])["v"] for row in good] == [
        f"{n * n}" for n in range(len(good))
    ]
    assert bool(good) == (name == "avro" and part >= 0.5)
    assert last["record"] is None
    assert last["error"].startswith(f"not readable as {name}: ")


@pytest.mark.parametrize("name", ["parquet", "orc", "avro"])
def test_other_content_than_the_name_says_is_set_aside(tmp_path: Path, name: str) -> None:
    file = tmp_path / f"a.{name}"
    for content in (b'{"a":1}\n' * 100, bytes(1_000), b"Obj\x01" + b"\xff" * 100, b"PAR1" * 100):
        file.write_bytes(content)
        [row] = read_all(file)
        assert row["error"].startswith(f"not readable as {name}: ")


@pytest.mark.parametrize("name", ["parquet", "avro"])  # Arrow's reader of ORC may crash
def test_no_damage_makes_the_reader_raise(
    tmp_path: Path, whole_files: dict[str, bytes], name: str
) -> None:
    chance, file = random.Random(5), tmp_path / f"a.{name}"
    for _ in range(60):
        content = bytearray(whole_files[name])
        ends = chance.choice(
            [range(400), range(len(content)), range(len(content) - 400, len(content))]
        )
        for _ in range(chance.randint(1, 20)):
            content[chance.choice(ends)] = chance.randrange(256)
        file.write_bytes(content)
        read_all(file)


@pytest.mark.parametrize("codec", CODECS)
def test_damaged_avro_blocks_of_every_codec_are_set_aside(tmp_path: Path, codec: str) -> None:
    file = avro(
        tmp_path, "string", [f"{n}" for n in range(20_000)], codec=codec, sync_interval=9_000
    )
    content = bytearray(file.read_bytes())
    sync = content[-16:]
    start = content.index(sync, content.index(sync) + 16) + 16 + 5  # in the second block
    content[start : start + 30] = b"\xff" * 30
    file.write_bytes(content)
    *good, last = read_all(file)
    assert [json.loads(row["record"])["v"] for row in good] == [f"{n}" for n in range(len(good))]
    assert len(good) >= 1_000
    assert last["error"].startswith("not readable as avro: ")
