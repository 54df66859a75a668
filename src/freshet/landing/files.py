"""The files table, and beside it what became of the files and which ones are to be read again.

Guarantee: the files table says for ever which file has which number; a number is given once. Rows
are appended before any offset names their numbers, so a crash leaves a file unnumbered or known.
The history tells which numbers a committed batch has read, and which files were then moved away.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Self

from freshet import schemas
from freshet.stores import delta_facts, delta_tables
from freshet.stores.delta_tables import SmallTable
from freshet.stores.file_listing import FoundFile
from freshet.stores.sql import is_among

Identity = Callable[[str, int, datetime | None], str]
"""What a file of this path, size and time is known by."""

READ: Final = schemas.FILE_READ
ARCHIVED: Final = "archived"
DELETED: Final = "deleted"

ARRIVING: Final = ("listing", "event")
"""`how` a file that is news was found."""

_ASKED_AT_ONCE: Final = 500


@dataclass(frozen=True)
class KnownFile:
    """A row of the files table."""

    seq: int
    path: str
    size: int
    modified_at: datetime | None
    etag: str | None
    discovered_at: datetime | None
    how: str
    retry_of: int | None = None
    reading: int = 0

    @property
    def arrival(self) -> int:
        """The number that orders its records: a file that is read again keeps its place."""
        return self.seq if self.retry_of is None else self.retry_of

    def is_version(self, found: FoundFile) -> bool:
        """Whether a file at its path is the very version that was discovered."""
        return (found.size, found.modified_at) == (self.size, self.modified_at)


class FilesTable:
    """All files ever discovered; written by one running query."""

    def __init__(self, state: str) -> None:
        self._table = SmallTable(state, schemas.FILES)

    def is_made_now(self) -> bool:
        """Makes the table; False if it was there, so that this is not the very first start."""
        is_new = not delta_tables.exists(self._table.uri)
        self._table.version()
        return is_new

    def append(self, files: Sequence[KnownFile]) -> None:
        """Numbers files, in one commit."""
        self._table.append([vars(file) for file in files])

    def next_seq(self) -> int:
        """The first number that no file has, from the log alone."""
        newest = delta_facts.greatest(self._table.uri, "seq")
        return 0 if newest is None else newest + 1

    def count(self) -> int:
        """How many rows there are, from the log alone."""
        return self._table.count()

    def names(self, identity: Identity | None = None) -> Iterator[list[str]]:
        """What all files are known by, in bounded pieces: their paths, or what `identity` says."""
        columns = ["path"] if identity is None else ["path", "size", "modified_at"]
        for batch in self._table.scan(columns):
            values = [batch.column(name).to_pylist() for name in columns]
            yield values[0] if identity is None else list(map(identity, *values))

    def between(self, start: int, end: int | None = None) -> list[KnownFile]:
        """Files by number, in order: from `start`, below `end`."""
        below = "" if end is None else f" AND seq < {end}"
        rows = self._table.read(where=f"seq >= {start}{below}")
        return sorted((KnownFile(**row) for row in rows), key=lambda file: file.seq)

    def at(self, paths: Sequence[str]) -> list[KnownFile]:
        """All that is known of some paths."""
        parts = range(0, len(paths), _ASKED_AT_ONCE)
        return [
            KnownFile(**row)
            for part in parts
            for row in self._table.read(where=is_among("path", paths[part : part + _ASKED_AT_ONCE]))
        ]

    def unread(self, start: int) -> "Waiting":
        """How much there is from a number on."""
        files = size = 0
        for batch in self._table.scan(["size"], f"seq >= {start}"):
            files += batch.num_rows
            size += sum(value or 0 for value in batch.column("size").to_pylist())
        return Waiting(files, size)

    def began_at(self) -> datetime | None:
        """When the first file was discovered; None if none ever was."""
        return delta_facts.earliest(self._table.uri, "discovered_at")

    def waiting(self, start: int, after: datetime | None) -> "Oldest":
        """Files from a number on that landed after a moment, and when the oldest of them did.

        Retries do not count, nor what is not to be read.
        """
        where = f"seq >= {start} AND {is_among('how', ARRIVING)}"
        files, oldest = 0, None
        for batch in self._table.scan(["modified_at"], where):
            landed = Oldest.of(batch.column("modified_at").to_pylist(), after)
            files, oldest = files + landed.files, _earlier(oldest, landed.landed_at)
        return Oldest(files, oldest)

    def existing(self) -> int:
        """The first number after the files that were there before and are not to be read."""
        rows = self._table.read(["seq"], "how = 'existing'")
        return max((row["seq"] for row in rows), default=-1) + 1

    def retries(self) -> dict[int, KnownFile]:
        """The newest retry of each file that was read again, by its first number."""
        rows = self._table.read(where="retry_of IS NOT NULL")
        found = sorted((KnownFile(**row) for row in rows), key=lambda file: file.seq)
        return {file.arrival: file for file in found}


@dataclass(frozen=True)
class Oldest:
    """Some files, and when the oldest of them landed."""

    files: int = 0
    landed_at: datetime | None = None

    @classmethod
    def of(cls, landed: Iterable[datetime | None], after: datetime | None) -> Self:
        """Of those that landed after a moment; none did, if that is still to come."""
        late = [at for at in landed if at is not None and after is not None and at > after]
        return cls(len(late), min(late, default=None))


def _earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((at for at in (one, other) if at is not None), default=None)


@dataclass(frozen=True)
class Waiting:
    """Files that no committed batch has read."""

    files: int
    bytes: int


@dataclass(frozen=True)
class Step:
    """A row of the history: what happened to the files of a range of numbers."""

    what: str
    first_seq: int
    end_seq: int
    batch: int | None
    at: datetime
    place: str | None = None

    def covers(self, seq: int) -> bool:
        """Whether a file is among them."""
        return self.first_seq <= seq < self.end_seq


class FilesHistory:
    """What became of the files: one row for each batch, and one for each step of moving away."""

    def __init__(self, state: str) -> None:
        self._table = SmallTable(f"{state}_history", schemas.FILES_HISTORY)

    def append(self, step: Step) -> None:
        """Adds one row."""
        self._table.append([vars(step)])

    def steps(self, *what: str) -> list[Step]:
        """All steps of some kinds, in the order of their numbers."""
        rows = self._table.read(where=is_among("what", what))
        return sorted((Step(**row) for row in rows), key=lambda step: (step.end_seq, step.at))


class Retries:
    """Requests to read files again, made by people and served by discovery."""

    def __init__(self, state: str) -> None:
        self._uri = f"{state}_retries"
        self._table = SmallTable(self._uri, schemas.FILES_RETRIES)

    def ask(self, files: Mapping[int, str], at: datetime) -> None:
        """Asks for files, number → path."""
        rows = [
            {"seq": seq, "path": path, "requested_at": at} for seq, path in sorted(files.items())
        ]
        self._table.append(rows)

    def asked(self) -> dict[int, tuple[str, datetime]]:
        """The newest request for each number."""
        if not delta_tables.exists(self._uri):
            return {}
        rows = sorted(self._table.read(), key=lambda row: row["requested_at"])
        return {row["seq"]: (row["path"], row["requested_at"]) for row in rows}
