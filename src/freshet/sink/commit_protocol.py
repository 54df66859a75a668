"""The commit protocol: one micro-batch is one Lance commit that carries deletes, rows and stamp.

1. Skip      the ledger says that this batch has landed: nothing is written.
2. Recover   first batch after a start or a failure only: the stamp of this batch stands in a
             commit newer than the ledger's last row: only the missing row is written.
3. Prepare   on executors: judge events against the table at one pinned version, make rows, write
             data files. Nothing is visible yet.
4. Bury      deleted keys and their versions go to the tombstones, before the rows leave.
5. Commit    deletion vectors, new fragments and the stamp, in one step. After a conflict with the
             optimizer this step alone is done again. An unknown outcome is looked up by the stamp.
6. Record    one ledger row. Only then has the batch ended.
7. Fail      any error is recorded as failed and raised again, so that Spark sees it.

Guarantee: each batch takes effect exactly once, however often it is run, as long as one driver
writes the table. A crash may leave data files that no version names and tombstones that the replay
makes true; it never leaves rows of half a batch.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol

from freshet.errors import CommitConflictError, CommitUnknownError, HistoryMissingError, StoreError
from freshet.events import emit, warn
from freshet.sink import stamps
from freshet.sink.ledger import COMMITTED, FAILED, RECOVERED, BatchReport, Counts, Ledger
from freshet.sink.stamps import Batch
from freshet.sink.tombstones import Tombstones
from freshet.stores.lance_tables import LanceTable, Removal

_MAX_CONFLICTS: Final = 20
_INDEX_KEYS_EVERY: Final = 16


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


@dataclass(frozen=True)
class Prepared:
    """What the executors made of a batch."""

    fragments: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    """Keys whose current rows leave the table."""
    deleted: Mapping[str, str] = field(default_factory=dict)
    """Deleted keys with the versions that deleted them."""
    counts: Counts = field(default_factory=Counts)
    embed_s: float = 0.0
    write_s: float = 0.0

    @property
    def changes_table(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self.fragments or self.gone)


@dataclass(frozen=True)
class _Run:
    """One try at a batch."""

    batch: Batch
    clock: Callable[[], datetime]
    started_at: datetime
    started: float = field(default_factory=time.perf_counter)

    def report(
        self,
        status: str,
        prepared: Prepared,
        *,
        version: int | None = None,
        commit_s: float = 0.0,
        error: str | None = None,
    ) -> BatchReport:
        """The ledger row of this try, ended now."""
        return BatchReport(
            pipeline=self.batch.pipeline,
            sink=self.batch.sink,
            query_id=self.batch.query_id,
            batch_id=self.batch.batch_id,
            status=status,
            table_version=version,
            counts=prepared.counts,
            embed_s=prepared.embed_s,
            write_s=prepared.write_s,
            commit_s=commit_s,
            total_s=time.perf_counter() - self.started,
            started_at=self.started_at,
            finished_at=self.clock(),
            error=error,
        )


class CommitProtocol:
    """Runs batches through the steps. Remembers the last landed batch of each query, no rows."""

    def __init__(
        self,
        *,
        key: str,
        create_table: Callable[[], LanceTable],
        ledger: Ledger,
        tombstones: Tombstones,
        clock: Callable[[], datetime],
        probe: Probe = no_probe,
    ) -> None:
        self._key = key
        self._create_table = create_table
        self._ledger = ledger
        self._tombstones = tombstones
        self._clock = clock
        self._probe = probe
        self._background = ThreadPoolExecutor(1, "freshet-sink")
        self._landed: dict[str, int] = {}
        self._batches = 0

    def write(
        self, batch: Batch, prepare: Callable[[LanceTable, datetime], Prepared]
    ) -> BatchReport | None:
        """Makes the batch take effect exactly once; None if there was nothing to do."""
        run = _Run(batch, self._clock, self._clock())
        emit("sink", "batch_started", sink=batch.sink, batch_id=batch.batch_id)
        with self._failures_recorded(run):
            if self._has_landed(batch):
                emit("sink", "batch_skipped", sink=batch.sink, batch_id=batch.batch_id)
                return None
            table = self._create_table()
            report = self._recover(run, table) or self._write(run, table, prepare)
        self._landed[batch.query_id] = batch.batch_id
        self._keep_keys_indexed(table)
        return report

    def _has_landed(self, batch: Batch) -> bool:
        with self._step(Step.SKIP, batch):  # 1
            last = self._landed.get(batch.query_id)
            if last is None:
                last = self._ledger.last_landed(batch.pipeline, batch.sink, batch.query_id)
            return last is not None and batch.batch_id <= last

    def _recover(self, run: _Run, table: LanceTable) -> BatchReport | None:
        if run.batch.query_id in self._landed:
            return None
        with self._step(Step.RECOVER, run.batch):  # 2
            after = self._ledger.last_version(run.batch.pipeline, run.batch.sink)
            found = stamps.find(table, run.batch, after)
            if found is None:
                return None
            prepared = Prepared(counts=found.counts)
            report = run.report(RECOVERED, prepared, version=found.version)
            self._ledger.record(report)
        _announce("batch_recovered", report)
        return report

    def _write(
        self,
        run: _Run,
        table: LanceTable,
        prepare: Callable[[LanceTable, datetime], Prepared],
    ) -> BatchReport | None:
        with self._step(Step.PREPARE, run.batch):  # 3
            prepared = prepare(table, run.started_at)
        if prepared.counts.rows_in == 0:
            return None
        # Looking for the rows that leave changes nothing, so it need not wait for the burial.
        removal = self._background.submit(table.removal, self._key, prepared.gone)
        with self._step(Step.BURY, run.batch):  # 4
            self._tombstones.bury(prepared.deleted, run.started_at)
        committing = time.perf_counter()
        with self._step(Step.COMMIT, run.batch):  # 5
            version = self._commit(run.batch, table, prepared, removal.result())
        commit_s = time.perf_counter() - committing
        with self._step(Step.RECORD, run.batch):  # 6
            report = run.report(COMMITTED, prepared, version=version, commit_s=commit_s)
            self._ledger.record(report)
        _announce("batch_committed", report)
        return report

    def _commit(
        self, batch: Batch, table: LanceTable, prepared: Prepared, removal: Removal | None
    ) -> int:
        if not prepared.changes_table:
            return table.version
        stamp = batch.stamp_with(prepared.counts)
        pinned = table.version
        for attempt in range(1, _MAX_CONFLICTS):
            try:
                return table.commit(removal, prepared.fragments, stamp)
            except CommitConflictError:
                warn("sink", "commit_conflict", batch_id=batch.batch_id, attempt=attempt)
                table = table.reopened()
                removal = table.removal(self._key, prepared.gone)
            except StoreError as error:
                return _look_for(table, batch, pinned, error)
        return table.commit(removal, prepared.fragments, stamp)

    def _keep_keys_indexed(self, table: LanceTable) -> None:
        """Look-ups scan what the key's BTREE does not cover; a failure here costs only speed."""
        self._batches += 1
        if self._batches % _INDEX_KEYS_EVERY:
            return
        try:
            table.reopened().index_new_keys(self._key)
        except StoreError as error:
            warn("sink", "key_index_failed", error=error)

    @contextmanager
    def _step(self, step: Step, batch: Batch) -> Iterator[None]:
        self._probe(step, "before", batch.batch_id)
        yield
        self._probe(step, "after", batch.batch_id)

    @contextmanager
    def _failures_recorded(self, run: _Run) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # 7
            # What is remembered may be wrong now: the next try starts as after a restart.
            self._landed.pop(run.batch.query_id, None)
            sentence = f"{type(error).__name__}: {error}"[:2_000]
            warn("sink", "batch_failed", batch_id=run.batch.batch_id, error=sentence)
            self._record_failure(run.report(FAILED, Prepared(), error=sentence))
            raise

    def _record_failure(self, report: BatchReport) -> None:
        try:
            self._ledger.record(report)
        except StoreError as error:
            # The first error is the one to see; that it could not be recorded is only logged.
            warn("sink", "failure_not_recorded", batch_id=report.batch_id, error=error)


def _look_for(table: LanceTable, batch: Batch, after: int, error: StoreError) -> int:
    """The version of a commit whose answer was lost; the error again if it did not land."""
    try:
        found = stamps.find(table.reopened(), batch, after)
    except (StoreError, HistoryMissingError) as blind:
        raise CommitUnknownError(table=table.uri, batch_id=batch.batch_id, cause=error) from blind
    if found is None:
        raise error
    warn("sink", "commit_found", batch_id=batch.batch_id, table_version=found.version)
    return found.version


def _announce(event: str, report: BatchReport) -> None:
    counts = report.counts
    emit(
        "sink",
        event,
        sink=report.sink,
        batch_id=report.batch_id,
        table_version=report.table_version,
        rows_in=counts.rows_in,
        upserted=counts.rows_upserted,
        deleted=counts.rows_deleted,
        stale=counts.rows_stale,
        embedded=counts.rows_embedded,
        reused=counts.rows_reused,
        embed_s=report.embed_s,
        write_s=report.write_s,
        commit_s=report.commit_s,
        duration_s=report.total_s,
    )
