"""What lies below a folder, told folder by folder: several at once, and as little as is asked for.

A local folder is read without a look at its files: of a hundred thousand names that are known, none
needs one. Other stores tell size and time with the name, so there they cost nothing.
"""

import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.fs as pafs

from freshet.errors import StoreError
from freshet.stores.remote_systems import Place, is_local, resolve

_FOLDERS_AT_ONCE: Final = 8
_LOOKS_AT_ONCE: Final = 16
_GRAIN_NS: Final = 2_000_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class FoundFile:
    """A file as a listing shows it."""

    path: str
    size: int
    modified_at: datetime
    etag: str | None = None


@dataclass(frozen=True)
class Listed:
    """What is right in one folder."""

    folder: str
    names: Sequence[str]
    """Files."""
    folders: Sequence[str]
    """Names of sub-folders."""
    found: Sequence[FoundFile] | None
    """The same files with size and time, where the store told them with their names."""


@dataclass(frozen=True)
class Seen:
    """A local folder at the last look: nothing was added to it as long as its time is the same."""

    changed_at_ns: int
    folders: Sequence[str]


def walk(
    uri: str,
    *,
    recursive: bool = True,
    enters: Callable[[str], bool] = lambda _: True,
    seen: dict[str, Seen] | None = None,
) -> Iterator[Listed]:
    """Lists a folder and all below it that `enters` (given a path) lets in; upper levels first.

    With `seen`, which is kept up to date, local folders to which nothing was added since are not
    listed again and show no files. A folder that vanishes on the way is as if it had not been
    there; `StoreError` if the uppermost one cannot be listed.
    """
    local = partial(_list_local, {} if seen is None else seen)
    list_folder: Callable[[str], Listed] = local if is_local(uri) else _list_remote
    level = [uri.rstrip("/")]
    with ThreadPoolExecutor(_FOLDERS_AT_ONCE, thread_name_prefix="listing") as pool:
        is_top = True
        while level:
            below: list[str] = []
            listings = (
                [list_folder(level[0])] if is_top else pool.map(_leniently(list_folder), level)
            )
            for listed in listings:
                yield listed
                paths = (f"{listed.folder}/{name}" for name in listed.folders if recursive)
                below += [path for path in paths if enters(path)]
            level, is_top = below, False


def look_at(path: str) -> FoundFile | None:
    """A file as it is now; None if it is gone, or is no file."""
    try:
        return _look_local(path) if is_local(path) else _look_remote(path)
    except FileNotFoundError:
        return None
    except (OSError, pa.ArrowException) as error:
        raise StoreError("look at", path, error) from error


def look_at_all(paths: Sequence[str]) -> list[FoundFile | None]:
    """Files as they are now, in their order; where each look takes its time, many at once."""
    if len(paths) < 2 or is_local(paths[0]):
        return [look_at(path) for path in paths]
    with ThreadPoolExecutor(_LOOKS_AT_ONCE) as pool:
        return list(pool.map(look_at, paths))


def _look_local(path: str) -> FoundFile | None:
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        return None
    return FoundFile(path, found.st_size, _time_of(found.st_mtime_ns))


def _look_remote(uri: str) -> FoundFile | None:
    place = resolve(uri)
    return _found(place, place.system.get_file_info(place.path))


def _list_local(seen: dict[str, Seen], folder: str) -> Listed:
    names: list[str] = []
    folders: list[str] = []
    try:
        changed_at_ns = os.stat(folder or "/").st_mtime_ns
        last = seen.get(folder)
        if last is not None and last.changed_at_ns == changed_at_ns:
            return Listed(folder, names, last.folders, None)
        now_ns = time.time_ns()
        with os.scandir(folder or "/") as entries:
            for entry in entries:
                (folders if entry.is_dir() else names).append(entry.name)
    except OSError as error:
        raise StoreError("list", folder, error) from error
    # What comes within the grain of the clock would not change the folder's time again.
    if now_ns - changed_at_ns > _GRAIN_NS:
        seen[folder] = Seen(changed_at_ns, folders)
    return Listed(folder, names, folders, None)


def _list_remote(folder: str) -> Listed:
    place = resolve(folder)
    try:
        infos = place.system.get_file_info(pafs.FileSelector(place.path))
    except (OSError, pa.ArrowException) as error:
        raise StoreError("list", folder, error) from error
    found = [file for info in infos if (file := _found(place, info)) is not None]
    folders = [info.base_name for info in infos if info.type == pafs.FileType.Directory]
    return Listed(folder, [file.path.rpartition("/")[2] for file in found], folders, found)


def _found(place: Place, info: pafs.FileInfo) -> FoundFile | None:
    if info.type != pafs.FileType.File:
        return None
    return FoundFile(place.address(info.path), info.size, _time_of(info.mtime_ns or 0))


def _leniently(list_folder: Callable[[str], Listed]) -> Callable[[str], Listed]:
    def lenient(folder: str) -> Listed:
        try:
            return list_folder(folder)
        except StoreError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return Listed(folder, [], [], None)
            raise

    return lenient


def _time_of(nanoseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=nanoseconds // 1_000)
