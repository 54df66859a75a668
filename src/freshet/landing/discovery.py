"""Which files there are, which are new, and which number each one got."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from freshet import schemas
from freshet.stores.delta_tables import SmallTable
from freshet.stores.file_systems import FoundFile, list_files
from freshet.stores.sql import is_among

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The time now, with its zone."""
    return datetime.now(UTC)


def files_table(state: str) -> SmallTable:
    """The table of all files ever discovered."""
    return SmallTable(state, schemas.FILES)


class Discovery:
    """Numbers new files by listing, and remembers them in the files table.

    A file is known by its path and never by its date: a late file with an old date is read.
    Memory holds the known paths that are still in the landing zone; files that were moved away are
    asked for in the files table, so it does not grow with the stream's age.
    """

    def __init__(self, path: str, state: str, clock: Clock = utc_now) -> None:
        self._path = path
        self._table = files_table(state)
        self._clock = clock
        self._known_here: set[str] | None = None
        self._count = 0

    def discover(self) -> int:
        """Lists, appends what is new to the files table, and returns how many files are known."""
        listed = {file.path: file for file in list_files(self._path)}
        self._load(listed)
        new = _by_age(listed[path] for path in self._unknown(listed))
        if new:
            self._table.append(self._rows(new))
            self._count += len(new)
        self._known_here = set(listed)
        return self._count

    def _load(self, listed: Mapping[str, FoundFile]) -> None:
        if self._known_here is not None:
            return
        self._known_here = set()
        for batch in self._table.scan(["path"]):
            self._count += batch.num_rows
            self._known_here.update(listed.keys() & set(batch.column("path").to_pylist()))

    def _unknown(self, listed: Mapping[str, FoundFile]) -> set[str]:
        known_here = self._known_here or set()
        candidates = listed.keys() - known_here
        if not candidates or self._count == len(known_here):
            return candidates
        known = self._table.read(["path"], is_among("path", sorted(candidates)))
        return candidates - {row["path"] for row in known}

    def _rows(self, files: Iterable[FoundFile]) -> list[dict[str, object]]:
        now = self._clock()
        return [
            {
                "seq": self._count + position,
                "path": file.path,
                "size": file.size,
                "modified_at": file.modified_at,
                "discovered_at": now,
                "how": "listing",
            }
            for position, file in enumerate(files)
        ]


def _by_age(files: Iterable[FoundFile]) -> list[FoundFile]:
    return sorted(files, key=lambda file: (file.modified_at, file.path))


@dataclass(frozen=True)
class Backlog:
    """Files that are known, and files that no finished batch has read yet."""

    seen: int
    waiting: int


def backlog(path: str, state: str, read_up_to: int) -> Backlog:
    """How far reading has come; looks only, and discovers nothing."""
    known, unknown = 0, {file.path for file in list_files(path)}
    for batch in files_table(state).scan(["path"]):
        known += batch.num_rows
        unknown.difference_update(batch.column("path").to_pylist())
    return Backlog(seen=known, waiting=known - read_up_to + len(unknown))
