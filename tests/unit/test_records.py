"""Reading the records of one file: JSON in all its forms, compression, and what can go wrong."""

import bz2
import errno
import gzip
import json
import pickle
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from freshet.errors import SettingsError
from freshet.landing import content_executor, read_records
from freshet.landing.read_options import COMPRESSION_SUFFIXES, FORMATS, ReadOptions
from freshet.stores.file_systems import COMPRESSIONS


def read_all(file: Path, file_format: str = "json") -> list[dict[str, Any]]:
    batches = list(read_records(str(file), ReadOptions(format=file_format)))
    assert all(batch.num_rows for batch in batches)
    rows = [row for batch in batches for row in batch.to_pylist()]
    numbers = [row["row"] for row in rows]
    assert numbers == sorted(set(numbers))
    return rows


def records_of(file: Path, file_format: str = "json") -> list[tuple[int, str | None]]:
    rows = read_all(file, file_format)
    assert [row["error"] for row in rows] == [None] * len(rows)
    return [(row["row"], row["record"]) for row in rows]


def written(file: Path, content: bytes | str) -> Path:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def compressed(name: str, content: bytes, folder: Path) -> bytes:
    file = folder / "compressed"
    with pafs.LocalFileSystem().open_output_stream(str(file), compression=name) as stream:
        stream.write(content)
    return file.read_bytes()


# --- Lines ---------------------------------------------------------------------------------------


def test_lines_are_split_at_line_feeds_only(tmp_path: Path) -> None:
    file = written(tmp_path / "a.json", '{"a":"x\u2028y\x85z"}\n{"a":2}\n')
    assert records_of(file) == [(0, '{"a":"x\u2028y\x85z"}'), (1, '{"a":2}')]


def test_blank_lines_count_but_give_no_record(tmp_path: Path) -> None:
    file = written(tmp_path / "a.json", '\n{"a":1}\n  \r\n\t\n{"a":2}')
    assert records_of(file) == [(1, '{"a":1}'), (4, '{"a":2}')]


def test_a_line_of_other_spaces_is_a_record_that_somebody_must_judge(tmp_path: Path) -> None:
    file = written(tmp_path / "a.json", '{"a":1}\n\u00a0\n')
    assert records_of(file) == [(0, '{"a":1}'), (1, "\u00a0")]


def test_a_file_of_many_blocks_keeps_every_line_and_its_number(tmp_path: Path) -> None:
    lines = [json.dumps({"n": n, "pad": "x" * (n % 700)}) for n in range(30_000)]
    file = written(tmp_path / "a.json", "\n".join(lines))
    assert records_of(file) == list(enumerate(lines))


@pytest.mark.parametrize("place", [0, 1])
def test_a_line_longer_than_a_block_is_one_record(tmp_path: Path, place: int) -> None:
    lines = ['{"a":1}', '{"a":2}']
    lines.insert(place, json.dumps({"text": "y" * 10_000_000}))
    file = written(tmp_path / "a.json", "\n".join(lines) + "\n")
    assert records_of(file) == list(enumerate(lines))


def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freshet.landing.json_executor.LONGEST_RECORD_BYTES", 8 << 20)
    file = written(tmp_path / "a.json", '{"a":1}\n' + "x" * (20 << 20))
    rows = read_all(file)
    assert rows[0] == {"row": 0, "record": '{"a":1}', "error": None}
    assert "a record is longer than 8 MiB" in rows[1]["error"]


def test_a_line_that_is_not_utf8_is_kept_with_its_reason_beside_good_ones(tmp_path: Path) -> None:
    file = written(tmp_path / "a.json", b'{"a":1}\n{"a":"\xff"}\n\n{"a":3}\n')
    rows = read_all(file)
    assert [row["error"] for row in rows] == [None, "not UTF-8 at byte 6", None]
    assert [row["row"] for row in rows] == [0, 1, 3]
    assert rows[1]["record"] == '{"a":"\\xff"}'


def test_a_first_line_that_is_broken_does_not_spoil_the_lines_after_it(tmp_path: Path) -> None:
    for first in ('{"a":', '{"a":[', '{"a":"x', '{"a":1', "hello", '{"a":1}{"a":2}'):
        for count in (1, 2, 5):
            lines = [first, *['{"b":1}'] * count]
            file = written(tmp_path / "a.json", "\n".join(lines) + "\n")
            assert records_of(file) == list(enumerate(lines))


def test_a_byte_order_mark_is_no_part_of_the_first_record(tmp_path: Path) -> None:
    assert records_of(written(tmp_path / "a.json", '\ufeff{"a":1}\n')) == [(0, '{"a":1}')]


# --- Arrays --------------------------------------------------------------------------------------


