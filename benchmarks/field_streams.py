"""Streams of one rival: started, watched batch by batch, and ended where they may end."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Event
from typing import Any

import lance
from lance import Session
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.listener import StreamingQueryListener

from field_rivals import Place, Rival, Write
from field_samples import Sample
from freshet.errors import StoreError
from freshet.stores.remote_systems import resolve

POLL_S = 0.02
LEAST_BATCHES = 6
"""A turn writes so many, whatever its time: or it would have no figures."""
LONGEST_WAIT_S = 60.0
_LAST_VERSION = (1 << 64) - 1
_VECTOR = "array_repeat(CAST(rand() AS FLOAT), {dimension})"

OnSample = Callable[[Sample], None]


class EnoughError(Exception):
    """A turn is over: the batch that would come next is not begun."""


@dataclass(frozen=True)
class Source:
    """Rows as #399 makes them: a number, and the number as text."""

    rows: int
    """A batch, or a second."""
    is_per_batch: bool
    """Batches of equal size, as fast as they are taken; else so many rows a second."""
    partitions: int | None = None
    """Tasks of a batch; unset: Spark's own, one a core."""
    dimension: int = 0

    def frame(self, spark: SparkSession) -> DataFrame:
        """The stream."""
        name = "rate-micro-batch" if self.is_per_batch else "rate"
        reader = spark.readStream.format(name)
        if self.partitions is not None:
            reader = reader.option("numPartitions", self.partitions)
        size = "rowsPerBatch" if self.is_per_batch else "rowsPerSecond"
        columns = ["CAST(value AS LONG) id", "CAST(value AS STRING) value"]
        if self.dimension:
            columns.append(f"{_VECTOR.format(dimension=self.dimension)} vector")
        return reader.option(size, self.rows).load().selectExpr(*columns)


@dataclass(frozen=True)
class Look:
    """What a table is at one moment; -1 where that cannot be known."""

    fragment_count: int = -1
    lance_version: int = -1
    manifest_bytes: int = -1


class Looker:
    """Looks at one table, in a thread of its own, so that no batch waits for it."""

    def __init__(self, uri: str | None) -> None:
        self._uri = uri
        self._session = Session()
        self._thread = ThreadPoolExecutor(1, "look")
        self._looks: dict[int, Future[Look]] = {}

    def ask(self, batch_id: int) -> None:
        """Looks once for a batch, soon."""
        if batch_id not in self._looks:
            self._looks[batch_id] = self._thread.submit(self._look)

    def look(self, batch_id: int) -> Look:
        """What was found for a batch; if nobody has asked yet, what is there now."""
        self.ask(batch_id)
        return self._looks.pop(batch_id).result()

    def _look(self) -> Look:
        if self._uri is None:
            return Look()
        try:
            table = lance.dataset(self._uri, session=self._session)
            fragments = table.stats.dataset_stats()["num_fragments"]
            return Look(fragments, table.version, manifest_bytes(self._uri, table.version))
        except (OSError, ValueError):  # the version may have been cleaned away meanwhile
            return Look()


class _Listener(StreamingQueryListener):
    """Notes a sample of each batch of the query that starts while it listens."""

    def __init__(self, sample: Sample, looker: Looker, note: OnSample) -> None:
        self._sample, self._looker, self._note = sample, looker, note
        self._run = ""

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
        """Told before any progress is."""
        self._run = str(event.runId)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing to note."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Nothing to note."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """One batch has ended."""
        progress = event.progress
        if str(progress.runId) != self._run or "addBatch" not in progress.durationMs:
            return
        look = self._looker.look(progress.batchId) if progress.numInputRows else Look()
        self._note(
            replace(
                self._sample,
                batch_id=progress.batchId,
                batch_ts_ms=round(1_000 * datetime.fromisoformat(progress.timestamp).timestamp()),
                input_rows=progress.numInputRows,
                batch_duration_ms=progress.durationMs["triggerExecution"],
                **vars(look),
            )
        )


