"""Whether a file seems to be still being written, by a look at its ends."""

import errno
import gzip
import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from pyarrow import orc
from pyarrow import parquet as pq

from freshet.landing import completeness
from freshet.landing.completeness import cut_off
from freshet.landing.read_options import FORMATS, ReadOptions

AUTO = ReadOptions(format="auto")


def reason_of(file: Path, content: bytes | str) -> str | None:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return cut_off(str(file), file.stat().st_size, AUTO)


# --- JSON and CSV --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        '{"a":1}\n{"a":2}\n',
        '{"a":1}\n{"a":2}',
        '{"a":1}\n{"a":\n',
        '{"a":1}\n\n  ',
        '{"a":1}',
        "\ufeff[1, 2]\n\n",
        '[{"a":1}]',
        '{\n"a": 1\n}\n',
        '{\n"a": 1\n}\n{\n"a": [\n]}',
        "\n\n",
    ],
)
def test_whole_json_is_whole(tmp_path: Path, content: str) -> None:
    assert reason_of(tmp_path / "a.json", content) is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"a":1}\n{"a":', "its last line is not finished"),
        ('{"a":1}\n{"a":"x', "its last line is not finished"),
        ('{"a":', "its last line is not finished"),
        ('{"a":1}\n{"a":2},', "its last line is not finished"),
        ("[", "its array is not closed"),
        ('\ufeff [{"a":1},\n', "its array is not closed"),
        ('[{"a":1}', "its array is not closed"),
        ('{\n"a": 1,\n', "its last document is not closed"),
        ('{\n"a": 1\n}\n{\n"a": 2', "its last document is not closed"),
    ],
)
def test_json_that_is_cut_off_says_what_is_not_finished(
    tmp_path: Path, content: str, reason: str
) -> None:
    assert reason_of(tmp_path / "a.json", content) == reason
    assert reason_of(tmp_path / "a.json.gz", gzip.compress(content.encode())) == reason


def test_a_whole_last_line_that_is_not_utf8_is_not_held_back(tmp_path: Path) -> None:
    assert reason_of(tmp_path / "a.json", b'{"a":1}\n{"a":"\xff"}') is None
    assert reason_of(tmp_path / "a.json", b'{"a":1}\n{"a":"\xc3') == "its last line is not finished"


