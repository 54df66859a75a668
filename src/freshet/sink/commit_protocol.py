"""The commit protocol: one micro-batch is one Lance commit that carries deletes, rows and stamp.

1. Skip      the ledger says that this batch has landed: nothing is written.
2. Recover   first batch after a start or a failure only: the stamp of this batch stands in a
             commit newer than the ledger's last row: only the missing row is written. What does
             not belong together (checkpoint, ledger, table) is recognised here (`continuity`).
3. Prepare   on executors: judge events against the table at one pinned version, make rows, write
             data files. Nothing is visible yet.
4. Bury      deleted keys and their versions go to the tombstones, before the rows leave.
5. Commit    deletion vectors, new fragments and the stamp, in one step, behind the `fence`. After a
             conflict with the optimizer this step alone is done again. An unknown outcome is looked
             up by the stamp.
6. Record    one ledger row. Only then has the batch ended.
7. Fail      any error is recorded as failed and raised again, so that Spark sees it. Data files are
             removed if the batch surely did not land.

Guarantee: each batch takes effect exactly once, however often it is run, and by however many
drivers: the one that began last goes on, the others end with `FencedError`. A crash may leave data
files that no version names and tombstones that the replay makes true; it never leaves rows of half
a batch.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol

from freshet.errors import StoreError, TableMissingError
from freshet.events import emit, warn
from freshet.sink import stamps
from freshet.sink.continuity import Course, Decision, decide, gather
from freshet.sink.fence import Fence, Landing, RowsChangedError, try_to_discard
from freshet.sink.leases import Lease
from freshet.sink.ledger import (
    COMMITTED,
    FAILED,
    RECOVERED,
    REPLAYED,
    Attempt,
    BatchReport,
    Ledger,
    announce,
)
from freshet.sink.prepared import Prepare, Prepared
from freshet.sink.stamps import Batch, Counts, Found
from freshet.sink.target import Target
from freshet.sink.tombstones import Tombstones
from freshet.stores.lance_commits import Removal
from freshet.stores.lance_tables import LanceTable
from freshet.stores.locks import ExpiringLock

_MAX_PREPARATIONS: Final = 3
_INDEX_KEYS_EVERY: Final = 4
_POLL_S: Final = 0.05


class Step(StrEnum):
    """The steps that a batch goes through, in order."""

    SKIP = "skip"
    RECOVER = "recover"
    PREPARE = "prepare"
    BURY = "bury"
    COMMIT = "commit"
    RECORD = "record"


class Probe(Protocol):
    """Told right before and right after each step; tests break things here."""

    def __call__(self, step: Step, when: str, batch_id: int) -> None:
        """`when` is `before` or `after`."""
        ...


def no_probe(step: Step, when: str, batch_id: int) -> None:
    """The probe of a production run."""


class CommitProtocol:
    """Runs batches through the steps. Remembers the last landed batch of each query, no rows."""

    def __init__(
        self,
        target: Target,
        *,
        create_table: Callable[[], LanceTable],
        ledger: Ledger,
        tombstones: Tombstones,
        clock: Callable[[], datetime],
        lock: ExpiringLock | None = None,
        probe: Probe = no_probe,
    ) -> None:
        self._target = target
        self._create_table = create_table
        self._ledger = ledger
        self._tombstones = tombstones
        self._clock = clock
        self._lock = lock
        self._probe = probe
        self._background = ThreadPoolExecutor(1, "freshet-sink")
        self._landed: dict[str, int] = {}
        self._on_record: dict[str, int] = {}
        self._fence: Fence | None = None
        self._seen_version = 0
        self._batches = 0

    def write(self, batch: Batch, prepare: Prepare) -> BatchReport | None:
        """Makes the batch take effect exactly once; None if it had taken effect before."""
        attempt = Attempt(batch, self._clock)
        emit("sink", "batch_started", sink=batch.sink, batch_id=batch.batch_id)
        with self._failures_recorded(attempt), self._turn():
            fence = self._fenced()
            decision = self._decide(batch)
            if decision.course is Course.SKIP:
                emit("sink", "batch_skipped", sink=batch.sink, batch_id=batch.batch_id)
                report = None
            elif decision.found is not None:
                report = self._recovered(attempt, decision.found)
            else:
                report = self._write(attempt, fence, prepare)
            self._landed[batch.query_id] = batch.batch_id
            self._keep_keys_indexed()
        return report

    # --- steps 1 and 2 ---------------------------------------------------------------------------

    def _fenced(self) -> Fence:
        """The lease is taken before anything is read, so that what is read stays true."""
        if self._fence is None:
            lease = Lease.take(self._ledger.leases, self._target, self._clock)
            self._fence = Fence(lease, self._target)
        return self._fence

    def _decide(self, batch: Batch) -> Decision:
        with self._step(Step.SKIP, batch):  # 1
            if self._is_settled(batch):
                is_landed = batch.batch_id <= self._landed[batch.query_id]
                return Decision(Course.SKIP if is_landed else Course.WRITE)
            landed = self._ledger.landed(batch)
        with self._step(Step.RECOVER, batch):  # 2
            evidence = gather(self._target, batch, landed)
            decision = decide(evidence)
        self._seen_version = evidence.last_version or evidence.table_version
        if decision.notice is not None:
            warn("sink", decision.notice, sink=batch.sink, batch_id=batch.batch_id)
        if decision.last_batch is not None:
            self._on_record[batch.query_id] = decision.last_batch
        return decision

    def _is_settled(self, batch: Batch) -> bool:
        """Whether this driver has checked the query, and its batches on record lie behind it."""
        last_on_record = self._on_record.get(batch.query_id, -1)
        return batch.query_id in self._landed and batch.batch_id > last_on_record

    def _recovered(self, attempt: Attempt, found: Found) -> BatchReport:
        """The batch is in the table; its row is not in the ledger yet."""
        table = LanceTable.open(self._target.uri)
        report = attempt.report(RECOVERED, found.counts, version=found.version, table=table)
        self._ledger.record(report)
        self._seen_version = found.version
        announce("batch_recovered", report)
        return report

    # --- steps 3 to 6 ----------------------------------------------------------------------------

    def _write(self, attempt: Attempt, fence: Fence, prepare: Prepare) -> BatchReport:
        for _ in range(1, _MAX_PREPARATIONS):
            try:
                return self._write_once(attempt, fence, prepare)
            except RowsChangedError:
                warn("sink", "rows_changed", batch_id=attempt.batch.batch_id)
        return self._write_once(attempt, fence, prepare)

    def _write_once(self, attempt: Attempt, fence: Fence, prepare: Prepare) -> BatchReport:
        table = self._create_table()
        twin = self._twin(attempt.batch, fence, table)
        if twin is not None:
            return self._recovered(attempt, twin)
        return self._write_at(attempt, fence, table, prepare)

    def _twin(self, batch: Batch, fence: Fence, table: LanceTable) -> Found | None:
        """Another driver's commit of this batch; also clears up after drivers that were fenced."""
        others = stamps.find_all(table, batch, self._seen_version)
        if not others:
            return None
        fence.lease.check()
        fence.clear(other for other in others if self._ledger.is_repeated_by(other, batch))
        return next((other for other in others if other.is_of(batch)), None)

    def _write_at(
        self, attempt: Attempt, fence: Fence, table: LanceTable, prepare: Prepare
    ) -> BatchReport:
        batch = attempt.batch
        with self._step(Step.PREPARE, batch):  # 3
            prepared = prepare(table, attempt.started_at)
        with self._files_discarded(fence, table, prepared):
            # Nothing names the deletion files yet, so they need not wait for the burial.
            removal = self._background.submit(table.removal, prepared.places, prepared.where)
            with self._step(Step.BURY, batch):  # 4
                self._tombstones.bury(prepared.deleted, attempt.started_at, prepared.floor)
            committing = time.perf_counter()
            with self._step(Step.COMMIT, batch):  # 5
                landing = self._land(batch, fence, table, prepared, removal.result())
        if landing.twin is not None:
            if not fence.may_have_landed:
                try_to_discard(table, prepared.fragments)
            return self._recovered(attempt, landing.twin)
        commit_s = time.perf_counter() - committing
        with self._step(Step.RECORD, batch):  # 6
            fence.lease.check()
            report = attempt.report(
                self._status_of(batch),
                prepared.counts,
                version=landing.version,
                table=table,
                embed_s=prepared.embed_s,
                write_s=prepared.write_s,
                commit_s=commit_s,
            )
            self._ledger.record(report)
        self._seen_version = landing.version
        announce("batch_committed", report)
        return report

    def _land(
        self,
        batch: Batch,
        fence: Fence,
        table: LanceTable,
        prepared: Prepared,
        removal: Removal | None,
    ) -> Landing:
        if prepared.changes_table:
            return fence.land(batch, table, prepared, removal)
        return Landing(table.version)

    def _status_of(self, batch: Batch) -> str:
        is_replay = batch.batch_id <= self._on_record.get(batch.query_id, -1)
        return REPLAYED if is_replay else COMMITTED

    def _keep_keys_indexed(self) -> None:
        """Look-ups scan what the key's BTREE does not cover; a failure here costs only speed."""
        self._batches += 1
        key = self._target.key
        if key is None or self._batches % _INDEX_KEYS_EVERY:
            return
        try:
            LanceTable.open(self._target.uri).index_new_keys(key)
        except (StoreError, TableMissingError) as error:
            warn("sink", "key_index_failed", error=error)

    # --- around the steps ------------------------------------------------------------------------

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """With exclusive coordination: waits until the optimizer is done, which then waits."""
        if self._lock is None:
            yield
            return
        other = self._lock.take()
        if other is not None:
            emit("sink", "waiting", holder=other.sentence)
        while other is not None:
            time.sleep(_POLL_S)
            other = self._lock.take()
        with self._lock.renewed():
            yield

    @contextmanager
    def _step(self, step: Step, batch: Batch) -> Iterator[None]:
        self._probe(step, "before", batch.batch_id)
        yield
        self._probe(step, "after", batch.batch_id)

    @contextmanager
    def _files_discarded(
        self, fence: Fence, table: LanceTable, prepared: Prepared
    ) -> Iterator[None]:
        """After an error, data files go if the batch surely did not land, and stay otherwise."""
        fence.may_have_landed = False
        try:
            yield
        except Exception:
            if not fence.may_have_landed:
                try_to_discard(table, prepared.fragments)
            raise

    @contextmanager
    def _failures_recorded(self, attempt: Attempt) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # 7
            # What is remembered may be wrong now: the next try starts as after a restart.
            self._landed.pop(attempt.batch.query_id, None)
            sentence = f"{type(error).__name__}: {error}"[:2_000]
            warn("sink", "batch_failed", batch_id=attempt.batch.batch_id, error=sentence)
            self._record_failure(attempt.report(FAILED, Counts(), error=sentence))
            raise

    def _record_failure(self, report: BatchReport) -> None:
        try:
            self._ledger.record(report)
        except StoreError as error:
            # The first error is the one to see; that it could not be recorded is only logged.
            warn("sink", "failure_not_recorded", batch_id=report.batch_id, error=error)
