"""The native sink: `df.writeStream.format("lance")`, for append and complete.

Spark runs it in three places: a planner makes the writer, tasks call `write`, and a process beside
the driver calls `commit`. They meet in the messages of the tasks and in the tables.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.types import StructType

from freshet.clock import utc_now
from freshet.errors import ContinuityError, SinkError
from freshet.events import warn
from freshet.sink.columns import VECTOR_SIZE, columns_of, conformed_batches
from freshet.sink.commit_protocol import CommitProtocol
from freshet.sink.fence import try_to_discard
from freshet.sink.lance_sink import fitting_table
from freshet.sink.leases import newest_claim
from freshet.sink.ledger import Ledger
from freshet.sink.parts_executor import Part, write_rows
from freshet.sink.prepared import Prepared
from freshet.sink.preparing import joined
from freshet.sink.spark_queries import QUERY_ID, digest
from freshet.sink.stamps import Batch
from freshet.sink.target import Mode, Target
from freshet.sink.tombstones import Tombstones
from freshet.stores import checkpoints
from freshet.stores.lance_tables import LanceTable

NAME: Final = "lance"
_OPTIONS: Final = ("path", "ledger", "pipeline", "sink", "checkpointlocation")
_SPARKS_OWN: Final = ("queryname",)
"""What `queryName` puts among a sink's options."""
_UPDATE_HINT: Final = (
    'format("lance") appends or writes complete tables; for outputMode("update") use '
    "freshet.LanceSink: df.writeStream.foreachBatch(freshet.LanceSink(path, key=…, ledger=…, "
    "pipeline=…))"
)


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one task wrote."""

    query_id: str | None
    part: Part


@dataclass(frozen=True)
class _Place:
    """Where a query writes to; the options, read and checked."""

    target: Target
    ledger: str
    checkpoint: str | None

    @classmethod
    def of(cls, options: Mapping[str, str], mode: Mode) -> "_Place":
        given = {name.lower(): value for name, value in options.items()}
        taken = {*_OPTIONS, *_SPARKS_OWN}
        unknown = [
            name for name in given if name not in taken and not name.endswith(f".{VECTOR_SIZE}")
        ]
        if unknown:
            known = f"{', '.join(_OPTIONS)}, <column>.{VECTOR_SIZE}"
            raise SinkError(f'format("lance") has no option {unknown[0]}: there are {known}')
        if "path" not in given:
            raise SinkError('format("lance") needs a place: .option("path", "…/name.lance")')
        stem = given["path"].rstrip("/").removesuffix(".lance")
        name = given.get("pipeline", stem.rsplit("/", 1)[-1])
        target = Target(given["path"], name, given.get("sink", "native"), mode, None)
        ledger = given.get("ledger", f"{stem}_ledger")
        return cls(target, ledger, given.get("checkpointlocation"))


class LanceSource(DataSource):
    """`format("lance")`.

    Guarantee: that of `LanceSink` in the modes `append` and `complete`; the query is known by the
    id that Spark keeps in its checkpoint.
    """

    @classmethod
    def name(cls) -> str:
        """What `format` is given."""
        return NAME

    def streamWriter(  # noqa: N802 - Spark's name
        self,
        schema: StructType,
        overwrite: bool,
    ) -> "LanceStreamWriter":
        """The writer of one query; Spark says `overwrite` for complete mode."""
        mode = Mode.COMPLETE if overwrite else Mode.APPEND
        return LanceStreamWriter(_Place.of(self.options, mode), _columns(schema, self.options))


class LanceStreamWriter(DataSourceStreamArrowWriter):
    """Writes data files in tasks, and commits them through the commit protocol."""

    def __init__(self, place: _Place, columns: pa.Schema) -> None:
        self._place = place
        self._columns = columns
        self._schema = _ready_table(place, columns).schema.remove_metadata()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """One partition, in a task: data files that no version names yet."""
        started, part = time.perf_counter(), Part()

        def counted() -> Iterator[pa.RecordBatch]:
            for batch in iterator:
                part.rows_in += batch.num_rows
                part.upserted += batch.num_rows
                yield batch

        table = LanceTable.open(self._place.target.uri)
        rows = conformed_batches(counted(), self._schema)
        part.fragments = write_rows(table, self._schema, rows)
        part.write_s = time.perf_counter() - started
        context = TaskContext.get()
        return Written(None if context is None else context.getLocalProperty(QUERY_ID), part)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """All partitions, beside the driver: the files take effect, once."""
        written = _of_tasks(messages)
        batch = self._batch(written, batchId)
        taken: list[Prepared] = []

        def prepare(table: LanceTable, at: Any) -> Prepared:
            prepared = joined([task.part for task in written])
            is_whole = self._place.target.mode is Mode.COMPLETE
            taken.append(replace(prepared, schema=self._schema) if is_whole else prepared)
            return taken[0]

        _protocol_of(self._place, self._columns).write(batch, prepare)
        if not taken:  # it had landed before, so these files are a second set
            self._discard(written)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """The batch failed. Files go if no commit was tried: then they surely did not land."""
        written = _of_tasks(messages)
        batch = self._batch(written, batchId)
        if written and not Ledger(self._place.ledger).has(batch):
            self._discard(written)

    def _batch(self, written: Sequence[Written], batch_id: int) -> Batch:
        target, checkpoint = self._place.target, self._place.checkpoint
        query_id = next((task.query_id for task in written if task.query_id), None)
        if query_id is None and checkpoint is not None:
            query_id = checkpoints.query_id(checkpoint)
        if query_id is None:
            raise SinkError("Spark does not tell which query a batch belongs to")
        planned = None if checkpoint is None else checkpoints.planned(checkpoint, batch_id)
        offsets = None if planned is None else digest(planned)
        return Batch(target.pipeline, target.sink, query_id, batch_id, offsets)

    def _discard(self, written: Sequence[Written]) -> None:
        fragments = [fragment for task in written for fragment in task.part.fragments]
        try_to_discard(LanceTable.open(self._place.target.uri), fragments)


class UpdateModeHint(StreamingQueryListener):
    """Says what to do where Spark only says that update mode is not supported."""

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
        """Nothing to say."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Nothing to say."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing to say."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Logs the hint if that is why the query ended."""
        if f"{NAME} does not support Update mode" in (event.exception or ""):
            warn("sink", _UPDATE_HINT)


