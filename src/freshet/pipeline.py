"""The pipeline: wires the stages. The only module that knows all of them."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import gettempdir
from threading import Event
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from freshet import bronze, changes, gold, landing, monitor, verify
from freshet.embedding import IndexRows, ProviderSpec, content_hash
from freshet.embedding.chunking import Chunking
from freshet.errors import FreshetError, SettingsError, StreamFailedError
from freshet.events import emit
from freshet.search import Hit, Searcher
from freshet.settings import Settings
from freshet.sink import BatchReport, LanceSink, LanceSource, Ledger, Probe, UpdateModeHint
from freshet.sink.commit_protocol import no_probe
from freshet.spark import start_session
from freshet.stores import checkpoints, delta_tables, file_systems
from freshet.stores.lance_tables import LanceTable
from freshet.verify import Verdict

INGEST: Final = "ingest"
INDEX: Final = "index"

_SAMPLE_RECORDS: Final = 200
_SAMPLE_FILES: Final = 5
_POLL_S: Final = 0.2
_listening: set[str] = set()
"""Spark applications that have the listener; it must not be added twice."""


def register(spark: SparkSession) -> None:
    """Makes `format("landing")` and `format("lance")` known to a Spark session."""
    spark.dataSource.register(landing.LandingSource)
    spark.dataSource.register(LanceSource)
    application = spark.sparkContext.applicationId
    if application not in _listening:
        _listening.add(application)
        spark.streams.addListener(UpdateModeHint())


class Pipeline:
    """One pipeline: from change files to a fresh index."""

    def __init__(
        self,
        settings: Settings,
        *,
        spark: SparkSession | None = None,
        on_batch: Callable[[BatchReport], None] | None = None,
        probe: Probe = no_probe,
    ) -> None:
        self.settings = settings
        self.home = settings.home
        self._given_spark = spark
        self._failure: Exception | None = None
        self._rows = _index_rows(settings)
        self._sink = LanceSink(
            self.home.index,
            ledger=self.home.ledger,
            pipeline=settings.pipeline.name,
            sink=INDEX,
            rows=self._rows,
            on_batch=on_batch,
            probe=probe,
        )

    # --- running ---------------------------------------------------------------------------------

    def run(
        self,
        *,
        once: bool = False,
        on_tick: Callable[[list[StreamingQuery]], None] = lambda _: None,
        stop: Event | None = None,
    ) -> None:
        """Runs until interrupted; with `once`, until everything that is there now is indexed.

        Ctrl-C, a set `stop`, and a kill at any moment are normal ends: the next run goes on there.
        """
        stop = stop or Event()
        self.check()
        spark = self._prepared_spark()
        if once:
            for start in (self._start_ingest, self._start_index):
                self._watch([start(spark, {"availableNow": True})], on_tick, stop)
        else:
            trigger = {"processingTime": self.settings.pipeline.trigger}
            queries = [self._start_ingest(spark, trigger), self._start_index(spark, trigger)]
            self._watch(queries, on_tick, stop)

    def check(self) -> None:
        """Raises if the settings cannot work; makes nothing and starts nothing."""
        path = self.settings.landing.path
        if not file_systems.exists_folder(path):
            raise SettingsError(f"landing.path is {path}, but there is no such folder")
        self._rows.spec.check()
        self._sink.check()
        if not delta_tables.exists(self.home.bronze):
            changes.check_sample(
                self._sample(),
                key=self.settings.changes.key,
                text=self.settings.gold.text_columns,
            )

    def _sample(self) -> list[str]:
        files = islice(file_systems.list_files(self.settings.landing.path), _SAMPLE_FILES)
        records = (
            record
            for file in files
            for batch in landing.read_records(file.path, self.settings.landing.format)
            for record in batch.column("record").to_pylist()
            if record is not None
        )
        return list(islice(records, _SAMPLE_RECORDS))

    def _prepared_spark(self) -> SparkSession:
        bronze.create(self.home.bronze)
        spark = self.spark()
        register(spark)
        return spark

    def spark(self) -> SparkSession:
        """The session that was given, or the one that this process starts."""
        logs = Path(self.home.logs if self.home.is_local else f"{gettempdir()}/freshet")
        return self._given_spark or start_session(
            self.settings.spark, name=self.settings.pipeline.name, log_file=logs / "spark.log"
        )

    def _start_ingest(self, spark: SparkSession, trigger: dict[str, Any]) -> StreamingQuery:
        source = self.settings.landing
        events = (
            spark.readStream.format("landing")
            .option("path", source.path)
            .option("state", self.home.files)
            .option("format", source.format)
            .option("max_files_per_trigger", source.max_files_per_trigger)
            .load()
        )
        rows = bronze.rows_to_append(self._changes(events), self.settings.pipeline.name)
        writer = bronze.write_stream(
            rows,
            checkpoint=self.home.checkpoint(INGEST),
            max_rows_per_batch=self.settings.pipeline.max_rows_per_batch,
        )
        return _start(spark, writer.trigger(**trigger).queryName(INGEST), INGEST, self.home.bronze)

    def _start_index(self, spark: SparkSession, trigger: dict[str, Any]) -> StreamingQuery:
        events = bronze.read_stream(spark, self.home.bronze)
        writer = events.writeStream.foreachBatch(self._index_batch).option(
            "checkpointLocation", self.home.checkpoint(INDEX)
        )
        return _start(spark, writer.trigger(**trigger).queryName(INDEX), INDEX)

    def _index_batch(self, events: DataFrame, batch_id: int) -> None:
        try:
            self._sink(self._records(events), batch_id)
        except Exception as error:
            self._failure = error
            raise

    def _changes(self, events: DataFrame) -> DataFrame:
        chosen = self.settings.changes
        return changes.normalise(
            events,
            envelope=chosen.envelope,
            key=chosen.key,
            version=chosen.version,
            deleted=chosen.deleted,
        )

    def _records(self, events: DataFrame) -> DataFrame:
        chosen = self.settings.gold
        return gold.project(
            events, text=chosen.text, template=chosen.template, attributes=chosen.attribute_types
        )

    def _watch(
        self,
        queries: list[StreamingQuery],
        on_tick: Callable[[list[StreamingQuery]], None],
        stop: Event,
    ) -> None:
        """Waits until the queries end; stops all of them when one fails or somebody interrupts."""
        with _stopping(queries):
            while any(query.isActive for query in queries) and not stop.wait(_POLL_S):
                on_tick(queries)
                for query in queries:
                    self._raise_failure(query)
            for query in queries:
                self._raise_failure(query)

    def _raise_failure(self, query: StreamingQuery) -> None:
        error = None if query.isActive else query.exception()
        if error is None:
            return
        if isinstance(self._failure, FreshetError):
            raise self._failure
        raise StreamFailedError(str(query.name), _cause(str(self._failure or error)))

    # --- looking ---------------------------------------------------------------------------------

    def status(self) -> monitor.Status:
        """Where the pipeline stands; reads tables and checkpoints, and needs no Spark."""
        read_up_to = checkpoints.committed_offset(self.home.checkpoint(INGEST))
        files = landing.backlog(
            self.settings.landing.path, self.home.files, (read_up_to or {"seq": 0})["seq"]
        )
        events = bronze.count(self.home.bronze)
        name = self.settings.pipeline.name
        return monitor.Status(
            pipeline=name,
            files=monitor.FilesStatus(files.seen, files.waiting),
            bronze=monitor.BronzeStatus(events.rows, events.errors),
            index=monitor.IndexStatus.of(self.home.index),
            last_batch=Ledger(self.home.ledger).latest(name, INDEX),
        )

    def ledger(self) -> list[dict[str, Any]]:
        """The index's batches, oldest first."""
        return Ledger(self.home.ledger).rows(self.settings.pipeline.name, INDEX)

    def search(self, question: str, *, k: int | None = None, where: str | None = None) -> list[Hit]:
        """The records nearest to a question."""
        return self.searcher().search(question, k=k or self.settings.search.k, where=where)

    def searcher(self) -> Searcher:
        """A searcher over the index as it is whenever it is asked."""
        provider = self._rows.spec
        return Searcher(
            self.home.index,
            model_id=provider.describe().model_id,
            embed=lambda question: provider.load().embed([question])[0],
            attributes=tuple(self.settings.gold.attribute_types),
            metric=self.settings.index.metric,
        )

    def verify(self) -> Verdict:
        """Recomputes Gold from Bronze and compares it with the index, key by key."""
        table = LanceTable.open(self.home.index, what="index")
        spark = self.spark()
        events = spark.read.format("delta").load(self.home.bronze)
        attributes = tuple(self.settings.gold.attribute_types)
        return verify.compare(
            verify.expected(gold.latest(self._records(events)), attributes, self._rows.pieces_of),
            verify.actual(spark, table, attributes, content_hash),
        )


