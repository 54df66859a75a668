"""Reading the records of one file, whatever is in it."""

import gzip
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from freshet.landing import read_records


def records_of(file: Path, file_format: str = "json") -> list[tuple[int, str | None]]:
    rows = read_all(file, file_format)
    assert [row["error"] for row in rows] == [None] * len(rows)
    return [(row["row"], row["record"]) for row in rows]


def read_all(file: Path, file_format: str = "json") -> list[dict[str, object]]:
    return [row for batch in read_records(str(file), file_format) for row in batch.to_pylist()]


def test_lines_are_split_at_line_feeds_only(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes('{"a":"x\u2028y\x85z"}\n{"a":2}\n'.encode())
    assert records_of(file) == [(0, '{"a":"x\u2028y\x85z"}'), (1, '{"a":2}')]


def test_blank_lines_count_but_give_no_record(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('\n{"a":1}\n  \n{"a":2}')
    assert records_of(file) == [(1, '{"a":1}'), (3, '{"a":2}')]


def test_a_file_of_many_blocks_keeps_every_line_and_its_number(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    lines = [json.dumps({"n": n, "pad": "x" * (n % 700)}) for n in range(30_000)]
    file.write_text("\n".join(lines))
    assert records_of(file) == list(enumerate(lines))


def test_a_line_longer_than_a_block_is_one_record(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    long = json.dumps({"text": "y" * 10_000_000})
    file.write_text(f'{{"a":1}}\n{long}\n{{"a":2}}\n')
    assert records_of(file) == [(0, '{"a":1}'), (1, long), (2, '{"a":2}')]


def test_an_array_gives_its_elements_with_every_digit(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('\ufeff [ {"a":1.10000000000000000001},\n {"a": [1, "]"]} ] \n')
    assert records_of(file) == [(0, '{"a":1.10000000000000000001}'), (1, '{"a": [1, "]"]}')]


def test_an_empty_array_and_an_empty_file_give_nothing(tmp_path: Path) -> None:
    for name, content in {"a.json": "[]", "b.json": "", "c.json": "\n\n"}.items():
        (tmp_path / name).write_text(content)
        assert records_of(tmp_path / name) == []


def test_a_broken_array_keeps_what_was_read_and_says_what_was_not(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('[{"a":1},{"a":2},{"a":')
    rows = read_all(file)
    assert [row["record"] for row in rows] == ['{"a":1}', '{"a":2}', '{"a":']
    assert rows[2]["error"].startswith("not a JSON array")
    assert rows[2]["row"] == 2


def test_a_line_that_is_not_utf8_is_kept_with_its_reason_beside_good_ones(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b'{"a":1}\n{"a":"\xff"}\n{"a":3}\n')
    rows = read_all(file)
    assert [row["error"] for row in rows] == [None, "not UTF-8 at byte 6", None]
    assert rows[1]["record"] == '{"a":"\\xff"}'


def test_gzip_is_read_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "a.json.gz"
    file.write_bytes(gzip.compress(b'{"a":1}\n{"a":2}\n'))
    assert records_of(file) == [(0, '{"a":1}'), (1, '{"a":2}')]


def test_a_truncated_gzip_says_so(tmp_path: Path) -> None:
    file = tmp_path / "a.json.gz"
    whole = gzip.compress(b"".join(b'{"a":%d}\n' % n for n in range(200_000)))
    file.write_bytes(whole[: len(whole) // 2])
    assert "not readable as json" in read_all(file)[-1]["error"]


def test_csv_rows_become_objects_of_text(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('id,title,note\n1,"two\nlines",\n2,plain,""\n')
    assert [json.loads(record) for _, record in records_of(file, "csv")] == [
        {"id": "1", "title": "two\nlines", "note": None},
        {"id": "2", "title": "plain", "note": ""},
    ]


def test_a_csv_row_with_a_field_too_many_is_set_aside(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("id,title\n1,a\n2,b,c\n3,d\n")
    rows = read_all(file, "csv")
    assert [row["error"] for row in rows] == [None, None, "3 fields where the header has 2"]
    assert rows[2]["record"] == "2,b,c"


def test_an_empty_csv_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("")
    (tmp_path / "b.csv").write_text("id,title\n")
    assert records_of(tmp_path / "a.csv", "csv") == records_of(tmp_path / "b.csv", "csv") == []


def test_parquet_rows_become_objects_and_types_survive_as_text(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    row = {
        "id": 2**60 + 1,
        "price": Decimal("12.30"),
        "at": datetime(2024, 1, 2, 3, 4, 5, 6, UTC),
        "raw": b"\x00\xff",
        "nested": {"tags": ["a", None]},
        "nan": float("nan"),
    }
    pq.write_table(pa.Table.from_pylist([row]), file)
    [(_, record)] = records_of(file, "parquet")
    assert json.loads(record or "") == {
        "id": 2**60 + 1,
        "price": "12.30",
        "at": "2024-01-02T03:04:05.000006+00:00",
        "raw": "AP8=",
        "nested": {"tags": ["a", None]},
        "nan": None,
    }


def test_half_a_parquet_file_is_set_aside(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": range(10_000)}), file)
    file.write_bytes(file.read_bytes()[:2_000])
    [row] = read_all(file, "parquet")
    assert row["record"] is None
    assert "not readable as parquet" in row["error"]


@pytest.mark.parametrize("file_format", ["json", "csv", "parquet"])
def test_a_file_that_is_gone_is_a_reason_and_not_a_crash(tmp_path: Path, file_format: str) -> None:
    [row] = read_all(tmp_path / "gone", file_format)
    assert row["error"] == "the file is gone"