def test_a_last_line_is_judged_up_to_a_mebibyte_and_not_beyond(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    assert reason_of(file, '{"a":1}\n{"a":"' + "x" * 1_000_000) == "its last line is not finished"
    assert reason_of(file, '{"a":1}\n' + json.dumps("x" * 1_000_000)) is None
    assert reason_of(file, '{"a":1}\n{"a":"' + "x" * 2_000_000) is None


@pytest.mark.parametrize("content", ["a,b\n1,2\n", "a,b\n1,2", 'a,b\n1,"2', "a"])
def test_nobody_can_tell_whether_csv_is_cut_off(tmp_path: Path, content: str) -> None:
    assert reason_of(tmp_path / "a.csv", content) is None
    assert reason_of(tmp_path / "a.csv.gz", gzip.compress(content.encode())) is None


@pytest.mark.parametrize("name", ["a.json", "a.csv"])
@pytest.mark.parametrize(("codec", "suffix"), [("gzip", ".gz"), ("zstd", ".zst"), ("bz2", ".bz2")])
def test_a_compressed_text_that_breaks_off_is_cut_off(
    tmp_path: Path, name: str, codec: str, suffix: str
) -> None:
    whole = tmp_path / "whole"
    with pafs.LocalFileSystem().open_output_stream(str(whole), compression=codec) as stream:
        stream.write(b"".join(b'{"a":%d}\n' % (n * n) for n in range(100_000)))
    content = whole.read_bytes()
    assert reason_of(tmp_path / f"{name}{suffix}", content) is None
    for size in (len(content) - 1, len(content) // 2, 1):
        reason = reason_of(tmp_path / f"{name}{suffix}", content[:size])
        assert (reason or "").startswith("its compressed content breaks off")


def test_a_large_compressed_text_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "a.json.gz"
    file.write_bytes(b"no gzip at all")
    assert cut_off(str(file), 9 << 20, AUTO) is None
    assert cut_off(str(file), 7 << 20, AUTO) is not None


# --- Parquet, ORC, Avro --------------------------------------------------------------------------


def whole_file(file: Path) -> bytes:
    table = pa.table({"a": [str(n * n) for n in range(5_000)]})
    match file.suffix:
        case ".parquet":
            pq.write_table(table, file)
        case ".orc":
            orc.write_table(table, file)
        case ".avro":
            schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}
            with file.open("wb") as stream:
                fastavro.writer(stream, schema, table.to_pylist())
    return file.read_bytes()


BINARY = {
    "a.parquet": "it has no Parquet footer yet",
    "a.orc": "it has no ORC footer yet",
    "a.avro": "its last Avro block is not finished",
}


@pytest.mark.parametrize(("name", "reason"), BINARY.items())
def test_binary_files_are_whole_at_their_last_byte_only(
    tmp_path: Path, name: str, reason: str
) -> None:
    content = whole_file(tmp_path / name)
    assert reason_of(tmp_path / name, content) is None
    for size in (len(content) - 1, len(content) - 20, len(content) // 2, 500):
        assert reason_of(tmp_path / name, content[:size]) == reason
    assert reason_of(tmp_path / name, content + b"\x00") == reason


@pytest.mark.parametrize("name", BINARY)
def test_a_binary_file_of_a_few_bytes_is_cut_off(tmp_path: Path, name: str) -> None:
    content = whole_file(tmp_path / name)
    for size in range(1, 12):
        assert reason_of(tmp_path / name, content[:size]) is not None


@pytest.mark.parametrize("name", BINARY)
def test_other_content_than_the_name_says_is_never_raised(tmp_path: Path, name: str) -> None:
    for content in (b"x", b'{"a":1}\n' * 100, bytes(300), b"Obj\x01" + b"\xff" * 99, b"ORC\xff"):
        assert reason_of(tmp_path / name, content) is not None


def test_an_avro_file_without_records_is_whole(tmp_path: Path) -> None:
    with (tmp_path / "a.avro").open("wb") as stream:
        fastavro.writer(stream, "string", [])
    assert reason_of(tmp_path / "a.avro", (tmp_path / "a.avro").read_bytes()) is None


def test_a_parquet_file_with_an_encrypted_footer_is_whole(tmp_path: Path) -> None:
    assert reason_of(tmp_path / "a.parquet", b"PARE" + bytes(20) + b"PARE") is None


# --- All of them ---------------------------------------------------------------------------------


def test_an_empty_file_is_a_legal_text_and_nothing_else(tmp_path: Path) -> None:
    for name in ("a.json", "a.csv", "a.json.gz", "a.txt"):
        assert reason_of(tmp_path / name, b"") is None
    for name in BINARY:
        assert reason_of(tmp_path / name, b"") == "the file is empty"


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("name", ["a.json", "a.csv.gz", "a.parquet", "a.avro", "a.orc", "a"])
def test_a_file_that_is_gone_is_not_cut_off(tmp_path: Path, name: str, file_format: str) -> None:
    assert cut_off(str(tmp_path / name), 10, ReadOptions(format=file_format)) is None


def test_a_name_that_tells_no_format_is_for_the_reader_to_judge(tmp_path: Path) -> None:
    assert reason_of(tmp_path / "a.xml", b"<a") is None


@pytest.mark.parametrize(
    ("error", "is_raised"),
    [
        (PermissionError(errno.EACCES, "Permission denied"), False),
        (OSError(errno.EIO, "Input/output error"), True),
    ],
)
def test_only_trouble_of_the_storage_that_may_pass_is_raised(
    monkeypatch: pytest.MonkeyPatch, error: OSError, is_raised: bool
) -> None:
    def fail(_: str) -> Any:
        raise error

    monkeypatch.setattr(completeness, "open_random", fail)
    if is_raised:
        with pytest.raises(OSError, match="Input/output error"):
            cut_off("a.json", 10, AUTO)
    else:
        assert cut_off("a.json", 10, AUTO) is None


def test_a_file_that_was_cut_off_is_whole_when_the_rest_has_come(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    assert reason_of(file, '{"a":1}\n{"a"') is not None
    assert reason_of(file, '{"a":1}\n{"a":2}') is None
