"""Quarantine: the records that could not be understood. A view of Bronze, read without Spark.

A file that is read again says everything anew, so only its newest reading counts.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from freshet.stores import delta_tables
from freshet.stores.sql import is_among

_COLUMNS: Final = ("file", "seq", "row", "error", "raw", "ingested_at")
_FILES_AT_ONCE: Final = 500


@dataclass(frozen=True)
class Quarantined:
    """One record that is not in Gold, and why."""

    file: str
    seq: int
    row: int
    error: str
    raw: str | None
    ingested_at: datetime


@dataclass(frozen=True)
class ReadingResult:
    """What the newest reading of a file gave."""

    rows: int
    errors: int


def quarantined(uri: str) -> Iterator[Quarantined]:
    """Every record that is in quarantine now; memory holds one time for each bad file."""
    newest = _newest_readings(uri, _bad_files(uri))
    for batch in delta_tables.scan(uri, _COLUMNS, "error IS NOT NULL"):
        for row in batch.to_pylist():
            if row["ingested_at"] == newest[row["seq"]]:
                yield Quarantined(**row)


def reasons(records: Iterable[Quarantined]) -> Counter[str]:
    """How many records there are of each kind of reason."""
    return Counter(kind_of(record.error) for record in records)


def kind_of(error: str) -> str:
    """A reason without what differs from record to record."""
    return error.split(":", 1)[0]


def results(uri: str, seqs: Iterable[int]) -> Mapping[int, ReadingResult]:
    """Rows and bad rows of some files, by number, in the newest reading of each."""
    numbers = sorted(set(seqs))
    if not numbers or not delta_tables.exists(uri):
        return {}
    rows: dict[int, Counter[datetime]] = {}
    errors: dict[int, Counter[datetime]] = {}
    for row in _rows_of(uri, ("seq", "ingested_at", "error"), numbers):
        rows.setdefault(row["seq"], Counter())[row["ingested_at"]] += 1
        errors.setdefault(row["seq"], Counter())[row["ingested_at"]] += row["error"] is not None
    return {
        seq: ReadingResult(rows[seq][max(rows[seq])], errors[seq][max(rows[seq])]) for seq in rows
    }


def _bad_files(uri: str) -> set[int]:
    found: set[int] = set()
    for batch in delta_tables.scan(uri, ("seq",), "error IS NOT NULL"):
        found.update(batch.column("seq").to_pylist())
    return found


def _newest_readings(uri: str, seqs: Iterable[int]) -> dict[int, datetime]:
    newest: dict[int, datetime] = {}
    for row in _rows_of(uri, ("seq", "ingested_at"), sorted(seqs)):
        known = newest.get(row["seq"])
        newest[row["seq"]] = row["ingested_at"] if known is None else max(known, row["ingested_at"])
    return newest


def _rows_of(uri: str, columns: tuple[str, ...], seqs: list[int]) -> Iterator[dict[str, Any]]:
    for start in range(0, len(seqs), _FILES_AT_ONCE):
        some = seqs[start : start + _FILES_AT_ONCE]
        # The range lets Delta's statistics rule most files out before any is opened.
        where = f"seq >= {some[0]} AND seq <= {some[-1]} AND {is_among('seq', some)}"
        for batch in delta_tables.scan(uri, columns, where):
            yield from batch.to_pylist()
