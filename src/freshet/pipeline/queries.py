"""Streaming queries as the pipeline handles them: started, watched, stopped, and their errors."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from freshet import landing
from freshet.errors import FreshetError, StreamFailedError
from freshet.events import emit
from freshet.sink import LanceSource, UpdateModeHint

_POLL_S: Final = 0.2
_RAISED: Final = r"^\s*(?:: |Caused by: )?([\w.$]*(?:Error|Exception)\b.*)"
"""A line of Python's or Java's that names an error."""
_listening: set[str] = set()
"""Spark applications that have the listener; it must not be added twice."""

OnTick = Callable[[list[StreamingQuery]], None]


def register(spark: SparkSession) -> None:
    """Makes `format("landing")` and `format("lance")` known to a Spark session."""
    spark.dataSource.register(landing.LandingSource)
    spark.dataSource.register(LanceSource)
    application = spark.sparkContext.applicationId
    if application not in _listening:
        _listening.add(application)
        spark.streams.addListener(UpdateModeHint())


def start(
    spark: SparkSession, writer: DataStreamWriter, pool: str, path: str | None = None
) -> StreamingQuery:
    """Starts a query in a scheduler pool of its own, so that the two share the cores fairly."""
    context = spark.sparkContext
    context.setLocalProperty("spark.scheduler.pool", pool)
    try:
        return writer.queryName(pool).start(path)
    finally:
        context.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]


def watch(
    queries: list[StreamingQuery],
    on_tick: OnTick,
    stop: Event,
    raise_failure: Callable[[StreamingQuery], None],
) -> None:
    """Waits until the queries end; stops all of them when one fails or somebody interrupts."""
    with _stopping(queries):
        while any(query.isActive for query in queries) and not stop.wait(_POLL_S):
            on_tick(queries)
            for query in queries:
                raise_failure(query)
        for query in queries:
            raise_failure(query)


def failure_of(query: StreamingQuery, known: Exception | None) -> StreamFailedError | None:
    """Why a query has ended, if it did so with an error; `known` is what our own code raised."""
    error = None if query.isActive else query.exception()
    if error is None:
        return None
    return StreamFailedError(str(query.name), _cause(str(known or error)))


def raise_failure(query: StreamingQuery, known: Exception | None) -> None:
    """Raises why a query has ended, if it did so with an error: our own error, if it is one."""
    failure = failure_of(query, known)
    if failure is not None:
        raise known if isinstance(known, FreshetError) else failure


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
    raised = re.findall(_RAISED, report, re.MULTILINE)
    return str(raised[-1]) if raised else report.strip().split("\n", 1)[0]
