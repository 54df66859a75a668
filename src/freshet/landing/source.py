"""The streaming data source `format("landing")`: files in, one row a record out.

Guarantee: every ready file below the path is read exactly once per checkpoint, in order of
discovery, however often the query is stopped or killed: an offset is a discovery number, and the
files table, written before any offset is, says for ever which file has which number. A crash
may leave files discovered but not yet read; the next batch reads them. A file that changes while it
is read makes its task fail, so that Spark reads it again: never half of each. The precondition is
one running query per files table.
"""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from os import cpu_count

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from freshet import schemas
from freshet.clock import utc_now
from freshet.errors import FileChangedError
from freshet.landing.admission import Admission
from freshet.landing.archive import Archive
from freshet.landing.discovery import Discovery
from freshet.landing.files import READ, FilesHistory, FilesTable, KnownFile, Step
from freshet.landing.options import LandingOptions
from freshet.landing.read_options import ReadOptions
from freshet.landing.records_executor import read_records
from freshet.stores.file_listing import look_at

Offset = dict[str, int]
"""`seq`: the first file that is not read; `batch`: how many batches came before it."""


class FilesPartition(InputPartition):
    """Files that one task reads."""

    def __init__(self, files: Sequence[KnownFile]) -> None:
        self.files = tuple(files)


class LandingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in the driver's reader process; `read` runs on executors and keeps no state."""

    def __init__(self, options: LandingOptions) -> None:
        self._options = options
        self._discovery = Discovery(options)
        self._admission = Admission(options)
        self._history = FilesHistory(options.state)
        self._archive = Archive(options, self._history)
        self._target: int | None = None
        self._read_up_to: int | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Before the first file, or after those that are there already and do not count."""
        table = FilesTable(self._options.state)
        if not self._options.include_existing and table.is_made_now():
            self._discovery.discover_settled(how="existing")
        return {"seq": table.existing(), "batch": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Admission by number of files; the limit in bytes is kept besides."""
        return ReadMaxFiles(self._options.max_files_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Files that land after this moment belong to the next run."""
        self._target = self._discovery.discover_settled()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Discovers, and ends the batch at the limits.

        Spark asks for the next batch only when all before `start` are committed.
        """
        self.commit(start)
        newest = self._discovery.discover() if self._target is None else self._target
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        end = self._admission.end(start["seq"], newest, most, self._discovery.newly_found)
        self._discovery.newly_found = []
        if end == start["seq"]:
            return start
        return {"seq": end, "batch": start.get("batch", 0) + 1}

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """What waits, for Spark's progress: files and bytes that no batch has been given yet."""
        waiting = self._admission.waiting
        return {
            "seq": self._discovery.next_seq,
            "files_waiting": waiting.files,
            "bytes_waiting": waiting.bytes,
            "files_being_written": self._discovery.held_back,
        }

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The batch's files, spread over tasks by size; always the same for the same offsets."""
        files = self._admission.files(start["seq"], end["seq"])
        tasks = self._options.parallelism or cpu_count() or 1
        return [FilesPartition(group) for group in spread(files, tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a partition's files."""
        rereads = self._options.overwrites == "reread"
        for file in partition.files:  # type: ignore[attr-defined]
            yield from read_file(file, self._options.reading, rereads=rereads)

    def commit(self, end: Offset) -> None:
        """Notes that a batch is committed, and moves away what is due."""
        if end["seq"] > self._noted():
            step = Step(READ, self._noted(), end["seq"], end.get("batch", 1) - 1, utc_now())
            self._history.append(step)
            self._archive.read_up_to(step)
            self._read_up_to = end["seq"]
        self._archive.step(utc_now())

    def stop(self) -> None:
        """Ends what runs in the background."""
        self._discovery.close()

    def _noted(self) -> int:
        if self._read_up_to is None:
            steps = self._history.steps(READ)
            existing = FilesTable(self._options.state).existing()
            self._read_up_to = max((step.end_seq for step in steps), default=existing)
        return self._read_up_to


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


def read_file(
    file: KnownFile, options: ReadOptions, *, rereads: bool = False
) -> Iterator[pa.RecordBatch]:
    """The records of one file with where they are from; all of one version of the file.

    A version that was overwritten before it could be read has a number of its own where overwritten
    files are read again (`rereads`), so that this one then gives nothing.
    """
    before = look_at(file.path)
    if rereads and before is not None and not file.is_version(before):
        return
    for batch in read_records(file.path, options):
        yield _with_origin(batch, file)
    if look_at(file.path) != before:
        raise FileChangedError(file.path)


def spread(files: Sequence[KnownFile], tasks: int) -> list[list[KnownFile]]:
    """Largest first onto the least loaded task; no empty tasks."""
    groups: list[list[KnownFile]] = [[] for _ in range(min(tasks, len(files)))]
    loads: list[tuple[int, int]] = [(0, number) for number in range(len(groups))]
    for file in sorted(files, key=lambda file: -(file.size or 0)):
        load, number = heappop(loads)
        groups[number].append(file)
        heappush(loads, (load + (file.size or 0), number))
    return groups


def _with_origin(batch: pa.RecordBatch, file: KnownFile) -> pa.RecordBatch:
    values = {
        "file": pa.scalar(file.path, pa.string()),
        "seq": pa.scalar(file.arrival, pa.int64()),
        "modified_at": pa.scalar(file.modified_at, schemas.UTC_TIME),
        "reading": pa.scalar(file.reading, pa.int64()),
    }
    origin = {name: pa.repeat(value, batch.num_rows) for name, value in values.items()}
    columns = {name: batch.column(name) for name in ("record", "row", "error")} | origin
    return pa.RecordBatch.from_arrays(
        [columns[field.name] for field in schemas.LANDING], schema=schemas.LANDING
    )
