"""What becomes of a file after it was read: it stays, is moved to an archive, or is deleted.

Guarantee: a file is moved away only after the batch that read it is committed, after its retention,
and only if it is still the file that was read: one that changed since stays where it is. A kill on
the way leaves a file in its place or in the archive, and the next step goes on there.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from freshet.events import emit
from freshet.landing.files import ARCHIVED, DELETED, READ, FilesHistory, FilesTable, KnownFile, Step
from freshet.landing.options import LandingOptions
from freshet.stores import file_systems
from freshet.stores.file_listing import look_at
from freshet.units import seconds_of

_FILES_A_STEP: Final = 500
"""A step runs between two batches, so it must be short."""


class Archive:
    """Moves read files away, some after each batch."""

    def __init__(
        self,
        options: LandingOptions,
        history: FilesHistory,
        probe: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._options = options
        self._table = FilesTable(options.state)
        self._history = history
        self._probe = probe
        self._retention = timedelta(seconds=seconds_of(options.retention))
        self._next: int | None = None
        self._read: list[Step] = []

    def read_up_to(self, step: Step) -> None:
        """A batch was committed."""
        if self._options.after_read != "keep":
            self._read.append(step)

    def step(self, now: datetime) -> None:
        """Moves away what is due, a bounded number of files."""
        if self._options.after_read == "keep":
            return
        start = self._load() if self._next is None else self._next
        end = min(self._due(start, now), start + _FILES_A_STEP)
        files = self._table.between(start, end) if end > start else []
        self._next = end
        if not files:
            return
        for file in files:
            if file.retry_of is None and file.how != "existing":
                self._move_away(file)
        self._probe("before:history")
        what = ARCHIVED if self._options.after_read == "archive" else DELETED
        place = self._options.archive_path if what == ARCHIVED else None
        self._history.append(Step(what, start, end, None, now, place))
        self._read = [step for step in self._read if step.end_seq > end]

    def _load(self) -> int:
        gone = self._history.steps(ARCHIVED, DELETED)
        start = max((step.end_seq for step in gone), default=0)
        read = [step for step in self._history.steps(READ) if step.end_seq > start]
        self._read = read + [step for step in self._read if step not in read]
        return start

    def _due(self, start: int, now: datetime) -> int:
        """The first number that is not due yet."""
        due = (step.end_seq for step in self._read if now - step.at >= self._retention)
        return max(due, default=start)

    def _move_away(self, file: KnownFile) -> None:
        found = look_at(file.path)
        if found is None:
            return
        if not file.is_version(found):
            emit("landing", "changed_file_kept", path=file.path, seq=file.seq)
            return
        self._probe("before:move")
        if self._options.after_read == "delete":
            file_systems.delete_file(file.path)
        else:
            file_systems.move_file(file.path, archived_path(self._options, file))
        self._probe("after:move")


def archived_path(options: LandingOptions, file: KnownFile) -> str:
    """Where a file lies after it was archived: the same path below the archive.

    Where overwritten files are read again, several versions of one path are kept, by their numbers.
    """
    relative = file.path[len(options.path.rstrip("/")) + 1 :]
    version = f".{file.seq}" if options.identifies_versions else ""
    return f"{(options.archive_path or '').rstrip('/')}/{relative}{version}"
