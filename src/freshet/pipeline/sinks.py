"""The further sinks of a pipeline: each is a query of its own over what changes in Gold.

Guarantee: a sink that fails or lags holds up neither the index nor another sink, and loses nothing:
it goes on where it was, by its own checkpoint and its own rows in the ledger. One that is new, or
whose checkpoint was lost, is first given Gold as it stands, the marks of deleted records among it;
Gold is made of Bronze. Memory holds one state for each sink.

A change is ordered by the commit of Gold that it came with (`gold_version`), not by the record's
own version: Gold may be made anew of the same events by other settings.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from freshet.errors import FreshetError, SinkError
from freshet.events import emit, warn
from freshet.layout import Home
from freshet.monitor import SinkStatus
from freshet.pipeline import queries
from freshet.pipeline.queries import OnTick
from freshet.settings import Settings, SinkSettings
from freshet.sink import LanceSink, Ledger, Probe, modes
from freshet.sink.delta import DeltaSink
from freshet.sink.spark_sinks import spark_writer
from freshet.sink.steps import no_probe
from freshet.stores import copies

GOLD_VERSION: Final = "gold_version"
_NEWS: Final = ("insert", "update_postimage")
_OF_FEED: Final = ("_change_type", "_commit_version", "_commit_timestamp")
_MOST_BYTES: Final = "256m"
_LONGEST_PAUSE_S: Final = 300.0
_MOST_TRIES: Final = 3
_LOST_THREAD: Final = (
    "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE",
    "DIFFERENT_DELTA_TABLE_READ",
    "DELTA_SCHEMA_CHANGED",
    "DELTA_FILE_NOT_FOUND",
    "DELTA_CHANGE_TABLE_FEED_DISABLED",
)
"""What Delta says when the changes from one state of Gold to the next cannot be told any more."""

Write = Callable[[DataFrame, int], None]


@dataclass
class _State:
    """One sink of a running pipeline."""

    told: SinkSettings
    query: StreamingQuery | None = None
    failures: int = 0
    """In a row."""
    due_at: float = 0.0
    failure: Exception | None = None
    """What the sink's own code raised last."""
    is_lost: bool = False
    """Whether it must be given the whole of Gold again."""


