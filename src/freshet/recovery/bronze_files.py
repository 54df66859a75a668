"""The files that Bronze knows, put back into the files table."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from freshet import schemas
from freshet.events import emit
from freshet.layout import Home
from freshet.stores.delta_tables import SmallTable
from freshet.stores.file_listing import FoundFile, look_at_all

HOW: Final = "bronze"
_RANGES_AT_MOST: Final = 50
_ROWS_AN_APPEND: Final = 50_000
_TELL_EVERY_ROWS: Final = 5_000_000

_Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class ReadFile:
    """A file of which Bronze has records."""

    seq: int
    path: str
    ingested_at: datetime


def complete_files(home: Home, bronze_end: int) -> int:
    """Adds the files that Bronze has and the files table lacks; returns how many those were.

    Memory holds the numbers of all files and the paths of those that are missing, no records.
    """
    table = SmallTable(home.files, schemas.FILES)
    found = _unknown(home, table, bronze_end)
    for start in range(0, len(found), _ROWS_AN_APPEND):
        table.append(list(_rows(found[start : start + _ROWS_AN_APPEND])))
    return len(found)


def lacking(home: Home, bronze_end: int) -> int:
    """How many files `complete_files` would add."""
    return len(_unknown(home, SmallTable(home.files, schemas.FILES), bronze_end))


def first_disagreement(home: Home, known: Mapping[int, str]) -> int | None:
    """The first of some numbers that has another file in Bronze; None if they agree.

    After a rebuild, files that had not been read yet get new numbers; a copy of the files table
    that is older than that has the former ones, and from there on it is worth nothing.
    """
    if not known:
        return None
    read = _files_in_bronze(home.bronze, np.fromiter(sorted(known), np.int64))
    return min((file.seq for file in read if known[file.seq] != file.path), default=None)


def _unknown(home: Home, table: SmallTable, bronze_end: int) -> list[ReadFile]:
    missing = _missing(table, bronze_end)
    found = _files_in_bronze(home.bronze, missing) if len(missing) else []
    return sorted(found, key=lambda file: file.seq)


def _missing(table: SmallTable, end: int) -> _Numbers:
    """Numbers below the end that no file of the table has."""
    is_known = np.zeros(end, np.bool_)
    for batch in table.scan(["seq"], f"seq < {end}"):
        is_known[batch.column("seq").to_numpy(zero_copy_only=False)] = True
    return np.flatnonzero(~is_known)


def _files_in_bronze(uri: str, numbers: _Numbers) -> Iterable[ReadFile]:
    """The files of some numbers; of a number that was read again, the file that was read first."""
    found: dict[int, ReadFile] = {}
    rows = told = 0
    bronze = SmallTable(uri, schemas.BRONZE)
    for batch in bronze.scan(["seq", "file", "ingested_at"], _within(numbers)):
        rows += batch.num_rows
        for file in _distinct(batch):
            known = found.get(file.seq)
            if known is None or file.ingested_at < known.ingested_at:
                found[file.seq] = file
        if rows - told >= _TELL_EVERY_ROWS:
            told = rows
            emit("recovery", "files_looked_up", rows=rows, files=len(found))
    wanted = set(numbers.tolist())
    return [file for file in found.values() if file.seq in wanted]


def _within(numbers: _Numbers) -> str:
    """A filter that lets all the numbers pass, and few others; it prunes whole data files."""
    breaks = np.flatnonzero(np.diff(numbers) > 1) + 1
    ranges = [(int(part[0]), int(part[-1])) for part in np.split(numbers, breaks)]
    if len(ranges) > _RANGES_AT_MOST:
        ranges = [(int(numbers[0]), int(numbers[-1]))]
    return " OR ".join(f"(seq >= {first} AND seq <= {last})" for first, last in ranges)


def _distinct(batch: pa.RecordBatch) -> Iterator[ReadFile]:
    groups = pa.Table.from_batches([batch]).group_by(["seq", "file"])
    for row in groups.aggregate([("ingested_at", "min")]).to_pylist():
        yield ReadFile(row["seq"], row["file"], row["ingested_at_min"])


def _rows(files: Sequence[ReadFile]) -> Iterator[dict[str, Any]]:
    last = {file.path: file.seq for file in files}
    for file, there in zip(files, look_at_all([file.path for file in files]), strict=True):
        # Of a file that was overwritten, only its last version can still be there.
        is_it = last[file.path] == file.seq and _is_as_read(file, there)
        yield {
            "seq": file.seq,
            "path": file.path,
            "size": there.size if there and is_it else None,
            "modified_at": there.modified_at if there and is_it else None,
            "discovered_at": file.ingested_at,
            "how": HOW,
            "reading": 0,
        }


def _is_as_read(file: ReadFile, there: FoundFile | None) -> bool:
    """Whether the file is still there, and cannot have changed since."""
    return there is not None and there.modified_at <= file.ingested_at
