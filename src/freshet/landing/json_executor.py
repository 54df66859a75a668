"""The records of a JSON file: lines, the elements of one array, or documents over many lines.

Texts are cut out as they are, so that no number is rewritten. Arrays and documents are read
through a window that is no larger than a few blocks or the largest record.
"""

import codecs
import json
import re
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from freshet.landing.batches_executor import (
    BLOCK_BYTES,
    LONGEST_RECORD_BYTES,
    RECORDS,
    UnreadableError,
    batch_of,
    batches_of,
    decoded,
)
from freshet.landing.content_executor import Content
from freshet.landing.read_options import ReadOptions

BLANK: Final = b" \t\r\n"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_BLANKS: Final = re.compile(r"[ \t\r\n]*")

# Longer than anything whose meaning may change with what follows: -Infinity, \ud83d\ude00, 1e+5.
_UNSURE_CHARACTERS: Final = 16

# Numbers are only skipped: as floats even those with thousands of digits are no error.
_DECODER: Final = json.JSONDecoder(parse_int=float)


def read_json(uri: str, _: ReadOptions) -> Iterator[pa.RecordBatch]:
    """The records; `row` counts lines, blank ones too, or elements, or documents."""
    with Content(uri) as content:
        head = _with_a_line(content.read(BLOCK_BYTES).removeprefix(_BYTE_ORDER_MARK), content)
        if head.lstrip(BLANK).startswith(b"["):
            yield from batches_of(_elements(_Window("array", head, content)))
            return
        are_documents, head = _are_documents(head, content)
        if are_documents:
            yield from batches_of(_documents(_Window("document", head, content)))
        else:
            yield from _lines(head, content)


def is_whole(text: str) -> bool:
    """Whether a text is one JSON value, blanks around it aside."""
    try:
        end = _DECODER.raw_decode(text, _after_blanks(text, 0))[1]
    except (json.JSONDecodeError, RecursionError):
        return False
    return _after_blanks(text, end) == len(text)


def _with_a_line(head: bytes, content: Content) -> bytes:
    """Reads on until the first line that is not blank is there to its end."""
    while b"\n" not in head.lstrip(BLANK) and (block := content.read(max(BLOCK_BYTES, len(head)))):
        head += block
        _check_length(len(head))
    return head


def _check_length(size_bytes: int) -> None:
    if size_bytes > LONGEST_RECORD_BYTES:
        raise UnreadableError(f"a record is longer than {LONGEST_RECORD_BYTES >> 20} MiB")


# --- Lines ---------------------------------------------------------------------------------------


def _lines(head: bytes, content: Content) -> Iterator[pa.RecordBatch]:
    """Split at \\n only: other line separators are ordinary characters inside a record."""
    line, rest = 0, [b""]
    block = head
    while block:
        complete, newline, tail = block.rpartition(b"\n")
        if newline:
            whole = b"".join([*rest, complete])
            yield _lines_of(whole, line)
            line += whole.count(b"\n") + 1
            rest = []
        rest.append(tail)
        _check_length(sum(map(len, rest)))
        block = content.read(BLOCK_BYTES)
    last = b"".join(rest)
    content.check(decoded(last)[0])
    yield _lines_of(last, line)