def _index_rows(settings: Settings) -> IndexRows:
    spec = ProviderSpec.of(settings.embedding)
    window = spec.describe().window_tokens
    tokens = min(settings.gold.chunk_tokens or window, window)
    overlap = min(settings.gold.chunk_overlap, tokens // 2)
    return IndexRows(spec, Chunking(tokens, overlap), settings.gold.attribute_types)


def _start(
    spark: SparkSession, writer: DataStreamWriter, pool: str, path: str | None = None
) -> StreamingQuery:
    """Starts a query in a scheduler pool of its own, so that the two share the cores fairly."""
    context = spark.sparkContext
    context.setLocalProperty("spark.scheduler.pool", pool)
    try:
        return writer.start(path)
    finally:
        context.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]


@contextmanager
def _stopping(queries: list[StreamingQuery]) -> Iterator[None]:
    try:
        yield
    finally:
        for query in queries:
            if query.isActive:
                emit("pipeline", "query_stopping", query=query.name)
                query.stop()


def _cause(report: str) -> str:
    """The sentence that matters in a report of Spark: our own error's, or the last one raised."""
    own = re.search(r"freshet\.errors\.\w+: (.+)", report)
    if own:
        return own.group(1)
    raised = re.findall(r"^\s*([\w.]*(?:Error|Exception)\b.*)", report, re.MULTILINE)
    return str(raised[-1]) if raised else report.strip().split("\n", 1)[0]
