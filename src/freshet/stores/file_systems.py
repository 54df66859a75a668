"""Files of a landing zone, on any file system that Arrow knows."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import BinaryIO

import pyarrow as pa
import pyarrow.fs as pafs

from freshet.errors import StoreError

_NOT_READY = (".", "_")


@dataclass(frozen=True)
class FoundFile:
    """A file as a listing shows it."""

    path: str
    size: int
    modified_at: datetime


def exists_folder(uri: str) -> bool:
    """Whether a folder is there."""
    system, path = _resolve(uri)
    return bool(system.get_file_info(path).type == pafs.FileType.Directory)


def list_files(uri: str) -> Iterator[FoundFile]:
    """All files below a folder, in no order; names that begin with `.` or `_` are not ready yet.

    A folder so named hides everything below it, as it does for Spark.
    """
    system, path = _resolve(uri)
    prefix = uri[: len(uri) - len(path)] if "://" in uri else ""
    try:
        infos = system.get_file_info(pafs.FileSelector(path, recursive=True))
    except OSError as error:
        raise StoreError("list", uri, error) from error
    for info in infos:
        if info.type == pafs.FileType.File and _is_ready(info.path[len(path) :]):
            yield FoundFile(prefix + info.path, info.size, _time_of(info))


def open_file(uri: str) -> BinaryIO:
    """A file's bytes, decompressed if its name says so; raises FileNotFoundError if it is gone."""
    system, path = _resolve(uri)
    stream: BinaryIO = system.open_input_stream(path, compression=_compression_of(path))
    return stream


def open_random(uri: str) -> pa.NativeFile:
    """A file for reading at any place, as Parquet needs; raises FileNotFoundError if it is gone."""
    system, path = _resolve(uri)
    return system.open_input_file(path)


def read_text(uri: str) -> str:
    """A small file as text."""
    with open_file(uri) as stream:
        return stream.read().decode("utf-8")


def list_names(uri: str) -> list[str]:
    """Names of the files right in a folder; none if there is no folder."""
    system, path = _resolve(uri)
    infos = system.get_file_info(pafs.FileSelector(path, allow_not_found=True))
    return [info.base_name for info in infos if info.type == pafs.FileType.File]


def delete_file(uri: str) -> None:
    """Removes a file; does nothing if it is gone already."""
    system, path = _resolve(uri)
    try:
        system.delete_file(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError("delete", uri, error) from error


def _resolve(uri: str) -> tuple[pafs.FileSystem, str]:
    if "://" not in uri:
        return pafs.LocalFileSystem(), uri
    system, path = pafs.FileSystem.from_uri(uri)
    return system, path


def _is_ready(relative: str) -> bool:
    return not any(part.startswith(_NOT_READY) for part in relative.split("/") if part)


def _compression_of(path: str) -> str | None:
    return "gzip" if path.endswith(".gz") else None


def _time_of(info: pafs.FileInfo) -> datetime:
    return datetime.fromtimestamp(info.mtime_ns / 1e9, UTC)