_protocols: dict[_Place, CommitProtocol] = {}
"""One a query: Spark calls `commit` of a new writer for every batch, in one process."""


def _protocol_of(place: _Place, columns: pa.Schema) -> CommitProtocol:
    if place not in _protocols:
        _protocols[place] = CommitProtocol(
            place.target,
            create_table=lambda: fitting_table(place.target.uri, columns, key=None),
            ledger=Ledger(place.ledger),
            tombstones=Tombstones.beside(place.target.uri),
            clock=utc_now,
        )
    return _protocols[place]


def _columns(schema: StructType, options: Mapping[str, str]) -> pa.Schema:
    sizes = {
        column.name: int(options[option])
        for column in schema
        for option in options
        if option.lower() == f"{column.name}.{VECTOR_SIZE}".lower()
    }
    return columns_of(schema, sizes)


def _ready_table(place: _Place, columns: pa.Schema) -> LanceTable:
    """Tasks need the table before the first commit; one that got lost is not made again."""
    target = place.target
    if not LanceTable.exists(target.uri) and newest_claim(
        Ledger(place.ledger).leases, target.pipeline, target.sink
    ):
        raise ContinuityError(
            case="table_missing",
            table=target.uri,
            found="the table that this query has been writing is gone",
            remedy="Restore it, or build it anew: delete its ledger and the checkpoint too",
        )
    return fitting_table(target.uri, columns, key=None)


def _of_tasks(messages: list[WriterCommitMessage | None]) -> list[Written]:
    return [message for message in messages if isinstance(message, Written)]
