"""Word of files that may be new in a landing zone, so that not every look has to be a listing.

A hint is only that: it may come twice, too early, late or never, and a listing remains the truth.
"""

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

from watchfiles import Change
from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

from freshet.errors import SettingsError, SetupError, StoreError
from freshet.events import warn
from freshet.stores.event_messages import (
    Message,
    MessageQueue,
    NewObject,
    Zone,
    new_in_azure,
    new_in_s3,
)

_CALLS_AT_ONCE: Final = 10
_RECEIVE_S: Final = 0.4  # deleting what gave no hint may take as long again
_STEP_MS: Final = 1
_DEBOUNCE_MS: Final = 20


@dataclass(frozen=True)
class FileHint:
    """A file that may be new.

    `path` is written as a listing of the landing path writes it. `receipt` is what `done` gives
    back; None where nothing waits for an answer.
    """

    path: str
    receipt: str | None
    etag: str | None = None


class FileEvents(Protocol):
    """Hints of new files, for one caller at a time; every call may raise `StoreError`."""

    def poll(self, limit: int) -> list[FileHint]:
        """What has come since, at most about `limit`; [] if nothing; does not wait for more."""

    def done(self, hints: Sequence[FileHint]) -> None:
        """These need not be told again; a hint that is never done may be."""

    def waiting(self) -> int | None:
        """About how many messages wait; None if unknown."""

    def close(self) -> None:
        """Ends it; what has not been polled, or is not done, is not lost in a queue."""


def open_events(path: str, queue: str | None, *, recursive: bool = True) -> FileEvents:
    """The events of a landing path: of its file system, or of the queue that its store fills.

    `queue` is needed for `s3://` (the URL of an SQS queue) and for `abfss://`, `abfs://` and
    `az://` (a storage queue's URL, or its name).
    """
    scheme = urlsplit(path).scheme if "://" in path else "file"
    if scheme == "file":
        return LocalEvents(path, recursive=recursive)
    if scheme == "s3":
        name = _required(queue, "set it to the URL of the SQS queue that gets the bucket's events")
        zone = Zone.of_s3(path, recursive=recursive)
        return QueuedEvents(_sqs_queue(name), zone, new_in_s3)
    if scheme in {"abfss", "abfs", "az"}:
        name = _required(queue, "set it to the URL or name of the storage queue with the events")
        zone = Zone.of_azure(path, recursive=recursive)
        return QueuedEvents(_azure_queue(name), zone, new_in_azure)
    raise SettingsError(f"landing.path: there are no file events for {scheme}://")


def _required(queue: str | None, remedy: str) -> str:
    if not queue or not queue.strip():
        raise SettingsError(f"landing.queue is missing: {remedy}")
    return queue.strip()


def _sqs_queue(url: str) -> MessageQueue:
    try:
        from freshet.stores.sqs_events import SqsQueue  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise _lacks_extra(error, "s3") from error
    return SqsQueue(url)


def _azure_queue(queue: str) -> MessageQueue:
    try:
        from freshet.stores.azure_events import AzureQueue  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise _lacks_extra(error, "azure") from error
    return AzureQueue.open(queue)


def _lacks_extra(error: ModuleNotFoundError, extra: str) -> SetupError:
    return SetupError(f"{error.name} is not installed: run `pip install 'freshet[{extra}]'`")


class LocalEvents:
    """Hints of files that were made, written or moved in, from the file system's own events.

    Guarantee: none that may be relied on. Between two polls a set keeps each changed path once for
    each kind of change (made, written, deleted), so it is bounded by the number of paths that
    changed, not by how often. The kernel keeps 16,384 events (`fs.inotify.max_queued_events`)
    until they are taken into that set and drops further ones without a word, it knows nothing of
    what other hosts do to a network file system, and nobody hears what happens between two runs:
    all this only a listing finds.

    A new folder may fill before its watch stands, so it is looked into at once and again at the
    next poll. While the landing folder is gone, `poll` raises `StoreError`; once it is back, all
    files in it are hints. Each folder takes one of the kernel's watches.
    """

    def __init__(self, path: str, *, recursive: bool = True) -> None:
        local = unquote(urlsplit(path).path) if "://" in path else path
        self._path = path.rstrip("/")
        self._root = os.path.abspath(local)
        self._recursive = recursive
        self._pending: dict[str, None] = {}
        self._new_folders: dict[str, set[str]] = {}
        self._watcher: RustNotify | None = self._watch()

    def poll(self, limit: int) -> list[FileHint]:
        """What has changed since, in no order; takes a few milliseconds."""
        earlier, self._new_folders = self._new_folders, {}
        for change, path in self._changes():
            if os.path.isfile(path):
                self._note(path)
            elif change == Change.added and os.path.isdir(path):
                self._new_folders[path] = self._look_into(path)
        for folder, seen in earlier.items():
            self._look_into(folder, seen)
        taken = list(islice(self._pending, limit))
        for path in taken:
            del self._pending[path]
        return [FileHint(path, None) for path in taken]

    def done(self, hints: Sequence[FileHint]) -> None:
        """Nothing waits for an answer."""

    def waiting(self) -> int | None:
        """Unknown: the events wait where they cannot be counted."""
        return None

    def close(self) -> None:
        """Ends the watch; its thread and the kernel's watches go with it."""
        if self._watcher is not None:
            self._watcher.close()

    def _watch(self) -> RustNotify:
        try:
            return RustNotify([self._root], False, False, 0, self._recursive, False)
        except (OSError, WatchfilesRustInternalError) as error:
            raise StoreError("watch", self._path, error) from error

    def _changes(self) -> set[tuple[int, str]]:
        if not os.path.isdir(self._root):
            self._watcher = None
            raise StoreError("watch", self._path, "the folder is gone")
        if self._watcher is None:
            self._watcher = self._watch()
            return {(Change.added, self._root)}
        try:
            changes = self._watcher.watch(_DEBOUNCE_MS, _STEP_MS, _STEP_MS, None)
        except WatchfilesRustInternalError as error:  # it would raise the same forever
            warn("landing", "file_events_lost", path=self._path, error=error)
            self._watcher = None
            self._watcher = self._watch()
            return set()
        if changes == "signal":  # which the watcher has taken for itself
            raise KeyboardInterrupt
        if isinstance(changes, str):
            return set()
        if (Change.deleted, self._root) in changes:  # another folder may have its name by now
            self._watcher = None
            return self._changes()
        return changes

    def _look_into(self, folder: str, seen: Set[str] = frozenset()) -> set[str]:
        files = set(_files_below(folder, recursive=self._recursive))
        for path in files - seen:
            self._note(path)
        return files

    def _note(self, path: str) -> None:
        relative = os.path.relpath(path, self._root)
        if self._recursive or "/" not in relative:
            self._pending[f"{self._path}/{relative}"] = None


