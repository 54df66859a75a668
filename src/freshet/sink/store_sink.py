"""`StoreSink`: micro-batches to a store that has transactions of its own, under the same ledger."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame

from freshet.clock import utc_now
from freshet.errors import FreshetError, SinkError, StoreError
from freshet.events import warn
from freshet.sink.batch_store import BatchStore, OvertakenError, Ready, Standing
from freshet.sink.bookkeeping import Bookkeeping
from freshet.sink.continuity import Course, Evidence
from freshet.sink.leases import Lease
from freshet.sink.ledger import Attempt, BatchReport, Landed, Ledger, announce
from freshet.sink.spark_queries import offsets_of, query_id_of
from freshet.sink.stamps import Batch, Mark, Past
from freshet.sink.steps import Probe, Step, no_probe
from freshet.sink.target import Target

_MAX_TRIES: Final = 5


class StoreSink:
    """A function for `foreachBatch` that writes to a `BatchStore`, one transaction a batch.

    Guarantee: every micro-batch takes effect exactly once, also when Spark runs it again after a
    crash at any moment, and when several drivers try to write it: the one that began last goes on,
    the others end with `FencedError`. The steps are those of `commit_protocol`, but a store keeps
    what it needs of deleted keys itself. Memory does not grow: one number and one id are kept.
    """

    def __init__(
        self,
        store: BatchStore,
        *,
        ledger: str,
        pipeline: str,
        sink: str,
        takes_over: bool = False,
        on_batch: Callable[[BatchReport], None] | None = None,
        clock: Callable[[], datetime] = utc_now,
        probe: Probe = no_probe,
    ) -> None:
        self._store = store
        self._target = Target(store.place, pipeline, sink, store.mode, None, takes_over)
        self._books = Bookkeeping(self._target, Ledger(ledger), self._gather, clock, probe)
        self._on_batch = on_batch
        self._number = 0
        """Of the sink's newest batch in the store, as far as is known."""

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Writes one micro-batch; raises what went wrong, so that Spark sees it."""
        query_id = query_id_of(rows)
        if query_id is None:
            raise SinkError("a sink is called by foreachBatch of a streaming query only")
        offsets = offsets_of(rows, query_id, batch_id)
        self.write(rows, query_id=query_id, batch_id=batch_id, offsets=offsets)

    def write(
        self, rows: DataFrame, *, query_id: str, batch_id: int, offsets: str | None = None
    ) -> BatchReport | None:
        """Writes one batch under a given query id; None if it had been written before."""
        batch = Batch(self._target.pipeline, self._target.sink, query_id, batch_id, offsets)
        is_read: list[bool] = []
        with self._books.attempt(batch) as attempt:
            report = self._write(attempt, rows, is_read)
        if not is_read:
            # Spark fails a query whose state was not computed, also for a batch that has landed.
            rows.write.format("noop").mode("overwrite").save()
        if report is not None and report.counts.rows_in and self._on_batch is not None:
            self._on_batch(report)
        return report

    def _gather(self, target: Target, batch: Batch, landed: Landed) -> Evidence:
        standing = self._store.standing(batch)
        if standing is None:
            self._number = 0
            return Evidence(target, batch, None, 0, landed, Past())
        self._number = standing.number
        past = Past(_after(standing, landed), standing.restored_at)
        return Evidence(target, batch, standing.table_id, standing.version, landed, past)

    def _write(self, attempt: Attempt, rows: DataFrame, is_read: list[bool]) -> BatchReport | None:
        lease, batch = self._books.lease(), attempt.batch
        for _ in range(_MAX_TRIES):
            decision = self._books.decide(batch)
            if decision.course is Course.SKIP:
                return None
            if decision.found is not None:
                return self._recovered(attempt, decision.found)
            try:
                is_read.append(True)
                return self._land(attempt, lease, rows)
            except OvertakenError:
                warn("sink", "overtaken", sink=batch.sink, batch_id=batch.batch_id)
                lease.check()
                self._books.forget(batch)
        raise OvertakenError("commit to", self._store.place, f"{_MAX_TRIES} times in a row")

    def _recovered(self, attempt: Attempt, found: Mark) -> BatchReport:
        standing = self._store.standing(attempt.batch)
        return self._books.recovered(attempt, found, "" if standing is None else standing.table_id)

    def _land(self, attempt: Attempt, lease: Lease, rows: DataFrame) -> BatchReport:
        batch = attempt.batch
        with self._books.step(Step.PREPARE, batch):
            ready = self._store.prepare(rows, batch)
        with _discarded(ready):
            lease.check()
            committing = time.perf_counter()
            try:
                with self._books.step(Step.COMMIT, batch):
                    outcome = ready.land(lease.owner, self._number)
            except OvertakenError:
                raise
            except StoreError as error:
                return self._found_after(attempt, lease, error)
            commit_s = time.perf_counter() - committing
        self._number += 1
        with self._books.step(Step.RECORD, batch):
            lease.check()
            report = attempt.report(
                self._books.status_of(batch),
                outcome.counts,
                version=outcome.version,
                table_id=outcome.table_id,
                write_s=outcome.write_s,
                commit_s=commit_s,
            )
            self._books.ledger.record(report)
        self._books.seen_version = outcome.version
        announce("batch_committed", report)
        return report

    def _found_after(self, attempt: Attempt, lease: Lease, error: StoreError) -> BatchReport:
        """The transaction may have landed with its answer lost; if not, the error again."""
        try:
            standing = self._store.standing(attempt.batch)
        except FreshetError:
            raise error from None
        newest = None if standing is None else standing.newest
        if standing is None or newest is None or not newest.is_of(attempt.batch):
            raise error
        if newest.writer != lease.owner or standing.number != self._number + 1:
            raise error
        warn("sink", "commit_found", batch_id=attempt.batch.batch_id, table_version=newest.version)
        self._number = standing.number
        return self._books.recovered(attempt, newest, standing.table_id)


def _after(standing: Standing, landed: Landed) -> Mark | None:
    """The newest mark, if the ledger does not know its version yet."""
    known = landed.last_versions.get(standing.table_id, -1)
    newest = standing.newest
    return newest if newest is not None and newest.version > known else None


@contextmanager
def _discarded(ready: Ready) -> Iterator[None]:
    try:
        yield
    finally:
        try:
            ready.discard()
        except StoreError as error:
            warn("sink", "leftovers_stay", error=error)