class Sinks:
    """All sinks that the settings name."""

    def __init__(self, settings: Settings, home: Home, *, probe: Probe = no_probe) -> None:
        self._pipeline = settings.pipeline.name
        self._home = home
        self._probe = probe
        self._states = [_State(told) for told in settings.sinks]

    def check(self) -> None:
        """Raises if a sink cannot do what it is asked for; makes nothing."""
        for state in self._states:
            modes.check(state.told.kind, state.told.output_mode)
            self._write_of(state.told)

    def run_once(self, spark: SparkSession, on_tick: OnTick, stop: Event) -> None:
        """All that is there now, to one sink after the other; raises at the end what failed."""
        failed: dict[str, Exception] = {}
        for state in self._states:
            failure = self._run_once(spark, state, on_tick, stop)
            if failure is not None:
                failed[state.told.name] = failure
        if failed:
            told = "; ".join(f"{name}: {error}" for name, error in failed.items())
            raise SinkError(f"{len(failed)} of {len(self._states)} sinks failed: {told}")

    def _run_once(
        self, spark: SparkSession, state: _State, on_tick: OnTick, stop: Event
    ) -> Exception | None:
        """Tries again what a new look at Gold, or all of it again, can mend."""
        while not stop.is_set():
            failure: Exception | None = None
            try:
                query = self._start(spark, state, {"availableNow": True})
                queries.watch([query], on_tick, stop, lambda _: None)
                failure = queries.failure_of(query, state.failure)
            except FreshetError as error:
                failure = error
            self._note(state, failure)
            if failure is None or not _is_of_feed(failure) or state.failures >= _MOST_TRIES:
                return failure
        return None

    @contextmanager
    def beside(
        self, spark: SparkSession, trigger: dict[str, Any], on_tick: OnTick
    ) -> Iterator[OnTick]:
        """Keeps all sinks running; what it gives must be called often."""

        def look(others: list[StreamingQuery]) -> None:
            for state in self._states:
                self._look(spark, state, trigger)
            on_tick(others)

        try:
            yield look if self._states else on_tick
        finally:
            for state in self._states:
                if state.query is not None and state.query.isActive:
                    state.query.stop()

    def status(self) -> tuple[SinkStatus, ...]:
        """Where each stands, by its newest row in the ledger; Spark's own sinks have none."""
        ledger = Ledger(self._home.ledger)
        return tuple(
            SinkStatus(
                told.name,
                told.kind,
                told.output_mode,
                ledger.last_row(self._pipeline, told.name),
            )
            for told in (state.told for state in self._states)
        )

    # --- one sink --------------------------------------------------------------------------------

    def _look(self, spark: SparkSession, state: _State, trigger: dict[str, Any]) -> None:
        """Starts a sink that is not running, after a pause that grows while it fails."""
        if state.query is not None:
            if state.query.isActive:
                return
            failure = queries.failure_of(state.query, state.failure)
            state.query = None
            self._note(state, failure)
        if time.monotonic() >= state.due_at:
            try:
                self._start(spark, state, trigger)
            except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
                self._note(state, error)

    def _note(self, state: _State, failure: Exception | None) -> None:
        if failure is None:
            return
        # A new look at Gold is enough if it only has new columns; if not, all of it is.
        state.is_lost = _is_of_feed(failure) and state.failures > 0
        pause = min(2.0**state.failures, _LONGEST_PAUSE_S)
        state.failures += 1
        state.due_at = time.monotonic() + pause
        name = state.told.name
        warn("pipeline", "sink_failed", sink=name, again_in_s=pause, error=failure)

    def _start(self, spark: SparkSession, state: _State, trigger: dict[str, Any]) -> StreamingQuery:
        told = state.told
        if state.is_lost:
            copies.delete_folder(self._home.checkpoint(told.name))
            emit("pipeline", "sink_refilled", sink=told.name)
            state.is_lost = False
        writer = self._writer(self._rows(spark, told), state)
        state.query = queries.start(spark, writer.trigger(**trigger), told.name)
        return state.query

    def _rows(self, spark: SparkSession, told: SinkSettings) -> DataFrame:
        """What changes in Gold, as events."""
        reader = spark.readStream.format("delta").option("readChangeFeed", "true")
        feed = reader.option("maxBytesPerTrigger", _MOST_BYTES).load(self._home.gold)
        version = F.format_string("%020d", F.col("_commit_version")).alias(GOLD_VERSION)
        others = [name for name in feed.columns if name not in (*_OF_FEED, "key", "is_deleted")]
        if unknown := [name for name in told.columns if name not in others]:
            raise SinkError(
                f'Gold has no column {", ".join(unknown)} for the sink "{told.name}"; '
                f"it has {', '.join(others)}"
            )
        chosen = told.columns or [name for name in others if name != "record"]
        news = feed.where(F.col("_change_type").isin(*_NEWS))
        return news.select("key", version, "is_deleted", *(F.col(f"`{name}`") for name in chosen))

    def _writer(self, rows: DataFrame, state: _State) -> DataStreamWriter:
        told, place = state.told, self._home.checkpoint(state.told.name)
        write = self._write_of(told)
        if write is None:
            writer = spark_writer(
                rows,
                told.kind,
                path=told.path,
                name=told.name,
                topic=told.topic,
                servers=told.servers,
                mode=told.output_mode,
                # What the driver holds is gone with it, and so is where it was.
                checkpoint=None if told.kind in ("console", "memory") else place,
                options=told.options,
            )
            return writer.partitionBy(*told.partition_by) if told.partition_by else writer

        def noted(batch: DataFrame, batch_id: int) -> None:
            try:
                write(batch, batch_id)
            except Exception as error:
                state.failure = error
                raise
            state.failures, state.failure = 0, None

        return rows.writeStream.foreachBatch(noted).option("checkpointLocation", place)

    def _write_of(self, told: SinkSettings) -> Write | None:
        """What writes a batch; None for a sink of Spark's own."""
        common: dict[str, Any] = {
            "ledger": self._home.ledger,
            "pipeline": self._pipeline,
            "sink": told.name,
            "mode": told.output_mode,
            "version": GOLD_VERSION,
            "probe": self._probe,
        }
        if told.kind == "lance":
            return LanceSink(str(told.path), **common)
        if told.kind == "delta":
            return DeltaSink(str(told.path), partition_by=told.partition_by, **common)
        if told.kind == "postgres":
            from freshet.sink.postgres import PostgresSink  # noqa: PLC0415 - an extra

            return PostgresSink(str(told.address), str(told.table), create=told.create, **common)
        return None


def _is_of_feed(failure: Exception) -> bool:
    return any(sign in str(failure) for sign in _LOST_THREAD)
