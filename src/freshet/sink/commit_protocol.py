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
from typing import Final

from freshet.errors import StoreError, TableMissingError
from freshet.events import emit, warn
from freshet.sink import stamps
from freshet.sink.bookkeeping import Bookkeeping
from freshet.sink.continuity import Course, gather, table_id_of
from freshet.sink.fence import Fence, Landing, RowsChangedError, try_to_discard
from freshet.sink.ledger import Attempt, BatchReport, Ledger, announce
from freshet.sink.prepared import Prepare, Prepared
from freshet.sink.stamps import Batch, Found, Mark
from freshet.sink.steps import Probe, Step, no_probe
from freshet.sink.target import Target
from freshet.sink.tombstones import Tombstones
from freshet.stores.lance_commits import Removal
from freshet.stores.lance_tables import LanceTable
from freshet.stores.locks import ExpiringLock

_MAX_PREPARATIONS: Final = 3
_INDEX_KEYS_EVERY: Final = 4
_POLL_S: Final = 0.05


class CommitProtocol:
    """Runs the batches of a Lance table through the steps; holds no rows between them."""

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
        self._tombstones = tombstones
        self._lock = lock
        self._books = Bookkeeping(target, ledger, gather, clock, probe)
        self._background = ThreadPoolExecutor(1, "freshet-sink")
        self._fence: Fence | None = None
        self._batches = 0

    def write(self, batch: Batch, prepare: Prepare) -> BatchReport | None:
        """Makes the batch take effect exactly once; None if it had taken effect before."""
        with self._books.attempt(batch) as attempt, self._turn():
            fence = self._fenced()
            decision = self._books.decide(batch)
            if decision.course is Course.SKIP:
                report = None
            elif decision.found is not None:
                report = self._recovered(attempt, decision.found)
            else:
                report = self._write(attempt, fence, prepare)
            self._keep_keys_indexed()
        return report

    def _fenced(self) -> Fence:
        lease = self._books.lease()
        if self._fence is None:
            self._fence = Fence(lease, self._target)
        return self._fence

    def _recovered(self, attempt: Attempt, found: Mark) -> BatchReport:
        table = LanceTable.open(self._target.uri)
        return self._books.recovered(attempt, found, table_id_of(table))

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
        others = stamps.find_all(table, batch, self._books.seen_version)
        if not others:
            return None
        fence.lease.check()
        fence.clear(other for other in others if self._books.ledger.is_repeated_by(other, batch))
        return next((other for other in others if other.is_of(batch)), None)

    def _write_at(
        self, attempt: Attempt, fence: Fence, table: LanceTable, prepare: Prepare
    ) -> BatchReport:
        batch = attempt.batch
        with self._books.step(Step.PREPARE, batch):  # 3
            prepared = prepare(table, attempt.started_at)
        with self._files_discarded(fence, table, prepared):
            # Nothing names the deletion files yet, so they need not wait for the burial.
            removal = self._background.submit(table.removal, prepared.places, prepared.where)
            with self._books.step(Step.BURY, batch):  # 4
                self._tombstones.bury(prepared.deleted, attempt.started_at, prepared.floor)
            committing = time.perf_counter()
            with self._books.step(Step.COMMIT, batch):  # 5
                landing = self._land(batch, fence, table, prepared, removal.result())
        if landing.twin is not None:
            if not fence.may_have_landed:
                try_to_discard(table, prepared.fragments)
            return self._recovered(attempt, landing.twin)
        commit_s = time.perf_counter() - committing
        with self._books.step(Step.RECORD, batch):  # 6
            fence.lease.check()
            report = attempt.report(
                self._books.status_of(batch),
                prepared.counts,
                version=landing.version,
                table_id=table_id_of(table),
                embed_s=prepared.embed_s,
                write_s=prepared.write_s,
                commit_s=commit_s,
            )
            self._books.ledger.record(report)
        self._books.seen_version = landing.version
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
