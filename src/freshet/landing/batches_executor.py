"""Batches of records as the readers of all formats make them: `record`, `row` and `error`."""

import errno
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa

RECORDS: Final = pa.schema([("record", pa.string()), ("row", pa.int64()), ("error", pa.string())])

BLOCK_BYTES: Final = 4 << 20
LONGEST_RECORD_BYTES: Final = 512 << 20
"""A text that goes on for longer is no record but a missing line feed, quote or bracket."""

_BATCH_ROWS: Final = 4_096
_BATCH_CHARACTERS: Final = 8 << 20
_EXCERPT_CHARACTERS: Final = 1 << 16

_STAYS: Final = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR)
_CLOUD_TROUBLE: Final = ("AWS Error", "Azure Error", "google::cloud::Status")
_CLOUD_REFUSAL: Final = ("ACCESS_DENIED", "PERMISSION_DENIED", "AuthorizationFailure")


class UnreadableError(Exception):
    """The content cannot be read from here on: why, and the beginning of the text that fails."""

    def __init__(self, reason: str, record: str | None = None) -> None:
        self.reason = reason
        self.record = None if record is None else record[:_EXCERPT_CHARACTERS]
        super().__init__(reason)


def may_pass(error: Exception) -> bool:
    """Whether the trouble lies with the storage, so that another try may find it gone.

    Clouds report theirs without a number, like damaged content, so their words must tell.
    """
    if not isinstance(error, OSError):
        return False
    if error.errno is not None:
        return error.errno not in _STAYS
    text = str(error)
    is_cloud = any(words in text for words in _CLOUD_TROUBLE)
    return is_cloud and not any(words in text for words in _CLOUD_REFUSAL)


def failure(row: int, reason: str, record: str | None = None) -> pa.RecordBatch:
    """One row that says why something could not be read."""
    return failures([row], [reason], [record])


def failures(
    rows: Sequence[int], reasons: Sequence[str], records: Sequence[str | None]
) -> pa.RecordBatch:
    """Rows that say why something could not be read."""
    texts = [record if record is None else _checked(record)[0] for record in records]
    columns = [pa.array(texts, pa.string()), pa.array(rows, pa.int64())]
    return pa.RecordBatch.from_arrays([*columns, pa.array(reasons, pa.string())], schema=RECORDS)


def batch_of(texts: Sequence[str], rows: Iterable[int]) -> pa.RecordBatch:
    """Records in one batch; those with bytes that were not UTF-8 carry their reason."""
    numbers = pa.array(rows, pa.int64())
    try:
        columns = [pa.array(texts, pa.string()), numbers, pa.nulls(len(texts), pa.string())]
    except UnicodeEncodeError:
        records, errors = zip(*map(_checked, texts), strict=True)
        columns = [pa.array(records, pa.string()), numbers, pa.array(errors, pa.string())]
    return pa.RecordBatch.from_arrays(columns, schema=RECORDS)


def batches_of(texts: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Records packed into batches and counted from 0; what came before a failure comes out."""
    pending: list[str] = []
    done = characters = 0
    try:
        for text in texts:
            pending.append(text)
            characters += len(text)
            if len(pending) == _BATCH_ROWS or characters >= _BATCH_CHARACTERS:
                yield batch_of(pending, range(done, done + len(pending)))
                done, characters, pending = done + len(pending), 0, []
    except Exception:
        yield batch_of(pending, range(done, done + len(pending)))
        raise
    yield batch_of(pending, range(done, done + len(pending)))


def slices_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in parts that are small enough to become text."""
    step = rows_within(batch.nbytes, batch.num_rows)
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def rows_within(size_bytes: int, rows: int) -> int:
    """How many of rows that are so large together belong into one batch."""
    return max(1, min(_BATCH_ROWS, _BATCH_CHARACTERS * rows // max(size_bytes, 1)))


def decoded(content: bytes) -> tuple[str, str | None]:
    """A text, and if its bytes are not UTF-8, why not; they are then spelled out."""
    try:
        return content.decode("utf-8"), None
    except UnicodeDecodeError as error:
        return content.decode("utf-8", "backslashreplace"), f"not UTF-8 at byte {error.start}"


def _checked(text: str) -> tuple[str, str | None]:
    """A text that was decoded with `surrogateescape`, as above."""
    try:
        return decoded(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError as error:
        spelled = text.encode("utf-8", "backslashreplace").decode("utf-8")
        return spelled, f"not Unicode at character {error.start}"
