"""Folders of files copied with checksums, moved aside and removed, wherever Arrow can write."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import pyarrow as pa
import pyarrow.fs as pafs

from freshet.errors import StoreError
from freshet.stores import remote_systems

_PIECE_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Content:
    """What a file holds, told by size and SHA-256."""

    bytes: int
    sha256: str


def resolve(uri: str) -> tuple[pafs.FileSystem, str]:
    """The file system of a path or URI, and the path in it."""
    place = remote_systems.resolve(uri)
    return place.system, place.path


def make_parents(system: pafs.FileSystem, path: str) -> None:
    """The folders above a path; an object store needs none."""
    if isinstance(system, pafs.LocalFileSystem):
        system.create_dir(path.rpartition("/")[0], recursive=True)


def files_below(uri: str) -> dict[str, int]:
    """All files below a folder, by their path in it, with sizes; none if there is no folder."""
    return {path: file.bytes for path, file in dated_files_below(uri).items()}


@dataclass(frozen=True)
class DatedFile:
    """How large a file is, and when it was last changed."""

    bytes: int
    changed_at: datetime


def dated_files_below(uri: str) -> dict[str, DatedFile]:
    """All files below a folder, by their path in it; none if there is no folder."""
    system, path = resolve(uri)
    start = len(path.rstrip("/")) + 1
    return {
        info.path[start:]: DatedFile(info.size, info.mtime)
        for info in _infos_below(system, path, uri)
    }


def _infos_below(system: pafs.FileSystem, path: str, uri: str) -> list[pafs.FileInfo]:
    selector = pafs.FileSelector(path, recursive=True, allow_not_found=True)
    try:
        infos = system.get_file_info(selector)
    except OSError as error:
        raise StoreError("list", uri, error) from error
    return [info for info in infos if info.type == pafs.FileType.File]


def folders_in(uri: str) -> list[str]:
    """Names of the folders right in a folder, in order; none if there is no folder."""
    system, path = resolve(uri)
    try:
        infos = system.get_file_info(pafs.FileSelector(path, allow_not_found=True))
    except OSError as error:
        raise StoreError("list", uri, error) from error
    return sorted(info.base_name for info in infos if info.type == pafs.FileType.Directory)


def is_there(uri: str) -> bool:
    """Whether there is a file, or a folder that is not empty."""
    system, path = resolve(uri)
    try:
        kind = system.get_file_info(path).type
        if kind == pafs.FileType.Directory:
            selector = pafs.FileSelector(path, allow_not_found=True)
            return bool(system.get_file_info(selector))
    except OSError as error:
        raise StoreError("look at", uri, error) from error
    return bool(kind == pafs.FileType.File)


def free_place(uri: str) -> str:
    """The place, or one like it where nothing is yet."""
    place, number = uri, 1
    while is_there(place):
        number += 1
        place = f"{uri}-{number}"
    return place


def read(uri: str) -> bytes:
    """A small file; raises FileNotFoundError if it is gone."""
    system, path = resolve(uri)
    with system.open_input_stream(path, compression=None) as stream:
        data: bytes = stream.read()
    return data


def write(uri: str, data: bytes) -> Content:
    """A small file, with the folders that it needs."""
    system, path = resolve(uri)
    try:
        make_parents(system, path)
        with system.open_output_stream(path, compression=None) as stream:
            stream.write(data)
    except OSError as error:
        raise StoreError("write", uri, error) from error
    return Content(len(data), hashlib.sha256(data).hexdigest())


def copy(uri: str, target: str) -> Content:
    """One file, told by what was read; raises FileNotFoundError if it is gone."""
    (system, path), (other, target_path) = resolve(uri), resolve(target)
    digest, size = hashlib.sha256(), 0
    try:
        with system.open_input_stream(path, compression=None) as source:
            make_parents(other, target_path)
            with other.open_output_stream(target_path, compression=None) as copied:
                for piece in _pieces(source):
                    digest.update(piece)
                    size += len(piece)
                    copied.write(piece)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreError("copy", uri, error) from error
    return Content(size, digest.hexdigest())


def content_of(uri: str) -> Content:
    """What a file holds now; raises FileNotFoundError if it is gone."""
    system, path = resolve(uri)
    digest, size = hashlib.sha256(), 0
    with system.open_input_stream(path, compression=None) as source:
        for piece in _pieces(source):
            digest.update(piece)
            size += len(piece)
    return Content(size, digest.hexdigest())


def move_folder(uri: str, target: str, *, first: str | None = None) -> None:
    """Moves a folder to a place where nothing is.

    On a disk that is one step. An object store has no folders: its files are moved one by one, the
    `first` one before all others, and a kill on the way leaves some of them in either place.
    """
    (system, path), (_, target_path) = resolve(uri), resolve(target)
    try:
        if isinstance(system, pafs.LocalFileSystem):
            make_parents(system, target_path)
            system.move(path, target_path)
            return
        for name in sorted(files_below(uri), key=lambda name: (name != first, name)):
            system.move(f"{path}/{name}", f"{target_path}/{name}")
    except OSError as error:
        raise StoreError("move", uri, error) from error


def delete_folder(uri: str, *, first: str | None = None) -> None:
    """Removes a folder with all in it, a `first` file before all others; it may be gone already."""
    system, path = resolve(uri)
    try:
        if first is not None and system.get_file_info(f"{path}/{first}").is_file:
            system.delete_file(f"{path}/{first}")
        if system.get_file_info(path).type == pafs.FileType.Directory:
            system.delete_dir(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError("delete", uri, error) from error


def _pieces(source: pa.NativeFile) -> Iterator[bytes]:
    while piece := source.read(_PIECE_BYTES):
        yield piece