def _files_below(folder: str, *, recursive: bool) -> Iterator[str]:
    for parent, _, names in islice(os.walk(folder), None if recursive else 1):
        yield from (os.path.join(parent, name) for name in names)


@dataclass
class _Held:
    """A message that was told, and those of its files that are not done."""

    message: Message
    paths: set[str]


@dataclass
class _Heard:
    """What one poll has heard: hints, and messages without any."""

    hints: dict[FileHint, None] = field(default_factory=dict)
    empty: list[Message] = field(default_factory=list)
    unknown: int = 0


class QueuedEvents:
    """Hints from the queue that a store fills.

    Guarantee: a message is deleted when all the hints that it gave are done, or when it gives
    none; what is told and not done is told again when the queue shows its message again. A crash
    loses nothing of the queue. The store promises each event at least once and in no order; what
    happened before it was told to send events only a listing finds.

    A message of several files gives the same receipt to each of them. Memory holds one entry for
    each message that is told and not done.
    """

    def __init__(
        self,
        queue: MessageQueue,
        zone: Zone,
        read: Callable[[str], list[NewObject] | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queue = queue
        self._zone = zone
        self._read = read
        self._clock = clock
        self._held: dict[str, _Held] = {}
        self._threads = ThreadPoolExecutor(_CALLS_AT_ONCE, thread_name_prefix="file-events")

    def poll(self, limit: int) -> list[FileHint]:
        """What waits, in no order; what has no hint is deleted; takes less than a second."""
        heard = _Heard()
        give_up_at = self._clock() + _RECEIVE_S
        calls = 1
        while len(heard.hints) < limit and self._clock() < give_up_at:
            messages = self._receive(calls, limit - len(heard.hints))
            if not messages:
                break
            for message in messages:
                self._hear(message, heard)
            calls = min(4 * calls, _CALLS_AT_ONCE)
        if heard.unknown:
            fields = {"queue": self._queue.name, "messages": heard.unknown}
            warn("landing", "messages_not_understood", **fields)
        self._delete(heard.empty)
        return list(heard.hints)

    def done(self, hints: Sequence[FileHint]) -> None:
        """Deletes the messages of which all is done; those that would not go are told again."""
        finished = []
        for hint in hints:
            held = self._held.get(hint.receipt or "")
            if held is None:
                continue
            held.paths.discard(hint.path)
            if not held.paths:
                finished.append(self._held.pop(held.message.id).message)
        self._delete(finished)

    def waiting(self) -> int | None:
        """About how many messages wait; whether those told and not done count, the queue says."""
        return self._queue.count()

    def close(self) -> None:
        """Waits for calls under way; messages told and not done stay in the queue."""
        self._threads.shutdown()
        self._queue.close()

    def _receive(self, calls: int, wanted: int) -> list[Message]:
        most = min(self._queue.receive_most, wanted)
        needed = math.ceil(wanted / most)
        batches = self._threads.map(self._queue.receive, [most] * min(calls, needed))
        return [message for batch in batches for message in batch]

    def _hear(self, message: Message, heard: _Heard) -> None:
        new = self._read(message.body)
        heard.unknown += new is None
        found = {path: item.etag for item in new or [] if (path := self._zone.path_of(item))}
        if not found:
            heard.empty.append(message)
            return
        held = self._held.get(message.id)
        paths = held.paths if held else set(found)
        self._held[message.id] = _Held(message, paths)
        hints = (FileHint(path, message.id, etag) for path, etag in found.items() if path in paths)
        heard.hints |= dict.fromkeys(hints)

    def _delete(self, messages: Sequence[Message]) -> None:
        size = self._queue.delete_most
        batches = [messages[start : start + size] for start in range(0, len(messages), size)]
        kept = [
            reason
            for reasons in self._threads.map(self._queue.delete, batches)
            for reason in reasons
        ]
        if kept:
            fields = {"queue": self._queue.name, "messages": len(kept), "reason": kept[0]}
            warn("landing", "messages_not_deleted", **fields)
