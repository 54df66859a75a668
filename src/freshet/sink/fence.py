"""Step 5 of the commit protocol: land a prepared batch once, whoever else tries to.

A Lance append is not a compare-and-swap: two drivers that prepared the same batch can both land it.
So the lease is checked right before the commit, and the commits between the version that was read
and the own one are searched for a twin afterwards. Who finds one came second and withdraws.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa

from freshet.errors import CommitConflictError, CommitUnknownError, HistoryMissingError, StoreError
from freshet.events import warn
from freshet.sink import stamps
from freshet.sink.leases import Lease
from freshet.sink.stamps import Batch, Counts, Found
from freshet.sink.target import Mode, Target
from freshet.stores.lance_commits import Removal
from freshet.stores.lance_tables import ROW_ADDRESS, LanceTable
from freshet.stores.lance_withdrawals import withdraw

_MAX_CONFLICTS: Final = 20
_LONGEST_PAUSE_S: Final = 1.0


class Landable(Protocol):
    """What is to be committed."""

    @property
    def fragments(self) -> Sequence[str]:
        """New fragments, as JSON."""
        ...

    @property
    def gone(self) -> Sequence[Any]:
        """Keys whose current rows leave."""
        ...

    @property
    def where(self) -> str | None:
        """A condition by which rows leave; None if they leave by their keys."""
        ...

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of the whole table; needed to overwrite it."""
        ...

    @property
    def counts(self) -> Counts:
        """What goes into the stamp."""
        ...


@dataclass(frozen=True)
class Landing:
    """Where a batch landed."""

    version: int
    twin: Found | None = None
    """The commit of another driver that landed the batch, if it was not this one."""


class RowsChangedError(CommitConflictError):
    """Another writer changed rows since they were judged: the batch must be prepared anew."""


@dataclass
class Fence:
    """Commits for one driver; `may_have_landed` tells whether files must be kept after an error."""

    lease: Lease
    target: Target
    may_have_landed: bool = field(default=False, init=False)

    def land(
        self, batch: Batch, table: LanceTable, prepared: Landable, removal: Removal | None
    ) -> Landing:
        """One commit; raises `FencedError` if this driver has lost its lease."""
        pinned, stamp = table.version, batch.stamp(self.lease.owner, prepared.counts)
        self.may_have_landed = False
        for attempt in range(_MAX_CONFLICTS):
            self.lease.check()
            try:
                self.may_have_landed = True
                version = self._commit(table, prepared, removal, stamp)
            except CommitConflictError as conflict:
                self.may_have_landed = False
                warn("sink", "commit_conflict", batch_id=batch.batch_id, attempt=attempt + 1)
                time.sleep(min(_LONGEST_PAUSE_S, 0.01 * 2**attempt))
                table = table.reopened()
                if twin := stamps.find(table, batch, pinned):
                    return self._landed_by(twin)
                self._check_rows(table, pinned, conflict)
                removal = self._removal(table, prepared)
            except StoreError as error:
                return self._look_for(batch, table, pinned, error)
            else:
                return self._without_twin(batch, table, pinned, version)
        raise CommitConflictError("commit to", table.uri, f"{_MAX_CONFLICTS} conflicts in a row")

    def _commit(
        self, table: LanceTable, prepared: Landable, removal: Removal | None, stamp: dict[str, str]
    ) -> int:
        if self.target.mode is Mode.COMPLETE and prepared.schema is not None:
            return table.overwrite(prepared.schema, prepared.fragments, stamp)
        return table.commit(removal, prepared.fragments, stamp)

    def _removal(self, table: LanceTable, prepared: Landable) -> Removal | None:
        """Finds the rows that leave in a newer version, where they may lie elsewhere."""
        key = self.target.key
        if key is None:
            return None
        if prepared.where is not None:
            return table.removal((), prepared.where)
        return table.removal(
            table.lookup(key, prepared.gone, [key]).column(ROW_ADDRESS).to_pylist()
        )

    def _check_rows(self, table: LanceTable, pinned: int, conflict: CommitConflictError) -> None:
        """Rows were judged at the pinned version; an optimizer's commit keeps that true."""
        if self.target.mode is Mode.UPDATE and any(c.changes_rows for c in table.history(pinned)):
            raise RowsChangedError(conflict.action, conflict.uri, conflict.reason) from conflict

    def clear(self, twins: Iterable[Found]) -> None:
        """Withdraws what fenced drivers landed for a second time.

        They do so themselves, unless they are killed before they can.
        """
        for twin in twins:
            self._withdraw(twin)

    def _without_twin(self, batch: Batch, table: LanceTable, pinned: int, version: int) -> Landing:
        if version == pinned + 1:
            return Landing(version)
        landed = [
            one
            for one in stamps.find_all(LanceTable.open(table.uri, version=version), batch, pinned)
            if one.is_of(batch)
        ]
        if landed[0].version == version:
            return Landing(version)
        self._withdraw(landed[-1])
        return self._landed_by(landed[0])

    def _withdraw(self, twin: Found) -> None:
        rows = withdraw(self.target.uri, twin.commit)
        warn(
            "sink", "batch_withdrawn", batch_id=twin.batch_id, table_version=twin.version, rows=rows
        )

    def _look_for(self, batch: Batch, table: LanceTable, pinned: int, error: StoreError) -> Landing:
        """Where a commit landed whose answer was lost; the error again if it did not."""
        try:
            landed = stamps.find_all(table.reopened(), batch, pinned)
        except (StoreError, HistoryMissingError) as blind:
            raise CommitUnknownError(
                table=table.uri, batch_id=batch.batch_id, cause=error
            ) from blind
        mine = next((one for one in landed if one.is_of(batch)), None)
        if mine is None:
            raise error
        warn("sink", "commit_found", batch_id=batch.batch_id, table_version=mine.version)
        if mine.writer != self.lease.owner:
            return self._landed_by(mine)
        return Landing(mine.version)

    def _landed_by(self, twin: Found) -> Landing:
        """The batch is in the table once; whether this driver may go on is the lease's to say."""
        self.lease.check()
        return Landing(twin.version, twin)


def try_to_discard(table: LanceTable, fragments: Sequence[str]) -> None:
    """Removes data files that surely did not land; what cannot be removed costs only space."""
    try:
        table.discard(fragments)
    except StoreError as error:
        warn("sink", "files_left_behind", files=len(fragments), error=error)
