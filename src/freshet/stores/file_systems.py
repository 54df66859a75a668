"""Files of a landing zone, on any file system that Arrow knows."""

import os
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.fs as pafs

from freshet.errors import StoreError
from freshet.stores.remote_systems import Place, is_local, resolve

COMPRESSIONS: Final = {
    ".gz": "gzip",
    ".gzip": "gzip",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".bz2": "bz2",
    ".lz4": "lz4",
}
"""How a file is compressed as a whole, by how its name ends."""


def exists_folder(uri: str) -> bool:
    """Whether a folder is there."""
    place = resolve(uri)
    try:
        return bool(place.system.get_file_info(place.path).type == pafs.FileType.Directory)
    except OSError as error:
        raise StoreError("look at", uri, error) from error


def open_file(uri: str) -> BinaryIO:
    """A file's bytes, decompressed if its name says so; raises FileNotFoundError if it is gone."""
    place = resolve(uri)
    compression = _compression_of(place.path)
    stream: BinaryIO = place.system.open_input_stream(place.path, compression=compression)
    return stream


def open_random(uri: str) -> pa.NativeFile:
    """A file for reading at any place, as Parquet needs; raises FileNotFoundError if it is gone."""
    place = resolve(uri)
    return place.system.open_input_file(place.path)


def read_text(uri: str) -> str:
    """A small file as text."""
    with open_file(uri) as stream:
        return stream.read().decode("utf-8")


def list_names(uri: str) -> list[str]:
    """Names of the files right in a folder; none if there is no folder."""
    place = resolve(uri)
    try:
        infos = place.system.get_file_info(pafs.FileSelector(place.path, allow_not_found=True))
    except OSError as error:
        raise StoreError("list", uri, error) from error
    return [info.base_name for info in infos if info.type == pafs.FileType.File]


def delete_file(uri: str) -> None:
    """Removes a file; does nothing if it is gone already."""
    place = resolve(uri)
    try:
        place.system.delete_file(place.path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError("delete", uri, error) from error


def move_file(uri: str, target: str) -> None:
    """Moves a file, making folders as needed; between two file systems it is copied first.

    A kill on the way leaves it in one of the two places, or, between file systems, in both.
    """
    source, goal = resolve(uri), resolve(target)
    try:
        if is_local(target):
            os.makedirs(os.path.dirname(goal.path), exist_ok=True)
        if source.system == goal.system and _is_same_disk(source, goal):
            source.system.move(source.path, goal.path)
            return
        beside = f"{goal.path}.part"
        pafs.copy_files(source.path, beside, source.system, goal.system)
        goal.system.move(beside, goal.path)
        source.system.delete_file(source.path)
    except OSError as error:
        raise StoreError("move", uri, error) from error


def _is_same_disk(source: Place, goal: Place) -> bool:
    if not isinstance(source.system, pafs.LocalFileSystem):
        return True
    return os.stat(source.path).st_dev == os.stat(os.path.dirname(goal.path)).st_dev


def _compression_of(path: str) -> str | None:
    endings = (ending for ending in COMPRESSIONS if path.lower().endswith(ending))
    return COMPRESSIONS.get(next(endings, ""))