def test_an_array_gives_its_elements_with_every_digit(tmp_path: Path) -> None:
    text = '\ufeff [ {"a":1.10000000000000000001},\n {"a": [1, "]"]} ] \n'
    file = written(tmp_path / "a.json", text)
    assert records_of(file) == [(0, '{"a":1.10000000000000000001}'), (1, '{"a": [1, "]"]}')]


def test_a_number_with_thousands_of_digits_is_cut_out_like_any_other(tmp_path: Path) -> None:
    number = "1" + "0" * 6_000
    assert records_of(written(tmp_path / "a.json", f"[{number}]")) == [(0, number)]


def test_an_empty_array_and_an_empty_file_give_nothing(tmp_path: Path) -> None:
    for content in ("[]", " [ \n ] ", "", "\n\n"):
        assert records_of(written(tmp_path / "a.json", content)) == []


def test_elements_across_blocks_are_whole_wherever_the_blocks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elements = ['{"a":"\\u00e9é\\"]"}', "-12.5e+3", "true", '[[],{"b":null}]', '"\\ud83d\\ude00"']
    file = written(tmp_path / "a.json", "[" + " ,\n".join(elements * 3) + "]")
    for block_bytes in range(1, 70):
        monkeypatch.setattr("freshet.landing.json_executor.BLOCK_BYTES", block_bytes)
        assert records_of(file) == list(enumerate(elements * 3))


