"""The rows of a CSV file as JSON objects. All values stay text.

A field that is empty, or whatever else stands for null, is null, unless it is in quotes. A column
without a name is called by its place, c0, c1, …; a header that names two columns alike is an error.
"""

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.csv as pacsv

from freshet.landing.batches_executor import (
    BLOCK_BYTES,
    LONGEST_RECORD_BYTES,
    UnreadableError,
    batch_of,
    failures,
    slices_of,
)
from freshet.landing.content_executor import Content
from freshet.landing.read_options import ReadOptions
from freshet.landing.values_executor import json_rows, json_text

# Follows the content: as a row of its own, or else the row before it was not finished.
_END: Final = "EndOfFileQx7mWv2rTz9kLb4n"

# Arrow can hand over bad rows only as UTF-8: until then other bytes are characters nobody uses.
_STAND_IN: Final = re.compile("[\U0010ff80-\U0010ffff]")
_SURROGATE: Final = re.compile("[\udc80-\udcff]")
_DISTANCE: Final = 0x10FF80 - 0xDC80

# Arrow hands nothing over before the first row that fits: what waits meanwhile is in memory.
_MOST_WAITING_ROWS: Final = 500_000
_MOST_WAITING_CHARACTERS: Final = 256 << 20


def read_csv(uri: str, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """The rows, and those that do not fit with their text and reason; `row` counts both."""
    block_bytes, first = BLOCK_BYTES, 0
    while True:
        try:
            for batch in _read_from(first, uri, options, block_bytes):
                yield batch
                first = batch.column("row")[-1].as_py() + 1
        except pa.ArrowInvalid as error:
            # Arrow takes no row of more than two blocks: go on from there with larger ones.
            if "straddling object" not in str(error):
                raise
            block_bytes *= 4
            if block_bytes > LONGEST_RECORD_BYTES:
                raise UnreadableError("a row has no end: is a quote not closed?") from None
        else:
            return


def _read_from(
    first: int, uri: str, options: ReadOptions, block_bytes: int
) -> Iterator[pa.RecordBatch]:
    found = _found_names(uri, options, block_bytes)
    names = _names(found, options)
    if not names:
        return
    with Content(uri) as content:
        text = _Text(content)
        rows = _Rows(names, options, text)
        try:
            with _opened(text, options, block_bytes, rows.refuse, found) as reader:
                for batch in reader:
                    yield from rows.after(first, batch)
        except pa.ArrowInvalid:
            if not rows.has_given_up:
                raise
        yield from rows.rest_after(first)
        rows.check_end()
        content.check()


def _opened(
    text: "_Text",
    options: ReadOptions,
    block_bytes: int,
    refuse: Callable[[pacsv.InvalidRow], str],
    names: list[str],
) -> pacsv.CSVStreamingReader:
    own_names = [] if options.csv_header else list(options.csv_columns)
    return pacsv.open_csv(
        pa.PythonFile(text, mode="r"),
        read_options=pacsv.ReadOptions(
            use_threads=False,
            block_size=block_bytes,
            column_names=own_names,
            autogenerate_column_names=not options.csv_header and not own_names,
        ),
        parse_options=pacsv.ParseOptions(
            delimiter=options.csv_delimiter,
            quote_char=options.csv_quote or False,
            escape_char=options.csv_escape or False,
            newlines_in_values=True,
            invalid_row_handler=refuse,
        ),
        convert_options=pacsv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[options.csv_null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


# --- Names ---------------------------------------------------------------------------------------


def _found_names(uri: str, options: ReadOptions, block_bytes: int) -> list[str]:
    """The columns as Arrow calls them; none if there is nothing in the file."""
    if options.csv_columns and not options.csv_header:
        return list(options.csv_columns)
    with Content(uri) as content:
        text = _Text(content)
        try:
            with _opened(text, options, block_bytes, lambda _: "skip", []) as reader:
                names: list[str] = reader.schema.names
        except pa.ArrowInvalid as error:
            if "cannot infer number of columns" not in str(error):
                raise
            names = ["", _END]  # the first row takes all, and nothing follows
        if names == [_END]:
            content.check()
            return []
        if _has_end(names[-1]):
            raise UnreadableError(content.failure or "a quote of the header is not closed")
    if options.csv_header and text.has_stand_ins and _STAND_IN.search("".join(names)):
        raise UnreadableError("the header is not UTF-8")
    return names


def _names(found: list[str], options: ReadOptions) -> list[str]:
    if not options.csv_header:
        return list(options.csv_columns) or [f"c{place}" for place in range(len(found))]
    names = [name or f"c{place}" for place, name in enumerate(found)]
    for name, count in Counter(names).items():
        if count > 1:
            raise UnreadableError(f'the header names "{name}" more than once')
    return names


# --- Rows ----------------------------------------------------------------------------------------


class _Rows:
    """Puts the rows that Arrow parsed and those that it refused into the file's order."""

    def __init__(self, names: list[str], options: ReadOptions, text: "_Text") -> None:
        self.has_given_up = False
        self._names = names
        self._lines_before = 2 if options.csv_header else 1
        self._should = "the header has" if options.csv_header else "there should be"
        self._text = text
        self._next = 0
        self._waiting: dict[int, pacsv.InvalidRow] = {}
        self._waiting_characters = 0
        self._unfinished: str | None = None

    def refuse(self, row: pacsv.InvalidRow) -> str:
        """Arrow's question what to do with a row that does not fit."""
        self._waiting[row.number - self._lines_before] = row
        self._waiting_characters += len(row.text)
        self.has_given_up = (
            len(self._waiting) > _MOST_WAITING_ROWS
            or self._waiting_characters > _MOST_WAITING_CHARACTERS
        )
        return "error" if self.has_given_up else "skip"

    def after(self, first: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows of a batch and the bad ones among them, from the row `first` on."""
        named = pa.RecordBatch.from_arrays(batch.columns, names=self._names)
        for part in slices_of(self._without_end(named)):
            numbers = self._numbers(part.num_rows)
            given = sum(number < first for number in numbers)
            good = batch_of(self._texts(part.slice(given)), numbers[given:])
            yield from _in_order(good, self._refused(first))
        yield from self.rest_after(first)

    def rest_after(self, first: int) -> Iterator[pa.RecordBatch]:
        """The bad rows that follow at once."""
        while self._next in self._waiting:
            self._next += 1
        yield from _in_order(batch_of([], []), self._refused(first))

    def check_end(self) -> None:
        """Raises UnreadableError if the last row has no end, or there are too many bad ones."""
        if self.has_given_up:
            raise UnreadableError("too many rows do not fit: is the delimiter right?")
        if self._unfinished is not None:
            self._text.content.check(self._unfinished)
            raise UnreadableError("a quote is not closed", self._unfinished)

    def _numbers(self, count: int) -> list[int]:
        """The ordinals of the next good rows: those that no bad row has."""
        numbers: list[int] = []
        while len(numbers) < count:
            if self._next not in self._waiting:
                numbers.append(self._next)
            self._next += 1
        return numbers

    def _refused(self, first: int) -> pa.RecordBatch:
        """The bad rows up to where the good ones are."""
        numbers = [number for number in self._waiting if number < self._next]
        rows = {number: self._waiting.pop(number) for number in numbers}
        self._waiting_characters -= sum(len(row.text) for row in rows.values())
        for number, row in rows.items():
            if _has_end(row.text):
                self._unfinished = self._text.original(_before_end(row.text)) or None
                numbers.remove(number)
        numbers = [number for number in numbers if number >= first]
        reasons = [self._reason(rows[number]) for number in numbers]
        return failures(numbers, reasons, [self._text.original(rows[n].text) for n in numbers])

    def _reason(self, row: pacsv.InvalidRow) -> str:
        fields = f"{row.actual_columns} field{'s' if row.actual_columns > 1 else ''}"
        return f"{fields} where {self._should} {row.expected_columns}"

    def _texts(self, part: pa.RecordBatch) -> list[str]:
        texts = json_rows(part)
        return [self._text.original(text) for text in texts] if self._text.has_stand_ins else texts

    def _without_end(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        last = batch.column(batch.num_columns - 1)[-1].as_py() if batch.num_rows else None
        if last is None or not _has_end(last):
            return batch
        if batch.num_columns > 1 or last != _END:
            [row] = batch.slice(batch.num_rows - 1).to_pylist()
            text = json_text(row | {self._names[-1]: _before_end(last)})
            self._unfinished = self._text.original(text)
        return batch.slice(0, batch.num_rows - 1)


def _in_order(good: pa.RecordBatch, bad: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if good.num_rows and bad.num_rows:
        both = pa.Table.from_batches([good, bad]).sort_by("row")
        yield from both.combine_chunks().to_batches()
    else:
        yield from (batch for batch in (good, bad) if batch.num_rows)


def _has_end(text: str) -> bool:
    return text.rstrip("\n").endswith(_END)


def _before_end(text: str) -> str:
    return text.rstrip("\n").removesuffix(_END).removesuffix("\n")


class _Text:
    """A file for Arrow to read: the content as UTF-8, whatever it is, and then `_END`."""

    closed = False

    def __init__(self, content: Content) -> None:
        self.content = content
        self.has_stand_ins = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._pending = b""
        self._is_at_end = False

    def read(self, size: int) -> bytes:
        """The next bytes: `size` of them, fewer only at the end."""
        while len(self._pending) < size and not self._is_at_end:
            self._pending += self._next(size)
        block, self._pending = self._pending[:size], self._pending[size:]
        return block

    def close(self) -> None:
        """The content belongs to somebody else."""

    def original(self, text: str) -> str:
        """A text of this file, with lone surrogates for bytes that are not UTF-8."""
        if not self.has_stand_ins:
            return text
        return _STAND_IN.sub(lambda found: chr(ord(found[0]) - _DISTANCE), text)

    def _next(self, size: int) -> bytes:
        block = self.content.read(size)
        self._is_at_end = not block
        text = self._decoder.decode(block, final=self._is_at_end)
        if self._is_at_end:
            # A row that the content breaks off in must not look finished.
            text += f"{_END}\n" if self.content.failure is not None else f"\n{_END}\n"
        try:
            return text.encode("utf-8")
        except UnicodeEncodeError:
            self.has_stand_ins = True
            stand_in = _SURROGATE.sub(lambda found: chr(ord(found[0]) + _DISTANCE), text)
            return stand_in.encode("utf-8")
