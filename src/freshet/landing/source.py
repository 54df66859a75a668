"""The streaming data source `format("landing")`: files in, one row a record out.

Guarantee: every ready file below the path is read exactly once per checkpoint, in order of
discovery, however often the query is stopped or killed: an offset is a discovery number, and the
files table, written before any offset is, says for ever which file has which number. A crash
may leave files discovered but not yet read; the next batch reads them. The precondition is one
running query per files table.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from heapq import heappop, heappush
from os import cpu_count
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from freshet import schemas
from freshet.errors import SettingsError
from freshet.landing.discovery import Discovery, files_table
from freshet.landing.records_executor import read_records

FORMATS: Final = ("json", "csv", "parquet")


@dataclass(frozen=True)
class LandingOptions:
    """The options of the source, checked."""

    path: str
    state: str
    format: str = "json"
    max_files_per_trigger: int = 1_000
    parallelism: int = 0

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "LandingOptions":
        """Options as Spark hands them over, all strings; unknown ones are errors."""
        names = [field.name for field in fields(cls)]
        for name in options:
            if name.lower() not in names:
                raise SettingsError(f'unknown option "{name}"; known are {", ".join(names)}')
        for name in ("path", "state"):
            if not options.get(name):
                raise SettingsError(f'the option "{name}" is missing')
        values: dict[str, Any] = {name.lower(): value for name, value in options.items()}
        for name in ("max_files_per_trigger", "parallelism"):
            if name in values:
                values[name] = _whole_number(name, values[name])
        return cls(**values)._checked()

    def _checked(self) -> "LandingOptions":
        if self.format not in FORMATS:
            raise SettingsError(f'the format "{self.format}" is not one of {", ".join(FORMATS)}')
        return self


def _whole_number(name: str, value: str) -> int:
    if not value.isdigit() or int(value) < 1:
        raise SettingsError(f'the option "{name}" must be a whole number above 0, not "{value}"')
    return int(value)


@dataclass(frozen=True)
class NumberedFile:
    """A file of a batch."""

    seq: int
    path: str
    size: int
    modified_at: datetime


class FilesPartition(InputPartition):
    """Files that one task reads."""

    def __init__(self, files: Sequence[NumberedFile]) -> None:
        self.files = tuple(files)


class LandingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in the driver's reader process; `read` runs on executors and keeps no state."""

    def __init__(self, options: LandingOptions) -> None:
        self._options = options
        self._discovery = Discovery(options.path, options.state)
        self._target: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Before the first file."""
        return {"seq": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Admission by number of files."""
        return ReadMaxFiles(self._options.max_files_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Files that land after this moment belong to the next run."""
        self._target = self._discovery.discover()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Discovers, and ends the batch at the limit."""
        newest = self._discovery.discover() if self._target is None else self._target
        if isinstance(limit, ReadMaxFiles):
            newest = min(newest, start["seq"] + limit.max_files)
        return {"seq": max(newest, start["seq"])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """The batch's files, spread over tasks by size; always the same for the same offsets."""
        table = files_table(self._options.state)
        numbers = f"seq >= {start['seq']} AND seq < {end['seq']}"
        rows = table.read(["seq", "path", "size", "modified_at"], numbers)
        files = [NumberedFile(**row) for row in sorted(rows, key=lambda row: row["seq"])]
        tasks = self._options.parallelism or cpu_count() or 1
        return [FilesPartition(group) for group in spread(files, tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a partition's files."""
        for file in partition.files:  # type: ignore[attr-defined]
            for batch in read_records(file.path, self._options.format):
                yield _with_origin(batch, file)

    def commit(self, end: dict[str, int]) -> None:
        """Nothing to forget: the files table keeps every file."""


class LandingSource(DataSource):
    """`spark.readStream.format("landing")`; see the module's guarantee."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "landing"

    def schema(self) -> str:
        """One row a record."""
        return schemas.spark_ddl(schemas.LANDING)

    def streamReader(self, schema: StructType) -> LandingReader:  # noqa: N802 - Spark's name
        """The reader of one query."""
        return LandingReader(LandingOptions.parse(self.options))


def spread(files: Sequence[NumberedFile], tasks: int) -> list[list[NumberedFile]]:
    """Largest first onto the least loaded task; no empty tasks."""
    groups: list[list[NumberedFile]] = [[] for _ in range(min(tasks, len(files)))]
    loads: list[tuple[int, int]] = [(0, number) for number in range(len(groups))]
    for file in sorted(files, key=lambda file: -file.size):
        load, number = heappop(loads)
        groups[number].append(file)
        heappush(loads, (load + file.size, number))
    return groups


def _with_origin(batch: pa.RecordBatch, file: NumberedFile) -> pa.RecordBatch:
    origin = {
        "file": pa.repeat(pa.scalar(file.path, pa.string()), batch.num_rows),
        "seq": pa.repeat(pa.scalar(file.seq, pa.int64()), batch.num_rows),
        "modified_at": pa.repeat(pa.scalar(file.modified_at, schemas.UTC_TIME), batch.num_rows),
    }
    columns = {name: batch.column(name) for name in ("record", "row", "error")} | origin
    return pa.RecordBatch.from_arrays(
        [columns[field.name] for field in schemas.LANDING], schema=schemas.LANDING
    )
