"""Reads the records of one file, on an executor: raw texts with their ordinals, batch by batch.

What cannot be read becomes a row that says why; nothing is dropped. Only trouble that may pass by
itself (an I/O error with a number) is raised, so that Spark tries again.
"""

import base64
import json
import math
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from freshet.stores.file_systems import open_file, open_random

_BLOCK_BYTES: Final = 4 << 20
_BATCH_ROWS: Final = 4_096
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_BLANK: Final = b" \t\r\n"

_RECORDS = pa.schema([("record", pa.string()), ("row", pa.int64()), ("error", pa.string())])


def read_records(uri: str, file_format: str) -> Iterator[pa.RecordBatch]:
    """The records of a file as batches of `record`, `row` and `error`.

    `row` counts from 0: lines for JSON lines, elements for arrays, rows for CSV and Parquet.
    """
    position = 0
    try:
        for batch in _READERS[file_format](uri):
            yield batch
            position += batch.num_rows
    except FileNotFoundError:
        yield _failure(position, "the file is gone")
    except pa.ArrowInvalid as error:
        yield _failure(position, f"not readable as {file_format}: {error}")
    except OSError as error:
        if error.errno is not None:
            raise
        yield _failure(position, f"not readable as {file_format}: {error}")


def _failure(row: int, reason: str, record: str | None = None) -> pa.RecordBatch:
    return _batch([record], [row], [reason])


def _batch(records: list[str | None], rows: Iterable[int], errors: Any = None) -> pa.RecordBatch:
    reasons = [None] * len(records) if errors is None else errors
    columns = [pa.array(records, pa.string()), pa.array(rows, pa.int64())]
    return pa.RecordBatch.from_arrays([*columns, pa.array(reasons, pa.string())], schema=_RECORDS)


# --- JSON: lines, or one array -------------------------------------------------------------------


def _read_json(uri: str) -> Iterator[pa.RecordBatch]:
    with open_file(uri) as stream:
        head = stream.read(_BLOCK_BYTES).removeprefix(_BYTE_ORDER_MARK)
        if head.lstrip(_BLANK).startswith(b"["):
            yield from _elements(head + stream.read())
        else:
            yield from _lines(head, stream)


def _lines(head: bytes, stream: BinaryIO) -> Iterator[pa.RecordBatch]:
    """Split at \\n only: other line separators are ordinary characters inside a record."""
    line = 0
    for block in _whole_lines(head, stream):
        yield _lines_of(block, line)
        line += block.count(b"\n") + 1


def _whole_lines(head: bytes, stream: BinaryIO) -> Iterator[bytes]:
    rest = head
    while block := stream.read(_BLOCK_BYTES):
        complete, newline, tail = block.rpartition(b"\n")
        if newline:
            yield rest + complete
            rest = tail
        else:
            rest += block
    complete, _, tail = rest.rpartition(b"\n")
    yield from (part for part in (complete, tail) if part)