def manifest_bytes(uri: str, version: int) -> int:
    """The size of a version's manifest; -1 if it cannot be known."""
    try:
        place = resolve(f"{uri}/_versions/{_LAST_VERSION - version}.manifest")
        size = place.system.get_file_info(place.path).size
    except (OSError, StoreError):
        return -1
    return -1 if size is None else int(size)


@dataclass
class Turn:
    """One stream of one rival, from its checkpoint on, until it has had enough."""

    spark: SparkSession
    rival: Rival
    place: Place
    source: Source
    sample: Sample
    """What all samples have in common."""
    batches: int | None = None
    """So many are enough; None: only the time counts."""
    seconds: float = float("inf")
    """So long is enough."""
    trigger: str = "0 seconds"
    on_sample: Callable[[Sample], Sample] = lambda sample: sample
    """Told each sample as it comes; what it returns is kept."""
    samples: list[Sample] = field(default_factory=list)
    is_out_of_time: bool = False
    looks_at_each: bool = True
    """Counts fragments after every batch; else only in the end: on S3 a look is work, too."""
    _written: int = 0
    _last_batch: int = -1
    _over: Event = field(default_factory=Event)

    def run(self) -> list[Sample]:
        """One sample a batch; a batch that was begun is ended."""
        uri = self.place.table if self.rival.has_table else None
        self._looker = Looker(uri if self.looks_at_each else None)
        listener = _Listener(self.sample, self._looker, self._note)
        self.spark.streams.addListener(listener)
        try:
            with self.rival.beside(self.place):
                self._stream()
                self._wait_for_samples()
        finally:
            self.spark.streams.removeListener(listener)
        return self.samples

    def looked_at(self) -> list[Sample]:
        """The samples, of which the last one tells at any rate what the table has become."""
        if self.samples and self.rival.has_table and not self.looks_at_each:
            look = Looker(self.place.table).look(0)
            self.samples[-1] = replace(self.samples[-1], **vars(look))
        return self.samples

    def _stream(self) -> None:
        writer = self.source.frame(self.spark).writeStream
        writer = writer.option("checkpointLocation", self.place.checkpoint)
        self._ends_at = time.monotonic() + self.seconds
        writer = writer.trigger(processingTime=self.trigger)
        query = self.rival.attach(writer, self.place, self._limited).start()
        try:
            self._end(query)
        except StreamingQueryException:
            if not self._over.is_set():
                raise
        finally:
            query.stop()
            told = query.lastProgress
            self._last_batch = -1 if told is None else told.batchId

    def _limited(self, write: Write) -> Write:
        """Begins no batch when there were enough: it is planned, and left to the next turn."""

        def limited(frame: DataFrame, batch_id: int) -> None:
            if self._has_enough(self._written):
                self._over.set()
                raise EnoughError
            write(frame, batch_id)
            self._written += 1
            self._looker.ask(batch_id)

        return limited

    def _has_enough(self, batches: int) -> bool:
        if self.batches is not None and batches >= self.batches:
            return True
        is_late = time.monotonic() >= self._ends_at
        self.is_out_of_time = is_late and (self._is_timed or batches >= LEAST_BATCHES)
        return self.is_out_of_time

    @property
    def _is_timed(self) -> bool:
        """Whether batches wait for their trigger."""
        return self.trigger != Turn.trigger

    def _end(self, query: StreamingQuery) -> None:
        """Waits until it ends, or until it may be ended: between two batches, or in a native one.

        A native batch that is cut off lands once all the same, with the next turn.
        """
        while not query.awaitTermination(POLL_S):
            is_native, is_idle = self.rival.write is None, not query.status["isTriggerActive"]
            if (is_native or (self._is_timed and is_idle)) and self._has_enough(len(self.samples)):
                return

    def _wait_for_samples(self) -> None:
        """Progress is told by another thread, a moment later."""
        ends = time.monotonic() + LONGEST_WAIT_S
        while not self._has_all_samples() and time.monotonic() < ends:
            time.sleep(POLL_S)

    def _has_all_samples(self) -> bool:
        newest = max((sample.batch_id for sample in self.samples), default=-1)
        return len(self.samples) >= self._written and newest >= self._last_batch

    def _note(self, sample: Sample) -> None:
        self.samples.append(self.on_sample(sample))
