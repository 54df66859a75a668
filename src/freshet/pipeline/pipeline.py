"""One pipeline, from change files to a fresh index: running it, and looking at it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from threading import Event
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from freshet import bronze, monitor
from freshet.clock import utc_now
from freshet.errors import IndexRebuiltError
from freshet.landing import FileReport
from freshet.layout import INDEX
from freshet.pipeline import beside, old_versions, queries, slo_watch
from freshet.pipeline.audit import Audit
from freshet.pipeline.calibrating import Calibrating
from freshet.pipeline.freshness import Timing
from freshet.pipeline.index import Index
from freshet.pipeline.ingest import Ingest
from freshet.pipeline.monitoring import Monitoring
from freshet.pipeline.optimizing import Optimizing
from freshet.pipeline.profiling import RECORDS, SECONDS, Profiling
from freshet.pipeline.queries import OnTick
from freshet.pipeline.rebuild_report import Progress, RebuildReport
from freshet.pipeline.rebuilding import Rebuild
from freshet.pipeline.recovering import Recovery
from freshet.pipeline.refused import Refused, refused
from freshet.pipeline.resuming import Course, Resuming
from freshet.pipeline.sinks import Sinks
from freshet.pipeline.standing import Standing
from freshet.pipeline.trigger_watch import TriggerWatch
from freshet.pipeline.triggers import Trigger, index_trigger, ingest_trigger
from freshet.pipeline.verifying import Auditing, OnProgress
from freshet.profiling import Profile
from freshet.search import AsOf, Hit, Searcher
from freshet.settings import Settings
from freshet.sink import BatchReport, Ledger, Probe
from freshet.sink.steps import no_probe
from freshet.spark import start_session
from freshet.stores.s3_access import is_on_s3, let_in
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
        reload: Callable[[], Settings] | None = None,
    ) -> None:
        self.settings = settings
        self.home = settings.home
        let_in(settings.table_places)
        self.recovery = Recovery(settings)
        """Backups of the pipeline's state, and what is made anew of it."""
        self.optimizing = Optimizing(settings)
        """What keeps the index fast."""
        self.timing = Timing(settings)
        """How fresh the index is kept."""
        self.monitoring = Monitoring(self.home, timing=self.timing)
        """How the index fares over time."""
        self._given_spark = spark
        self._probe = probe
        self._ingest = Ingest(settings, self.home)
        self._on_batch = on_batch
        self._trigger_watch: TriggerWatch | None = None
        self._make_index = partial(Index, home=self.home, on_batch=self._note, probe=probe)
        self._index = self._make_index(settings)
        self._sinks = Sinks(settings, self.home, probe=probe)
        self._reload = reload

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
        While the index is rebuilt, changes wait in Bronze; after it the settings are loaded anew.
        """
        stop = stop or Event()
        beside.tidy(self.home, utc_now())
        started: list[StreamingQuery] = []
        resuming = Resuming(self.home, started, self._raise_failure, self._renewed)
        self.check()
        bronze.create(self.home.bronze)
        self.recovery.reconcile()
        spark = self.spark()
        queries.register(spark)
        if once:
            for stage in (self._ingest, self._index):
                started = [stage.start(spark, {"availableNow": True})]
                queries.watch(started, on_tick, stop, self._raise_failure)
            self._sinks.run_once(spark, on_tick, stop)
            self.optimizing.after_run()
        else:
            started.append(self._ingest.start(spark, self._trigger))
            started.append(self._index.start(spark, self._index_trigger))
            self._trigger_watch = TriggerWatch(lambda: self.settings.pipeline.trigger)
            tick = self.recovery.scheduled(on_tick)
            with (
                self.optimizing.beside(),
                slo_watch.watched(self.settings),
                self._sinks.beside(spark, self._trigger, tick) as look,
            ):
                queries.watch(started, look, stop, resuming.look)

    def check(self) -> None:
        """Raises if the settings cannot work; makes nothing and starts nothing."""
        self._ingest.check()
        self._index.check()
        self._sinks.check()

    def spark(self) -> SparkSession:
        """The session that was given, or the one that this process starts."""
        logs = Path(self.home.logs if self.home.is_local else f"{gettempdir()}/freshet")
        return self._given_spark or start_session(
            self.settings.spark,
            name=self.settings.pipeline.name,
            log_file=logs / "spark.log",
            has_kafka=any(sink.kind == "kafka" for sink in self.settings.sinks),
            has_s3=any(is_on_s3(place) for place in self.settings.table_places),
        )

    def rebuild(
        self,
        *,
        keep_old: timedelta = timedelta(days=7),
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> RebuildReport:
        """Builds the index anew from Bronze, beside the live one, and switches to it at once."""
        return Rebuild(self.settings, spark=self.spark, on_progress=on_progress).run(keep_old)

    def forget_rebuilds(self) -> dict[str, Any]:
        """Drops an unfinished rebuild, and takes the names of old indexes whose time is over."""
        old = old_versions.forget_expired(self.home.index, utc_now())
        return {"rebuild": beside.forget(self.home), "old": old}

    @property
    def _trigger(self) -> Trigger:
        return ingest_trigger(self.settings.pipeline.trigger)

    @property
    def _index_trigger(self) -> Trigger:
        return index_trigger(self.settings.pipeline.trigger, is_local=self.home.is_local)

    def _note(self, report: BatchReport) -> None:
        if self._on_batch is not None:
            self._on_batch(report)
        if self._trigger_watch is not None:
            self._trigger_watch.note(report)

    def _renewed(self, course: Course) -> StreamingQuery:
        """The index query once more, after a rebuild; the ingest query was never stopped."""
        if course is Course.RELOAD:
            self.settings = self._reloaded()
        self._index = self._make_index(self.settings)
        self._index.check()
        return self._index.start(self.spark(), self._index_trigger)

    def _reloaded(self) -> Settings:
        settings = None if self._reload is None else self._reload()
        if settings is None or settings.home != self.home:
            raise IndexRebuiltError(self.home.index)
        return settings

    def _raise_failure(self, query: StreamingQuery) -> None:
        queries.raise_failure(query, self._index.failure if query.name == INDEX else None)

    # --- looking ---------------------------------------------------------------------------------

    def status(self) -> monitor.Status:
        """Where the pipeline stands; reads tables and checkpoints, and needs no Spark."""
        standing = Standing(
            self.settings, self._ingest, self._index, self._sinks, self.monitoring, self.timing
        )
        return standing.status()

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

    def refused(self) -> Iterator[Refused]:
        """The pieces of text that are in the index without a vector, and why."""
        return refused(self.home.index)

    def retry_refused(self, *, force: bool = False) -> int:
        """Embeds the records anew whose texts the model did not take; returns how many there are.

        Needs the index for itself, as a repair does.
        """
        keys = {one.key for one in self.refused()}
        if not keys:
            return 0
        try:
            auditing = Auditing(self.settings, self._index, self.spark, probe=self._probe)
            return auditing.redrive(keys, force=force)
        finally:
            self._index = self._make_index(self.settings)

    def ledger(self) -> list[dict[str, Any]]:
        """The index's batches, oldest first."""
        return Ledger(self.home.ledger).rows(self.settings.pipeline.name, INDEX)

    def search(
        self,
        question: str,
        *,
        k: int | None = None,
        where: str | None = None,
        vector: str | None = None,
        mode: str | None = None,
        as_of: AsOf | None = None,
        per_record: bool = True,
        nprobes: int | None = None,
        ef: int | None = None,
        refine: int | None = None,
    ) -> list[Hit]:
        """The records that answer a question best; what is not told is as the settings say."""
        return self.searcher().search(
            question,
            k=self.settings.search.k if k is None else k,
            where=where,
            vector=vector,
            mode=mode or self.settings.search.mode,
            as_of=as_of,
            per_record=per_record,
            nprobes=nprobes,
            ef=ef,
            refine=refine,
        )

    def searcher(self) -> Searcher:
        """A searcher over the index as it is whenever it is asked."""
        return self._index.searcher()

    def profile(
        self,
        *,
        records: int = RECORDS,
        seconds: float = SECONDS,
        freshness: str | None = None,
        on_progress: OnProgress = lambda _: None,
    ) -> Profile:
        """Measures the embedding on a sample of the pipeline's records, and derives settings.

        Changes nothing. The model is timed for about `seconds` for each figure.
        """
        profiling = Profiling(
            self.settings, self._ingest, self._index.rows, self.spark, self.ledger, on_progress
        )
        return profiling.run(records=records, seconds=seconds, freshness=freshness)

    def calibrating(self, on_progress: OnProgress = lambda _: None) -> Calibrating:
        """What measures a copy of the index, and derives how it is kept fast; needs no Spark."""
        return Calibrating(self.settings, self.ledger, on_progress)

    def verify(self, *, sample: float | None = None, seed: int | None = None) -> Verdict:
        """Recomputes Gold from Bronze and compares it with the index, key by key.

        With a `sample`, of a share of the keys (below 1), or of about so many of them.
        """
        return self.audit(sample=sample, seed=seed).verdict

    def repair(
        self, *, sample: float | None = None, seed: int | None = None, force: bool = False
    ) -> Audit:
        """Compares, and writes what differs anew from Bronze, until nothing differs."""
        return self.audit(sample=sample, seed=seed, repairs=True, force=force)

    def audit(
        self,
        *,
        sample: float | None = None,
        seed: int | None = None,
        repairs: bool = False,
        force: bool = False,
        on_progress: OnProgress = lambda _: None,
    ) -> Audit:
        """What `verify` or `repair` found and did, with all that a report tells."""
        auditing = Auditing(
            self.settings, self._index, self.spark, on_progress=on_progress, probe=self._probe
        )
        try:
            return auditing.run(sample=sample, seed=seed, repairs=repairs, force=force)
        finally:
            if repairs:  # which has taken the lease from the index that was
                self._index = self._make_index(self.settings)