def _lines_of(block: bytes, first: int) -> pa.RecordBatch:
    try:
        text = pa.array([block], pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return _undecodable_lines_of(block, first)
    lines = pc.split_pattern(text, "\n").flatten()
    rows = pa.array(range(first, first + len(lines)), pa.int64())
    whole = pa.RecordBatch.from_arrays(
        [lines, rows, pa.nulls(len(lines), pa.string())], schema=_RECORDS
    )
    return whole.filter(pc.not_equal(pc.utf8_trim_whitespace(lines), ""))


def _undecodable_lines_of(block: bytes, first: int) -> pa.RecordBatch:
    found = [
        (*_decoded(line), first + number)
        for number, line in enumerate(block.split(b"\n"))
        if line.strip(_BLANK)
    ]
    records, errors, rows = zip(*found, strict=True)
    return _batch(list(records), rows, errors)


def _decoded(line: bytes) -> tuple[str, str | None]:
    try:
        return line.decode("utf-8"), None
    except UnicodeDecodeError as error:
        return line.decode("utf-8", "backslashreplace"), f"not UTF-8 at byte {error.start}"


def _elements(content: bytes) -> Iterator[pa.RecordBatch]:
    """The texts of an array's elements, cut out as they are, so that no number is rewritten."""
    text, reason = _decoded(content)
    if reason is not None:
        yield _failure(0, reason, text)
        return
    decoder, position, count = json.JSONDecoder(), text.index("[") + 1, 0
    records: list[str | None] = []
    while (position := _skip(text, position, first=count == 0)) >= 0:
        try:
            end = decoder.raw_decode(text, position)[1]
        except (json.JSONDecodeError, RecursionError) as error:
            yield _batch(records, range(count - len(records), count))
            yield _failure(count, f"not a JSON array: {error}", text[position:])
            return
        records.append(text[position:end])
        position, count = end, count + 1
        if len(records) == _BATCH_ROWS:
            yield _batch(records, range(count - len(records), count))
            records = []
    yield _batch(records, range(count - len(records), count))


def _skip(text: str, position: int, *, first: bool) -> int:
    """Where the next element begins; -1 after the closing bracket."""
    position = _after_blank(text, position)
    if text[position : position + 1] == "]":
        return -1 if _after_blank(text, position + 1) == len(text) else position
    if first:
        return position
    is_comma = text[position : position + 1] == ","
    return _after_blank(text, position + 1) if is_comma else position


def _after_blank(text: str, position: int) -> int:
    while text[position : position + 1] in {" ", "\t", "\r", "\n"}:
        position += 1
    return position


# --- CSV and Parquet: each row as a JSON object --------------------------------------------------


def _read_csv(uri: str) -> Iterator[pa.RecordBatch]:
    """All values stay text; an empty field is null, a quoted empty one is the empty string."""
    bad: list[pacsv.InvalidRow] = []
    count = 0
    for batch in _csv_batches(uri, bad):
        records = _json_rows(batch)
        yield _batch(records, range(count, count + len(records)))
        count += len(records)
    for number, row in enumerate(bad):
        reason = f"{row.actual_columns} fields where the header has {row.expected_columns}"
        yield _failure(count + number, reason, row.text)


def _csv_batches(uri: str, bad: list[pacsv.InvalidRow]) -> Iterator[pa.RecordBatch]:
    names = _csv_header(uri)
    if not names:
        return
    with open_file(uri) as stream:
        yield from pacsv.open_csv(
            stream,
            read_options=pacsv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            parse_options=pacsv.ParseOptions(
                newlines_in_values=True,
                invalid_row_handler=_collector(bad),
            ),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )


def _collector(bad: list[pacsv.InvalidRow]) -> Callable[[pacsv.InvalidRow], str]:
    def collect(row: pacsv.InvalidRow) -> str:
        bad.append(row)
        return "skip"

    return collect


def _csv_header(uri: str) -> list[str]:
    with open_file(uri) as stream:
        if not stream.read(_BLOCK_BYTES).strip(_BLANK):
            return []
    with open_file(uri) as stream:
        parsing = pacsv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda _: "skip")
        names: list[str] = pacsv.open_csv(stream, parse_options=parsing).schema.names
        return names


def _read_parquet(uri: str) -> Iterator[pa.RecordBatch]:
    count = 0
    with open_random(uri) as file:
        for batch in pq.ParquetFile(file).iter_batches(batch_size=_BATCH_ROWS):
            records = _json_rows(batch)
            yield _batch(records, range(count, count + len(records)))
            count += len(records)


def _json_rows(batch: pa.RecordBatch) -> list[str | None]:
    return [_dump(row) for row in batch.to_pylist()]


def _dump(row: Any) -> str:
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False, default=_plain)
    except ValueError:
        return json.dumps(_without_nan(row), ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    """JSON has few types: exact numbers, times and bytes travel as text."""
    match value:
        case Decimal():
            return format(value, "f")
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes():
            return base64.b64encode(value).decode("ascii")
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _without_nan(value: Any) -> Any:
    match value:
        case dict():
            return {name: _without_nan(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_without_nan(inner) for inner in value]
        case float() if not math.isfinite(value):
            return None
    return value


_READERS: Final = {"json": _read_json, "csv": _read_csv, "parquet": _read_parquet}
