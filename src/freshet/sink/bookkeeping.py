"""What is the same for every store: whether a batch is written at all, and what is put on record.

Guarantee: the ledger has a row of every batch that has ended, written after it took effect. Memory
holds the last batches of each query that this driver has seen, and no rows.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from freshet.errors import StoreError
from freshet.events import emit, warn
from freshet.sink.continuity import Course, Decision, Evidence, decide
from freshet.sink.leases import Lease
from freshet.sink.ledger import (
    COMMITTED,
    FAILED,
    RECOVERED,
    REPLAYED,
    Attempt,
    BatchReport,
    Landed,
    Ledger,
    announce,
)
from freshet.sink.stamps import Batch, Counts, Mark
from freshet.sink.steps import Probe, Step, no_probe, stepping
from freshet.sink.target import Target

Gather = Callable[[Target, Batch, Landed], Evidence]
"""Reads what the store says to what the ledger said."""


class Bookkeeping:
    """The steps around a store's own; see `commit_protocol` for all of them."""

    def __init__(
        self,
        target: Target,
        ledger: Ledger,
        gather: Gather,
        clock: Callable[[], datetime],
        probe: Probe = no_probe,
    ) -> None:
        self.ledger = ledger
        self.seen_version = 0
        """The newest version of the table that this driver knows to be on record."""
        self._target = target
        self._gather = gather
        self._clock = clock
        self._probe = probe
        self._lease: Lease | None = None
        self._landed: dict[str, int] = {}
        self._on_record: dict[str, int] = {}

    def lease(self) -> Lease:
        """Taken before anything is read, so that what is read stays true."""
        if self._lease is None:
            self._lease = Lease.take(self.ledger.leases, self._target, self._clock)
        return self._lease

    @contextmanager
    def attempt(self, batch: Batch) -> Iterator[Attempt]:
        """One try at a batch: if it fails, that is recorded, and raised for Spark to see."""
        attempt = Attempt(batch, self._clock)
        emit("sink", "batch_started", sink=batch.sink, batch_id=batch.batch_id)
        try:
            yield attempt
        except Exception as error:  # 7
            self.forget(batch)
            sentence = f"{type(error).__name__}: {error}"[:2_000]
            warn("sink", "batch_failed", batch_id=batch.batch_id, error=sentence)
            self._record_failure(attempt.report(FAILED, Counts(), error=sentence))
            raise
        self._landed[batch.query_id] = batch.batch_id

    def decide(self, batch: Batch) -> Decision:
        """What to do with a batch; logs that it is skipped."""
        decision = self._decision(batch)
        if decision.course is Course.SKIP:
            emit("sink", "batch_skipped", sink=batch.sink, batch_id=batch.batch_id)
        return decision

    def forget(self, batch: Batch) -> None:
        """What is remembered may be wrong: the query's next batch is as after a restart."""
        self._landed.pop(batch.query_id, None)

    def recovered(self, attempt: Attempt, found: Mark, table_id: str) -> BatchReport:
        """The batch is in the table; its row is not in the ledger yet."""
        report = attempt.report(RECOVERED, found.counts, version=found.version, table_id=table_id)
        self.ledger.record(report)
        self.seen_version = found.version
        announce("batch_recovered", report)
        return report

    def status_of(self, batch: Batch) -> str:
        """How a batch that lands now is put on record."""
        is_replay = batch.batch_id <= self._on_record.get(batch.query_id, -1)
        return REPLAYED if is_replay else COMMITTED

    @contextmanager
    def step(self, step: Step, batch: Batch) -> Iterator[None]:
        """Tells the probe when a step begins and ends."""
        with stepping(self._probe, step, batch.batch_id):
            yield

    def _decision(self, batch: Batch) -> Decision:
        with self.step(Step.SKIP, batch):  # 1
            if self._is_settled(batch):
                is_landed = batch.batch_id <= self._landed[batch.query_id]
                return Decision(Course.SKIP if is_landed else Course.WRITE)
            landed = self.ledger.landed(batch)
        with self.step(Step.RECOVER, batch):  # 2
            evidence = self._gather(self._target, batch, landed)
            decision = decide(evidence)
        self.seen_version = evidence.last_version or evidence.table_version
        if decision.notice is not None:
            warn("sink", decision.notice, sink=batch.sink, batch_id=batch.batch_id)
        if decision.last_batch is not None:
            self._on_record[batch.query_id] = decision.last_batch
        return decision

    def _is_settled(self, batch: Batch) -> bool:
        """Whether this driver has checked the query, and its batches on record lie behind it."""
        last_on_record = self._on_record.get(batch.query_id, -1)
        return batch.query_id in self._landed and batch.batch_id > last_on_record

    def _record_failure(self, report: BatchReport) -> None:
        try:
            self.ledger.record(report)
        except StoreError as error:
            # The first error is the one to see; that it could not be recorded is only logged.
            warn("sink", "failure_not_recorded", batch_id=report.batch_id, error=error)