def _lines_of(block: bytes, first: int) -> pa.RecordBatch:
    try:
        text = pa.array([block], pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return _undecodable_lines_of(block, first)
    lines = pc.split_pattern(text, "\n").flatten()
    rows = pa.array(range(first, first + len(lines)), pa.int64())
    whole = pa.RecordBatch.from_arrays(
        [lines, rows, pa.nulls(len(lines), pa.string())], schema=RECORDS
    )
    return whole.filter(pc.not_equal(pc.ascii_trim(lines, " \t\r"), ""))


def _undecodable_lines_of(block: bytes, first: int) -> pa.RecordBatch:
    lines = enumerate(block.split(b"\n"), first)
    found = [(row, line) for row, line in lines if line.strip(BLANK)]
    texts = [lenient(line) for _, line in found]
    return batch_of(texts, [row for row, _ in found])


# --- Arrays and documents ------------------------------------------------------------------------


def _are_documents(head: bytes, content: Content) -> tuple[bool, bytes]:
    """Whether the first value goes over several lines; reads on as far as it must to know."""
    first_line = head.lstrip(BLANK).partition(b"\n")[0]
    if not first_line.startswith(b"{") or is_whole(lenient(first_line)):
        return False, head
    while True:
        text = lenient(head)
        verdict = _spans_lines(text)
        if verdict is not None:
            return verdict, head
        block = content.read(max(BLOCK_BYTES, len(head)))
        if not block:
            return _is_cut_document(text), head
        head += block
        _check_length(len(head))


def _spans_lines(text: str) -> bool | None:
    """Whether the first value does; None if it may end further on."""
    start = _after_blanks(text, 0)
    try:
        end = _DECODER.raw_decode(text, start)[1]
    except json.JSONDecodeError as error:
        return None if _may_go_on(error, len(text) - _UNSURE_CHARACTERS) else False
    except RecursionError:
        return False
    return "\n" in text[start:end]


def _is_cut_document(text: str) -> bool:
    """Whether a text that is no JSON value is half a document, and not lines with a bad first."""
    lines = text.strip().split("\n", 2)
    if len(lines) == 1 or is_whole(lines[1]):
        return False
    try:
        _DECODER.raw_decode(text.strip())
    except json.JSONDecodeError as error:
        return _may_go_on(error, len(text.strip()))
    return True


def _may_go_on(error: json.JSONDecodeError, sure: int) -> bool:
    """Whether more text might mend it."""
    return error.pos >= sure or error.msg.startswith("Unterminated string")


def _elements(window: "_Window") -> Iterator[str]:
    window.pass_over("[")
    if window.next_character() != "]":
        yield window.cut_value()
        while window.next_character() == ",":
            window.pass_over(",")
            yield window.cut_value()
    window.pass_over("]")
    window.check_end()


def _documents(window: "_Window") -> Iterator[str]:
    while window.next_character():
        yield window.cut_value()
    window.check_end()


class _Window:
    """The text of a file from a position on: grows at its end, forgets what was cut out.

    Everything raises UnreadableError, with the text from there on, where it is not JSON.
    """

    def __init__(self, what: str, head: bytes, content: Content) -> None:
        self._what = what
        self._content = content
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._text = self._decoder.decode(head)
        self._position = 0
        self._forgotten = 0
        self._is_at_end = False

    def next_character(self) -> str:
        """The next one that is not blank; nothing at the end."""
        while True:
            self._position = _after_blanks(self._text, self._position)
            if self._position < len(self._text) or self._is_at_end:
                return self._text[self._position : self._position + 1]
            self._grow()

    def pass_over(self, character: str) -> None:
        """Goes past a character that must be the next."""
        if self.next_character() != character:
            raise self._unreadable('Expecting "," or "]"', self._position)
        self._position += 1

    def cut_value(self) -> str:
        """The text of the next value, and goes past it."""
        self.next_character()
        while (end := self._end_of_value()) is None:
            self._grow()
        start, self._position = self._position, end
        return self._text[start:end]

    def check_end(self) -> None:
        """Nothing may follow."""
        if self.next_character():
            raise self._unreadable("Something follows", self._position)
        self._content.check()

    def _end_of_value(self) -> int | None:
        """None if it may end further on."""
        sure = len(self._text) if self._is_at_end else len(self._text) - _UNSURE_CHARACTERS
        try:
            end = _DECODER.raw_decode(self._text, self._position)[1]
        except json.JSONDecodeError as error:
            if not self._is_at_end and _may_go_on(error, sure):
                return None
            raise self._unreadable(error.msg, error.pos) from None
        except RecursionError:
            raise self._unreadable("Nested too deeply", self._position) from None
        return end if end <= sure else None

    def _grow(self) -> None:
        """Reads as much again as is left, so that a long value costs no more than short ones."""
        rest = self._text[self._position :]
        _check_length(len(rest))
        block = self._content.read(max(BLOCK_BYTES, len(rest)))
        self._is_at_end = not block
        self._text = rest + self._decoder.decode(block, final=self._is_at_end)
        self._forgotten += self._position
        self._position = 0

    def _unreadable(self, reason: str, position: int) -> UnreadableError:
        rest = self._text[self._position :]
        self._content.check(rest)
        place = f"character {self._forgotten + position}"
        return UnreadableError(f"not a JSON {self._what}: {reason} ({place})", rest or None)


def lenient(content: bytes) -> str:
    """A text in which bytes that are not UTF-8 are lone surrogates."""
    return content.decode("utf-8", "surrogateescape")


def _after_blanks(text: str, position: int) -> int:
    found = _BLANKS.match(text, position)
    return found.end() if found else position
