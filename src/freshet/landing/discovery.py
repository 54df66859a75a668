"""Which files are new, and which number each one gets.

Listing is the truth; events are a hint that makes new files known sooner. A file is known by its
path, and by size and time as well where overwritten files count, but never by "newer than": a late
file with an old date is found.

Guarantee: every ready file gets one number, whether listing, an event, two events or both tell of
it, and also after a kill at any moment. The precondition is one running discovery per files table.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from freshet.clock import utc_now
from freshet.errors import FileOverwrittenError, StoreError
from freshet.events import emit, warn
from freshet.landing.completeness import cut_off
from freshet.landing.files import FilesTable, KnownFile, Retries
from freshet.landing.known_files import EverKnown, PresentFiles, hashed
from freshet.landing.options import LandingOptions
from freshet.landing.settling import Settling
from freshet.landing.zone import Zone
from freshet.stores.file_events import FileEvents, FileHint, open_events
from freshet.stores.file_listing import FoundFile, look_at
from freshet.stores.open_files import is_open_for_writing
from freshet.stores.remote_systems import is_local
from freshet.units import seconds_of

Clock = Callable[[], datetime]
Probe = Callable[[str], None]

_EVENTS_AT_ONCE: Final = 10_000
_HELD_BACK_MOST: Final = 10_000
_REQUESTS_EVERY_S: Final = 5.0
_PAUSE_S: Final = 0.05


class Discovery:
    """Numbers new files, and remembers them in the files table.

    Memory holds 16 bytes for each known file that still lies in the landing zone, a filter of
    constant size, and the files that are being waited for.
    """

    def __init__(
        self,
        options: LandingOptions,
        *,
        clock: Clock = utc_now,
        ticks: Callable[[], float] = time.monotonic,
        probe: Probe = lambda _: None,
    ) -> None:
        self._options = options
        self._zone = Zone(options)
        self._table = FilesTable(options.state)
        self._retries = Retries(options.state)
        self._clock, self._ticks, self._probe = clock, ticks, probe
        can_be_half_written = is_local(options.path)
        self._settle_s = seconds_of(options.settle) if can_be_half_written else 0.0
        patience_s = seconds_of(options.patience) if can_be_half_written else 0.0
        self._settling = Settling(self._settle_s, patience_s, self._being_written)
        self._events: FileEvents | None = None
        self._unanswered: list[FileHint] = []
        self._present: PresentFiles | None = None
        self._ever = EverKnown()
        self._listed_at_s: float | None = None
        self._asked_at_s = float("-inf")
        self._retried: dict[int, KnownFile] = {}
        self.next_seq = 0
        """The number that the next new file gets."""
        self.newly_found: list[KnownFile] = []
        """What the last `discover` numbered."""

    @property
    def held_back(self) -> int:
        """Files that are still being written, as it seems."""
        return len(self._settling.waiting)

    def discover(self, *, how: str | None = None) -> int:
        """Looks, numbers what is new and ready, and returns the next number."""
        present = self._load() if self._present is None else self._present
        self.newly_found = []
        is_backfill = self._is_backfill_due()
        if is_backfill or self._events is None or not self._take_events(self._events):
            found = self._list(present, everything=is_backfill)
            held_back = self._held_back_files(without={file.path for file in found})
            self._number([*found, *held_back], how or "listing")
        self._serve_requests()
        return self.next_seq

    def discover_settled(self, *, how: str | None = None) -> int:
        """As `discover`, and waits a little for files that were written right before."""
        found = []
        deadline = self._ticks() + self._settle_s + 2 * _PAUSE_S
        self.discover(how=how)
        while self._settling.waiting and self._ticks() < deadline:
            found += self.newly_found
            time.sleep(_PAUSE_S)
            self.newly_found = []
            self._number(self._held_back_files(), how or "listing")
        self.newly_found = found + self.newly_found
        return self.next_seq

    def close(self) -> None:
        """Ends what runs in the background."""
        if self._events is not None:
            self._events.close()

    # --- what is known ---------------------------------------------------------------------------

    def _load(self) -> PresentFiles:
        """Reads what is known; one hash a file, until the first listing says which are here."""
        self.next_seq = self._table.next_seq()
        known = [hashed(names) for names in self._table.names(self._zone.identifies)]
        # A version that is known has a path that is, so the filter holds paths alone.
        by_path = self._zone.identifies is None
        for hashes in known if by_path else map(hashed, self._table.names()):
            self._ever.add(*hashes)
        self._retried = self._table.retries() if self.next_seq else {}
        self._present = PresentFiles.of(known)
        if self._options.discovery == "notification":
            options = self._options
            self._events = open_events(options.path, options.queue, recursive=options.recursive)
        return self._present

    def _is_backfill_due(self) -> bool:
        if self._listed_at_s is None:
            return True
        return self._ticks() - self._listed_at_s >= seconds_of(self._options.backfill_interval)

    def _list(self, present: PresentFiles, *, everything: bool) -> list[FoundFile]:
        """Files that are not known to be here; after a whole listing, forgets those that left."""
        self._listed_at_s = self._ticks() if everything else self._listed_at_s
        candidates, here = [], []
        for names, look in self._zone.pieces(everything=everything):
            unknown = present.unknown(names)
            candidates += look(unknown)
            if everything:
                here.append(present.known_among(names))
        if everything:
            self._present = PresentFiles.of(here)
        return candidates

    # --- events ----------------------------------------------------------------------------------

    def _take_events(self, events: FileEvents) -> bool:
        """Numbers what events tell of; False if they cannot be had, so that it must be listed."""
        room = _HELD_BACK_MOST - self.held_back
        try:
            hints = events.poll(min(_EVENTS_AT_ONCE, room)) if room > 0 else []
        except StoreError as error:
            warn("landing", "events_failed", error=error)
            return False
        self._unanswered += hints
        told = {hint.path: hint.etag for hint in hints if self._zone.takes(hint.path)}
        looked = self._zone.look(list(told))
        found = [replace(file, etag=told[file.path]) for file in looked]
        self._number([*found, *self._held_back_files(without=told)], "event")
        # Only what is numbered, known or gone is answered for: the rest would be told again.
        waiting = set(self._settling.waiting)
        answered = [hint for hint in self._unanswered if hint.path not in waiting]
        self._unanswered = [hint for hint in self._unanswered if hint.path in waiting]
        try:
            events.done(answered)
        except StoreError as error:
            warn("landing", "events_not_answered", error=error)
        return True

    def _held_back_files(self, without: Iterable[str] = ()) -> list[FoundFile]:
        paths = [path for path in self._settling.waiting if path not in without]
        found = self._zone.look(paths)
        for path in set(paths) - {file.path for file in found}:
            self._settling.forget(path)
        return found

    # --- numbering -------------------------------------------------------------------------------

    def _number(self, candidates: Sequence[FoundFile], how: str) -> None:
        now, now_s = self._clock(), self._ticks()
        unknown = self._really_unknown(candidates)
        ready = [file for file in unknown if self._is_ready(file, now, now_s)]
        ready.sort(key=lambda file: (file.modified_at, file.path))
        self._append(
            [
                KnownFile(
                    seq=self.next_seq + position,
                    path=file.path,
                    size=file.size,
                    modified_at=file.modified_at,
                    etag=file.etag,
                    discovered_at=now,
                    how=how,
                )
                for position, file in enumerate(ready)
            ]
        )

    def _is_ready(self, file: FoundFile, now: datetime, now_s: float) -> bool:
        return not is_local(file.path) or self._settling.is_ready(file, now, now_s)

    def _being_written(self, file: FoundFile) -> str | None:
        if is_open_for_writing(file.path):
            return "a process has it open for writing"
        return cut_off(file.path, file.size, self._options.reading)

    def _really_unknown(self, candidates: Sequence[FoundFile]) -> list[FoundFile]:
        """Asks the files table about those that may have been here before, and been moved away."""
        files = {self._zone.identity(file): file for file in candidates}
        if self._present is not None:
            files = {name: files[name] for name in self._present.unknown(list(files))}
        if not files:
            return []
        asked = self._ever.perhaps([file.path for file in files.values()])
        for known in self._table.at(sorted(set(asked))) if asked else []:
            self._meet(files, known)
        return list(files.values())

    def _meet(self, files: dict[str, FoundFile], known: KnownFile) -> None:
        """One of the candidates has a path that is known."""
        name = self._zone.identity(known)
        is_other_version = name not in files
        if not is_other_version:
            del files[name]
        elif self._options.overwrites == "refuse":
            raise FileOverwrittenError(known.path, known.seq)

    def _append(self, files: Sequence[KnownFile]) -> None:
        if not files:
            return
        self._probe("before:number")
        self._table.append(files)
        self._probe("after:number")
        self.next_seq = files[-1].seq + 1
        self.newly_found += files
        names = [self._zone.identity(file) for file in files]
        if self._present is not None:
            self._present.add(names)
        self._ever.add(*hashed([file.path for file in files]))

    # --- files that are to be read again ---------------------------------------------------------

    def _serve_requests(self) -> None:
        if self._ticks() - self._asked_at_s < _REQUESTS_EVERY_S:
            return
        self._asked_at_s = self._ticks()
        for seq, (path, at) in sorted(self._retries.asked().items()):
            last = self._retried.get(seq)
            if last is None or last.discovered_at is None or last.discovered_at < at:
                self._read_again(seq, path, last)

    def _read_again(self, seq: int, path: str, last: KnownFile | None) -> None:
        file = look_at(path)
        if file is None:
            emit("landing", "retry_impossible", path=path, reason="the file is gone")
            return
        again = KnownFile(
            seq=self.next_seq,
            path=path,
            size=file.size,
            modified_at=file.modified_at,
            etag=None,
            discovered_at=self._clock(),
            how="retry",
            retry_of=seq,
            reading=1 if last is None else last.reading + 1,
        )
        self._append([again])
        self._retried[seq] = again
