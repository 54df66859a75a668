"""Checkpoints of streaming queries, read and written without Spark.

A checkpoint is `metadata` (the query's id), `offsets/N` (where batch N ends, written before it is
run) and `commits/N` (written after it). Spark goes on from the newest of each; the older ones are
of no use to it. Locally, Hadoop keeps checksums in hidden files beside them.
"""

import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

from freshet.stores import copies, file_systems

METADATA: Final = "metadata"
OFFSETS: Final = "offsets"
COMMITS: Final = "commits"
_VERSION: Final = "v1"
_NOTHING_YET: Final = "-"
_CRC_HEADER: Final = struct.Struct(">4sI")


@dataclass(frozen=True)
class Planned:
    """A batch as it was written down before it was run."""

    end: str
    """Where it ends, as its (first) source writes it."""
    at: datetime
    is_by_spark: bool = True
    """False: it was made by `contents`."""


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint says, and what is wrong with it."""

    query_id: str | None = None
    planned: Sequence[int] = ()
    committed: Sequence[int] = ()
    batches: Mapping[int, Planned] = field(default_factory=dict)
    """Those that were read: the newest two, or all."""
    problems: Sequence[str] = ()
    """Why Spark could not go on from it, or not from where it stood."""
    flaws: Sequence[str] = ()
    """What is wrong with older batches, which Spark does not look at any more."""

    @property
    def is_there(self) -> bool:
        """Whether there is anything at all."""
        return bool(self.query_id or self.planned or self.committed or self.problems)

    @property
    def newest(self) -> int | None:
        """The newest planned batch."""
        return self.planned[-1] if self.planned else None

    @property
    def newest_commit(self) -> int | None:
        """The newest finished batch."""
        return self.committed[-1] if self.committed else None

    @property
    def newest_plan(self) -> Planned | None:
        """The newest batch, if it can be read."""
        return None if self.newest is None else self.batches.get(self.newest)

    def end(self, batch_id: int | None) -> Any | None:
        """Where a batch ends in its first source; None if it was not read."""
        batch = None if batch_id is None else self.batches.get(batch_id)
        return None if batch is None or batch.end == _NOTHING_YET else json.loads(batch.end)


class _UnreadableError(Exception):
    """A file of a checkpoint is not what Spark writes."""


# --- reading -----------------------------------------------------------------------------------


def read(uri: str, *, thoroughly: bool = False) -> Checkpoint:
    """What Spark would find; `thoroughly` reads all batches and not only the newest."""
    offsets, commits = _numbers(f"{uri}/{OFFSETS}"), _numbers(f"{uri}/{COMMITS}")
    query, problems = _query(uri, has_batches=bool(offsets or commits))
    problems += _out_of_step(offsets, commits)
    flaws = [*_gaps(OFFSETS, offsets), *_gaps(COMMITS, commits)] if thoroughly else []
    batches: dict[int, Planned] = {}
    for number in offsets if thoroughly else offsets[-2:]:
        with _noted(problems if number in offsets[-2:] else flaws):
            batches[number] = _planned(f"{uri}/{OFFSETS}", number)
    for number in commits if thoroughly else commits[-1:]:
        with _noted(problems if number == commits[-1] else flaws):
            _lines(f"{uri}/{COMMITS}", str(number))
    return Checkpoint(query, offsets, commits, batches, problems, flaws)


@contextmanager
def _noted(sentences: list[str]) -> Iterator[None]:
    try:
        yield
    except _UnreadableError as error:
        sentences.append(str(error))


def _query(uri: str, *, has_batches: bool) -> tuple[str | None, list[str]]:
    if METADATA not in file_systems.list_names(uri):
        return None, ["there are batches, but no metadata"] if has_batches else []
    try:
        return str(json.loads(_text(uri, METADATA))["id"]), []
    except (_UnreadableError, ValueError, LookupError, TypeError):
        return None, ["metadata cannot be read"]


def _out_of_step(offsets: Sequence[int], commits: Sequence[int]) -> list[str]:
    newest = offsets[-1] if offsets else -1
    finished = commits[-1] if commits else -1
    if finished > newest:
        return [f"batch {finished} is finished, but was never planned"]
    if newest > finished + 1:
        return [f"batch {newest} is planned, but batch {newest - 1} is not finished"]
    if newest > 0 and newest - 1 not in offsets[-2:]:
        return [f"{OFFSETS}/{newest - 1} is missing"]
    return []


def _gaps(name: str, numbers: Sequence[int]) -> Iterator[str]:
    for before, after in pairwise(numbers):
        if after != before + 1:
            yield f"{name} has a gap between {before} and {after}"


def _planned(folder: str, number: int) -> Planned:
    lines = _lines(folder, str(number))
    try:
        about = json.loads(lines[1])
        at = datetime.fromtimestamp(about["batchTimestampMs"] / 1000, UTC)
        end = lines[2]
        _ = end == _NOTHING_YET or json.loads(end)
        return Planned(end, at, bool(about.get("conf")))
    except (ValueError, LookupError, TypeError):
        raise _UnreadableError(f"{OFFSETS}/{number} is cut off or damaged") from None


def _lines(folder: str, name: str) -> list[str]:
    lines = _text(folder, name).split("\n")
    place = f"{folder.rpartition('/')[2]}/{name}"
    if len(lines) < 2 or not lines[1]:
        raise _UnreadableError(f"{place} is cut off or damaged")
    if lines[0] != _VERSION:
        raise _UnreadableError(f"{place} is of the unknown version {lines[0][:10]!r}")
    return lines


def _text(folder: str, name: str) -> str:
    place = f"{folder.rpartition('/')[2]}/{name}"
    try:
        data = copies.read(f"{folder}/{name}")
        if not _fits_checksum(data, f"{folder}/.{name}.crc"):
            raise _UnreadableError(f"{place} does not fit its checksum")
        return data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _UnreadableError(f"{place} cannot be read: {error}") from error


def _fits_checksum(data: bytes, crc_uri: str) -> bool:
    """Whether a file is as Hadoop wrote it; true where it keeps no checksums."""
    try:
        kept = copies.read(crc_uri)
    except FileNotFoundError:
        return True
    if len(kept) < _CRC_HEADER.size:
        return False
    _, piece = _CRC_HEADER.unpack_from(kept)
    sums = [zlib.crc32(data[at : at + piece]) for at in range(0, len(data), piece)]
    return kept[_CRC_HEADER.size :] == struct.pack(f">{len(sums)}I", *sums)


def _numbers(folder: str) -> list[int]:
    return sorted(int(name) for name in file_systems.list_names(folder) if name.isdigit())


# --- writing -----------------------------------------------------------------------------------


def contents(query_id: str, batch_id: int, end: str, at: datetime) -> Iterator[tuple[str, bytes]]:
    """The files of a checkpoint whose newest batch is finished and ends there; `metadata` last.

    Without it the others count for nothing, so a copy that was interrupted is seen for what it is.
    """
    planned_at = int(at.timestamp() * 1000)
    about = {"batchWatermarkMs": 0, "batchTimestampMs": planned_at, "conf": {}}
    offsets = f"{_VERSION}\n{json.dumps(about)}\n{end}".encode()
    # Spark wants the batch before the newest one, too.
    for number in range(max(0, batch_id - 1), batch_id + 1):
        yield f"{OFFSETS}/{number}", offsets
    yield f"{COMMITS}/{batch_id}", f'{_VERSION}\n{{"nextBatchWatermarkMs":0}}'.encode()
    yield METADATA, json.dumps({"id": query_id}).encode()


# --- questions of others -----------------------------------------------------------------------


def query_id(checkpoint: str) -> str | None:
    """The id that Spark gave the query of this checkpoint; None if it never started."""
    if METADATA not in file_systems.list_names(checkpoint):
        return None
    value: str = json.loads(file_systems.read_text(f"{checkpoint}/{METADATA}"))["id"]
    return value


def planned(checkpoint: str, batch_id: int) -> str | None:
    """When a batch was planned and where it ends in its sources; None if it never was."""
    if str(batch_id) not in file_systems.list_names(f"{checkpoint}/{OFFSETS}"):
        return None
    _, metadata, *ends = file_systems.read_text(f"{checkpoint}/{OFFSETS}/{batch_id}").split("\n")
    return f"{json.loads(metadata)['batchTimestampMs']} {ends}"


def committed_offset(checkpoint: str) -> Any | None:
    """Where the newest finished batch ended, as its (first) source writes it; None before any."""
    done = _numbers(f"{checkpoint}/{COMMITS}")
    if not done:
        return None
    # An offset file is a version, the batch's metadata, and then one line a source.
    lines = file_systems.read_text(f"{checkpoint}/{OFFSETS}/{max(done)}").split("\n")
    return json.loads(lines[2])
