"""Questions to the files table: what waits, what was read, what is archived, gone or changed.

Looks only, and discovers nothing. Needs no Spark.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from freshet.clock import utc_now
from freshet.landing.archive import archived_path
from freshet.landing.files import (
    ARCHIVED,
    DELETED,
    READ,
    FilesHistory,
    FilesTable,
    KnownFile,
    Oldest,
    Retries,
    Step,
)
from freshet.landing.known_files import PresentFiles, hashed
from freshet.landing.options import LandingOptions
from freshet.landing.zone import Zone
from freshet.stores.file_listing import FoundFile, look_at

WAITING: Final = "waiting"
MISSING: Final = "missing"
CHANGED: Final = "changed"
SKIPPED: Final = "skipped"

STATES: Final = (WAITING, READ, ARCHIVED, DELETED, MISSING, CHANGED, SKIPPED)

_WINDOW: Final = 5_000


@dataclass(frozen=True)
class FileReport:
    """One file, and what became of it."""

    state: str
    path: str
    size: int
    modified_at: datetime | None
    seq: int | None = None
    """None: it has not been discovered yet, or is still being written."""
    how: str | None = None
    discovered_at: datetime | None = None
    batch: int | None = None
    read_at: datetime | None = None


@dataclass(frozen=True)
class Backlog:
    """Files that are known, and files that no finished batch has read yet."""

    seen: int
    waiting: int
    waiting_bytes: int
    undiscovered: Oldest
    """Those of them that landed after the first discovery and have no number yet."""


def backlog(options: LandingOptions, read_up_to: int) -> Backlog:
    """How far reading has come."""
    table = FilesTable(options.state)
    unread = table.unread(read_up_to)
    new = list(_undiscovered(options, table))
    return Backlog(
        seen=table.count(),
        waiting=unread.files + len(new),
        waiting_bytes=unread.bytes + sum(file.size for file in new),
        undiscovered=Oldest.of((file.modified_at for file in new), table.began_at()),
    )


def files(options: LandingOptions, read_up_to: int, states: Sequence[str]) -> Iterator[FileReport]:
    """Files in some states (all, if none is named), newest first; a bounded number in memory."""
    table = FilesTable(options.state)
    history = FilesHistory(options.state).steps(READ, ARCHIVED, DELETED)
    wanted = set(states or STATES)
    if WAITING in wanted:
        for new in _undiscovered(options, table):
            yield FileReport(WAITING, new.path, new.size, new.modified_at)
    end = table.next_seq()
    while end > 0:
        start = max(0, end - _WINDOW)
        for file in reversed(table.between(start, end)):
            report = _report(options, file, history, read_up_to)
            if report.state in wanted:
                yield report
        end = start


def ask_again(options: LandingOptions, wanted: Mapping[int, str]) -> list[str]:
    """Asks for files to be read again, number → path; those that are gone are left out."""
    table = FilesTable(options.state)
    history = FilesHistory(options.state).steps(ARCHIVED)
    places = dict(wanted)
    for file in table.at(sorted(set(wanted.values()))):
        if file.seq in wanted:
            places[file.seq] = place_of(options, file, history)
    there = {seq: path for seq, path in places.items() if look_at(path) is not None}
    if there:
        Retries(options.state).ask(there, utc_now())
    return sorted(there.values())


def place_of(options: LandingOptions, file: KnownFile, history: Sequence[Step]) -> str:
    """Where a file lies now, or lay last."""
    is_archived = any(step.what == ARCHIVED and step.covers(file.seq) for step in history)
    return archived_path(options, file) if is_archived else file.path


def _undiscovered(options: LandingOptions, table: FilesTable) -> Iterator[FoundFile]:
    zone = Zone(options)
    known = PresentFiles.of([hashed(names) for names in table.names(zone.identifies)])
    for names, look in zone.pieces(everything=True):
        yield from look(known.unknown(names))


def _report(
    options: LandingOptions, file: KnownFile, history: Sequence[Step], read_up_to: int
) -> FileReport:
    steps = [step for step in history if step.covers(file.seq)]
    read = next((step for step in steps if step.what == READ), None)
    return FileReport(
        state=_state(file, steps, is_read=file.seq < read_up_to),
        path=place_of(options, file, steps),
        size=file.size,
        modified_at=file.modified_at,
        seq=file.seq,
        how=file.how,
        discovered_at=file.discovered_at,
        batch=None if read is None else read.batch,
        read_at=None if read is None else read.at,
    )


def _state(file: KnownFile, steps: Sequence[Step], *, is_read: bool) -> str:
    if file.how == "existing":
        return SKIPPED
    found = look_at(file.path)
    if found is None:
        return next((step.what for step in steps if step.what != READ), MISSING)
    if is_read and not file.is_version(found):
        return CHANGED
    return READ if is_read else WAITING
