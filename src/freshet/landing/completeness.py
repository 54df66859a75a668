"""Whether a file seems to be still being written: a look at its ends, in the driver.

Names and ages tell little on stores that show a file while it grows; formats that mark their own
end tell more. It is a hint only: who asks must also have an end to its patience.
"""

from typing import Final

import pyarrow as pa

from freshet.landing.avro_executor import Source
from freshet.landing.batches_executor import BLOCK_BYTES, UnreadableError, may_pass
from freshet.landing.content_executor import Content
from freshet.landing.json_executor import BLANK, is_whole, lenient
from freshet.landing.read_options import ReadOptions, is_compressed
from freshet.stores.file_systems import open_random

_HEAD_BYTES: Final = 64 << 10
_TAIL_BYTES: Final = 1 << 20
_DECOMPRESSED_UP_TO_BYTES: Final = 8 << 20

_PARQUET_MAGIC: Final = (b"PAR1", b"PARE")  # the second if its footer is encrypted
_ORC_MAGIC: Final = b"ORC"


def cut_off(uri: str, size: int, options: ReadOptions) -> str | None:
    """Why a file seems to be still being written; None if it does not, or nobody can tell.

    Raises only trouble of the storage that may pass by itself.
    """
    own = options.for_file(uri)
    if own is None:
        return None
    is_text = own.format in {"json", "csv"}
    if size == 0:
        return None if is_text else "the file is empty"
    try:
        return _text_cut_off(uri, size, own) if is_text else _binary_cut_off(uri, own.format)
    except OSError as error:
        if may_pass(error):
            raise
        return None


# --- Text ----------------------------------------------------------------------------------------


def _text_cut_off(uri: str, size: int, options: ReadOptions) -> str | None:
    if is_compressed(uri):
        return _compressed_cut_off(uri, size, options)
    if options.format == "csv":
        return None
    with open_random(uri) as file:
        return _json_cut_off(file.read(_HEAD_BYTES), _tail(file, _TAIL_BYTES), file.size())


def _compressed_cut_off(uri: str, size: int, options: ReadOptions) -> str | None:
    if size > _DECOMPRESSED_UP_TO_BYTES:
        return None
    head = tail = b""
    length = 0
    with Content(uri) as content:
        while block := content.read(BLOCK_BYTES):
            head = head or block[:_HEAD_BYTES]
            tail = (tail + block)[-_TAIL_BYTES:]
            length += len(block)
        if content.failure is not None:
            return f"its compressed content breaks off: {content.failure}"
    return None if options.format == "csv" else _json_cut_off(head, tail, length)


def _json_cut_off(head: bytes, tail: bytes, length: int) -> str | None:
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip(BLANK)
    end = tail.rstrip(BLANK)
    if not end:
        return None
    if head.startswith(b"["):
        return None if end.endswith(b"]") else "its array is not closed"
    if _begins_a_document(head):
        return None if end.endswith(b"}") else "its last document is not closed"
    return _last_line_cut_off(tail, length)


def _begins_a_document(head: bytes) -> bool:
    first, newline, _ = head.partition(b"\n")
    return first.startswith(b"{") and bool(newline) and not is_whole(lenient(first))


def _last_line_cut_off(tail: bytes, length: int) -> str | None:
    _, newline, last = tail.rpartition(b"\n")
    is_there_whole = bool(newline) or len(tail) == length
    if not is_there_whole or not last.strip(BLANK) or is_whole(lenient(last)):
        return None
    return "its last line is not finished"


# --- Formats that mark their ends ----------------------------------------------------------------


def _binary_cut_off(uri: str, file_format: str) -> str | None:
    with open_random(uri) as file:
        if file_format == "parquet":
            return _parquet_cut_off(file)
        return _orc_cut_off(file) if file_format == "orc" else _avro_cut_off(file)


def _parquet_cut_off(file: pa.NativeFile) -> str | None:
    ends = (file.read(4), _tail(file, 4))
    is_whole_file = file.size() >= 12 and all(end in _PARQUET_MAGIC for end in ends)
    return None if is_whole_file else "it has no Parquet footer yet"


def _orc_cut_off(file: pa.NativeFile) -> str | None:
    head, tail = file.read(3), _tail(file, 256)
    length = tail[-1] if tail else 0
    has_room = file.size() >= len(head) + length + 1
    is_whole_file = head == _ORC_MAGIC and has_room and _ORC_MAGIC in tail[-length - 1 : -1]
    return None if is_whole_file else "it has no ORC footer yet"


def _avro_cut_off(file: pa.NativeFile) -> str | None:
    try:
        sync = Source(file).sync
    except (UnreadableError, EOFError, ValueError, LookupError, TypeError):
        return "it has no whole Avro header yet"
    return None if _tail(file, len(sync)) == sync else "its last Avro block is not finished"


def _tail(file: pa.NativeFile, count: int) -> bytes:
    size = file.size()
    file.seek(max(0, size - count))
    tail: bytes = file.read(min(size, count))
    return tail