def test_a_large_array_is_never_in_memory_as_a_whole(tmp_path: Path) -> None:
    element = json.dumps({"text": "z" * 1_000})
    file = tmp_path / "a.json"
    with file.open("w") as stream:
        stream.write("[" + ",\n".join([element] * 60_000) + "]")
    tracemalloc.start()
    rows = sum(batch.num_rows for batch in read_records(str(file), ReadOptions()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows == 60_000
    assert peak < file.stat().st_size * 0.75


@pytest.mark.parametrize(
    ("text", "records", "reason"),
    [
        ('[{"a":1},{"a":2},{"a":', ['{"a":1}', '{"a":2}', '{"a":'], "Expecting value"),
        ('[{"a":1},{"a":2}', ['{"a":1}', '{"a":2}', None], 'Expecting "," or "]"'),
        ('[{"a":1} {"a":2}]', ['{"a":1}', '{"a":2}]'], 'Expecting "," or "]"'),
        ('[{"a":1}] {"a":2}', ['{"a":1}', '{"a":2}'], "Something follows"),
        ('[{"a":1},]', ['{"a":1}', "]"], "Expecting value"),
        ("[" * 5_000 + "]" * 5_000, ["[" * 4_999 + "]" * 5_000], "Nested too deeply"),
    ],
)
def test_a_broken_array_keeps_what_was_read_and_says_what_was_not(
    tmp_path: Path, text: str, records: list[str], reason: str
) -> None:
    rows = read_all(written(tmp_path / "a.json", text))
    assert [row["record"] for row in rows] == records
    assert [row["row"] for row in rows] == list(range(len(records)))
    assert [row["error"] for row in rows[:-1]] == [None] * (len(rows) - 1)
    assert rows[-1]["error"].startswith(f"not readable as json: not a JSON array: {reason}")


def test_an_element_that_is_not_utf8_does_not_spoil_the_others(tmp_path: Path) -> None:
    rows = read_all(written(tmp_path / "a.json", b'[{"a":1},{"a":"\xff"},{"a":"\xc3\xa9"}]'))
    assert [row["error"] for row in rows] == [None, "not UTF-8 at byte 6", None]
    assert [row["record"] for row in rows] == ['{"a":1}', '{"a":"\\xff"}', '{"a":"é"}']


# --- Documents -----------------------------------------------------------------------------------


def test_a_pretty_printed_object_is_one_record_as_it_stands(tmp_path: Path) -> None:
    text = '{\n  "a": 1.10,\n  "b": {"c": []}\n}'
    assert records_of(written(tmp_path / "a.json", f"\n {text}\n\n")) == [(0, text)]


def test_documents_one_after_the_other_are_one_record_each(tmp_path: Path) -> None:
    texts = ['{\n"a": "}\\n{"\n}', '{"a": 2}', '{ "a":\n3}', '{"a": 4}']
    assert records_of(written(tmp_path / "a.json", "\n".join(texts))) == list(enumerate(texts))
    assert records_of(written(tmp_path / "a.json", "".join(texts))) == list(enumerate(texts))


def test_documents_of_many_blocks_are_whole(tmp_path: Path) -> None:
    texts = [json.dumps({"n": n, "text": "w" * size}, indent=1) for n, size in enumerate([9, 6, 1])]
    texts += [json.dumps({"text": "w" * 9_000_000}, indent=1)] * 2
    for order in (texts, texts[::-1]):
        assert records_of(written(tmp_path / "a.json", "\n".join(order))) == list(enumerate(order))


def test_a_document_that_is_cut_off_is_set_aside_and_not_taken_for_lines(tmp_path: Path) -> None:
    rows = read_all(written(tmp_path / "a.json", '{\n"a": 1\n}\n{\n"a": 2,\n"b":'))
    assert [row["record"] for row in rows] == ['{\n"a": 1\n}', '{\n"a": 2,\n"b":']
    assert rows[1]["error"].startswith("not readable as json: not a JSON document")
    [row] = read_all(written(tmp_path / "a.json", '{\n"a": 2,\n"b": "x'))
    assert row["record"] == '{\n"a": 2,\n"b": "x'
    assert row["error"].startswith("not readable as json: not a JSON document")


def test_a_document_that_is_not_utf8_does_not_spoil_the_others(tmp_path: Path) -> None:
    rows = read_all(written(tmp_path / "a.json", b'{\n"a":"\xff"}\n{\n"a":2}'))
    assert [row["error"] for row in rows] == ["not UTF-8 at byte 7", None]
    assert rows[1]["record"] == '{\n"a":2}'


# --- Compression ---------------------------------------------------------------------------------


def test_compression_is_read_by_its_name_also_in_several_members(tmp_path: Path) -> None:
    for suffix, name in COMPRESSIONS.items():
        members = [compressed(name, content, tmp_path) for content in (b'{"a":1}\n', b'{"a":2}\n')]
        file = written(tmp_path / f"a.json{suffix.upper()}", b"".join(members))
        assert records_of(file) == [(0, '{"a":1}'), (1, '{"a":2}')]


def test_what_other_programs_compress_is_read(tmp_path: Path) -> None:
    lines = [json.dumps({"n": n}) for n in range(100_000)]
    for suffix, compress in {".gz": gzip.compress, ".bz2": bz2.compress}.items():
        file = written(tmp_path / f"a.json{suffix}", compress("\n".join(lines).encode()))
        assert records_of(file) == list(enumerate(lines))


def test_the_suffixes_of_compressions_are_those_of_the_file_systems() -> None:
    assert tuple(COMPRESSIONS) == COMPRESSION_SUFFIXES


@pytest.mark.parametrize("name", ["gzip", "zstd", "bz2", "lz4"])
def test_a_truncated_stream_gives_its_whole_lines_and_then_says_so(
    tmp_path: Path, name: str
) -> None:
    lines = [json.dumps({"n": n, "square": n * n}) for n in range(200_000)]
    content = compressed(name, "\n".join(lines).encode(), tmp_path)
    suffix = next(suffix for suffix, known in COMPRESSIONS.items() if known == name)
    file = written(tmp_path / f"a.json{suffix}", content[: len(content) // 2])
    *good, last = read_all(file)
    assert [row["record"] for row in good] == lines[: len(good)]
    assert len(good) > 20_000
    assert last["error"] == "not readable as json: Truncated compressed stream"
    assert last["record"] is None or lines[len(good)].startswith(last["record"])


def test_a_truncated_array_gives_its_whole_elements_and_then_says_so(tmp_path: Path) -> None:
    elements = [json.dumps({"n": n, "square": n * n}) for n in range(50_000)]
    content = gzip.compress(f"[{','.join(elements)}]".encode())
    *good, last = read_all(written(tmp_path / "a.json.gz", content[: len(content) // 2]))
    assert [row["record"] for row in good] == elements[: len(good)]
    assert len(good) > 10_000
    assert last["error"] == "not readable as json: Truncated compressed stream"


def test_what_is_not_compressed_as_its_name_says_is_set_aside(tmp_path: Path) -> None:
    for suffix in COMPRESSIONS:
        [row] = read_all(written(tmp_path / f"a.json{suffix}", '{"a":1}\n{"a":2}\n'))
        assert row["error"].startswith("not readable as json: ")
        assert row["record"] is None


# --- Formats by name, and options ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "records"),
    [
        ("a.json", b'{"a":"1"}', ['{"a":"1"}']),
        ("a.b.JSONL", b'{"a":"1"}', ['{"a":"1"}']),
        ("a.ndjson.gz", gzip.compress(b'{"a":"1"}', mtime=0), ['{"a":"1"}']),
        ("a.csv", b"a,b\n1,2\t3\n", ['{"a": "1", "b": "2\\t3"}']),
        ("a.tsv", b"a\tb\n1\t2,3\n", ['{"a": "1", "b": "2,3"}']),
        ("a.csv.bz2", bz2.compress(b"a,b\n1,2\n"), ['{"a": "1", "b": "2"}']),
    ],
)
def test_auto_takes_the_format_from_the_name(
    tmp_path: Path, name: str, content: bytes, records: list[str]
) -> None:
    file = written(tmp_path / name, content)
    assert [record for _, record in records_of(file, "auto")] == records


@pytest.mark.parametrize("name", ["a.xml", "a", "a.gz", ".json", "a.json.bak"])
def test_a_name_that_tells_no_format_is_a_reason(tmp_path: Path, name: str) -> None:
    [row] = read_all(written(tmp_path / name, '{"a":1}'), "auto")
    assert row == {"row": 0, "record": None, "error": f"the name tells no format: {name}"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"format": "xml"},
        {"csv_delimiter": ""},
        {"csv_delimiter": "||"},
        {"csv_delimiter": "§"},
        {"csv_quote": "\n"},
        {"csv_quote": ","},
        {"csv_escape": '"'},
        {"csv_escape": "\\", "csv_null": "\\N"},
        {"csv_columns": ("a", "a")},
    ],
)
def test_options_that_cannot_be_meant_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        ReadOptions(**wrong)


def test_options_travel_to_executors() -> None:
    options = ReadOptions(format="csv", csv_columns=("a", "b"))
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301 - its own bytes
    assert pickle.loads(pickle.dumps(read_records)) is read_records  # noqa: S301 - its own bytes


# --- Trouble with the file itself ----------------------------------------------------------------

STORED = [name for name in FORMATS if name != "auto"]


@pytest.mark.parametrize("file_format", STORED)
def test_a_file_that_is_gone_is_a_reason_and_not_a_crash(tmp_path: Path, file_format: str) -> None:
    [row] = read_all(tmp_path / "gone", file_format)
    assert row["error"] == "the file is gone"


@pytest.mark.parametrize("file_format", STORED)
def test_a_folder_is_a_reason_and_not_a_crash(tmp_path: Path, file_format: str) -> None:
    [row] = read_all(tmp_path, file_format)
    assert "is a directory" in row["error"]


def opening_raises(error: OSError) -> Callable[[str], Any]:
    def open_file(_: str) -> Any:
        raise error

    return open_file


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(errno.EACCES, "Permission denied"),
        PermissionError(errno.EPERM, "Operation not permitted"),
        IsADirectoryError(errno.EISDIR, "Is a directory"),
        OSError("When getting information for key 'a': AWS Error ACCESS_DENIED during HeadObject"),
    ],
)
def test_what_no_retry_would_mend_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    monkeypatch.setattr(content_executor, "open_file", opening_raises(error))
    [row] = read_all(tmp_path / "a.json")
    assert row["error"] == f"not readable as json: {error}"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EIO, "Input/output error"),
        TimeoutError(errno.ETIMEDOUT, "Timed out"),
        OSError("When reading a: AWS Error NETWORK_CONNECTION during GetObject operation"),
    ],
)
def test_trouble_of_the_storage_that_may_pass_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    monkeypatch.setattr(content_executor, "open_file", opening_raises(error))
    for file_format in ("json", "csv"):
        with pytest.raises(OSError, match=str(error).split()[-1]) as raised:
            read_all(tmp_path / "a", file_format)
        assert raised.value is error


