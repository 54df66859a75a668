"""One pipeline, from change files to a fresh index: running it, and looking at it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import gettempdir
from threading import Event
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from freshet import bronze, evolution, monitor
from freshet.errors import FreshetError
from freshet.landing import FileReport
from freshet.layout import INDEX
from freshet.pipeline import queries
from freshet.pipeline.index import Index
from freshet.pipeline.ingest import Ingest
from freshet.pipeline.queries import OnTick
from freshet.pipeline.recovering import Recovery
from freshet.search import Hit, Searcher
from freshet.settings import Settings
from freshet.sink import BatchReport, Ledger, Probe
from freshet.sink.commit_protocol import no_probe
from freshet.spark import start_session
from freshet.verify import Verdict


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
        self.recovery = Recovery(settings)
        """Backups of the pipeline's state, and what is made anew of it."""
        self._given_spark = spark
        self._ingest = Ingest(settings, self.home)
        self._index = Index(settings, self.home, on_batch=on_batch, probe=probe)

    # --- running ---------------------------------------------------------------------------------

    def run(
        self,
        *,
        once: bool = False,
        on_tick: OnTick = lambda _: None,
        stop: Event | None = None,
    ) -> None:
        """Runs until interrupted; with `once`, until everything that is there now is indexed.

        Ctrl-C, a set `stop`, and a kill at any moment are normal ends: the next run goes on there.
        """
        stop = stop or Event()
        self.check()
        bronze.create(self.home.bronze)
        self.recovery.reconcile()
        spark = self.spark()
        queries.register(spark)
        if once:
            for stage in (self._ingest, self._index):
                started = [stage.start(spark, {"availableNow": True})]
                queries.watch(started, on_tick, stop, self._raise_failure)
        else:
            trigger = {"processingTime": self.settings.pipeline.trigger}
            started = [stage.start(spark, trigger) for stage in (self._ingest, self._index)]
            on_tick = self.recovery.scheduled(on_tick)
            queries.watch(started, on_tick, stop, self._raise_failure)

    def check(self) -> None:
        """Raises if the settings cannot work; makes nothing and starts nothing."""
        self._ingest.check()
        self._index.check()

    def spark(self) -> SparkSession:
        """The session that was given, or the one that this process starts."""
        logs = Path(self.home.logs if self.home.is_local else f"{gettempdir()}/freshet")
        return self._given_spark or start_session(
            self.settings.spark, name=self.settings.pipeline.name, log_file=logs / "spark.log"
        )

    def _raise_failure(self, query: StreamingQuery) -> None:
        failure = queries.failure_of(query, self._index.failure)
        if failure is None:
            return
        raise self._index.failure if isinstance(self._index.failure, FreshetError) else failure

    # --- looking ---------------------------------------------------------------------------------

    def status(self) -> monitor.Status:
        """Where the pipeline stands; reads tables and checkpoints, and needs no Spark."""
        files = self._ingest.backlog()
        events = bronze.count(self.home.bronze)
        # Most have no bad record at all, and the log alone tells that.
        errors = sum(1 for _ in self.quarantined()) if events.errors else 0
        name = self.settings.pipeline.name
        return monitor.Status(
            pipeline=name,
            files=monitor.FilesStatus(files.seen, files.waiting, files.waiting_bytes),
            bronze=monitor.BronzeStatus(events.rows, errors),
            schema=monitor.SchemaStatus(**asdict(evolution.summary(self.home.schema))),
            index=monitor.IndexStatus.of(self.home.index),
            last_batch=Ledger(self.home.ledger).latest(name, INDEX),
        )

    def files(self, states: Sequence[str] = ()) -> Iterator[FileReport]:
        """What became of the files, newest first; of all states unless some are named."""
        return self._ingest.files(states)

    def readings(self, files: Sequence[FileReport]) -> Mapping[int, bronze.ReadingResult]:
        """Rows and bad rows of some files, by number."""
        return bronze.results(
            self.home.bronze, [file.seq for file in files if file.seq is not None]
        )

    def quarantined(self) -> Iterator[bronze.Quarantined]:
        """The records that are in quarantine."""
        return bronze.quarantined(self.home.bronze)

    def retry(self, files: Iterable[str] = ()) -> list[str]:
        """Asks for files with records in quarantine to be read again by the next batch.

        All of them, unless some are named; returns their paths.
        """
        return self._ingest.retry(self.quarantined(), files)

    def ledger(self) -> list[dict[str, Any]]:
        """The index's batches, oldest first."""
        return Ledger(self.home.ledger).rows(self.settings.pipeline.name, INDEX)

    def search(self, question: str, *, k: int | None = None, where: str | None = None) -> list[Hit]:
        """The records nearest to a question."""
        return self.searcher().search(question, k=k or self.settings.search.k, where=where)

    def searcher(self) -> Searcher:
        """A searcher over the index as it is whenever it is asked."""
        return self._index.searcher()

    def verify(self) -> Verdict:
        """Recomputes Gold from Bronze and compares it with the index, key by key."""
        return self._index.verify(self.spark)