def test_a_broken_installation_does_not_set_files_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> Any:
        raise ImportError("no such module")

    monkeypatch.setattr(content_executor, "open_file", fail)
    with pytest.raises(ImportError):
        read_all(tmp_path / "a.json")


class BreakingStream:
    """Gives some bytes and then fails."""

    def __init__(self, content: bytes, error: OSError) -> None:
        self.parts: list[bytes | OSError] = [content, error]

    def read(self, _: int) -> bytes:
        part = self.parts.pop(0)
        if isinstance(part, OSError):
            raise part
        return part

    def close(self) -> None:
        pass


@pytest.mark.parametrize("file_format", ["json", "csv"])
def test_trouble_of_the_storage_amid_a_file_is_raised_too(
    monkeypatch: pytest.MonkeyPatch, file_format: str
) -> None:
    error = OSError(errno.EIO, "Input/output error")
    content = b"\n".join([b'{"a":1}'] * 3)
    monkeypatch.setattr(content_executor, "open_file", lambda _: BreakingStream(content, error))
    with pytest.raises(OSError, match="Input/output error"):
        list(read_records("a", ReadOptions(format=file_format)))


def test_an_error_is_numbered_behind_the_rows_before_it(tmp_path: Path) -> None:
    content = gzip.compress(b'\n\n{"a":1}\n\n{"a":2}\n') + b"no gzip at all"
    rows = read_all(written(tmp_path / "a.json.gz", content))
    assert [row["row"] for row in rows] == [2, 4, 5]
    assert isinstance(rows[2]["error"], str)


def test_batches_have_the_columns_of_the_landing_stage(tmp_path: Path) -> None:
    [batch] = read_records(str(written(tmp_path / "a.json", "[1]")), ReadOptions())
    assert batch.schema.names == ["record", "row", "error"]
    assert batch.schema.types == [pa.string(), pa.int64(), pa.string()]
