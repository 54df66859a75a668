"""`Repairs`: puts what a comparison found wrong right, behind the same fence as the batches.

A repair holds the lease of the sink whose table it mends, so that nobody else writes the table
meanwhile, and a driver that had it is fenced. Its commits carry a sink name of their own: to the
sink that owns the table they are as foreign as an optimizer's, and its batches go on unchanged.
Of the steps of the protocol, 1 and 2 fall away: a repair that was killed is not run again, but
another one is, which compares anew.

Guarantee: a repair replaces all rows of its keys in one commit, or nothing. It does so only if no
row of the table has changed since the comparison. A kill leaves what a killed batch leaves: data
files that no version names, and tombstones of deletes that the source has made.
"""

import os
import platform
import re
from collections.abc import Callable
from datetime import datetime
from typing import Final
from uuid import uuid4

from pyspark.sql import DataFrame

from freshet.clock import utc_now
from freshet.errors import CommitConflictError, SinkError, VersionMissingError
from freshet.rows import RowBuilder
from freshet.sink.commit_protocol import CommitProtocol
from freshet.sink.continuity import Course, Decision
from freshet.sink.fence import Fence
from freshet.sink.leases import Claim, Lease, newest_claim
from freshet.sink.ledger import BatchReport, Ledger
from freshet.sink.parts_executor import Sweep
from freshet.sink.prepared import Prepared
from freshet.sink.preparing import Preparing
from freshet.sink.repair_executor import Afresh, Replacement
from freshet.sink.stamps import Batch
from freshet.sink.steps import Probe, no_probe
from freshet.sink.target import Target
from freshet.sink.tombstones import Tombstones
from freshet.stores.lance_tables import LanceTable
from freshet.stores.locks import is_alive

REPAIR: Final = "repair"
"""The name by which repairs stand in the ledger."""
_PROCESS: Final = re.compile(r"process (\d+) on (.*)$")


class Repairs:
    """The repairs of one table; takes its lease at once."""

    def __init__(
        self,
        uri: str,
        *,
        ledger: Ledger,
        pipeline: str,
        sink: str,
        rows: RowBuilder,
        clock: Callable[[], datetime] = utc_now,
        probe: Probe = no_probe,
    ) -> None:
        self._rows = Afresh(rows)
        self._tombstones = Tombstones.beside(uri)
        self._preparing = Preparing("key")
        self._batch = Batch(pipeline, REPAIR, uuid4().hex, 0)
        self._compared_at = 0
        self._protocol = _RepairProtocol(
            Target(uri, pipeline, REPAIR),
            lease=Lease.take(ledger.leases, Target(uri, pipeline, sink), clock, REPAIR),
            create_table=lambda: unchanged_since(uri, self._compared_at),
            ledger=ledger,
            tombstones=self._tombstones,
            clock=clock,
            probe=probe,
        )

    def write(self, records: DataFrame, *, number: int, compared_at: int) -> BatchReport | None:
        """Replaces all rows of the records' keys; a record that is deleted leaves none.

        Raises `CommitConflictError` if rows have changed since the version that was compared, and
        `FencedError` if another driver has begun to write the table.
        """
        self._compared_at = compared_at
        batch = Batch(self._batch.pipeline, REPAIR, self._batch.query_id, number)
        return self._protocol.write(batch, lambda table, at: self._prepare(records, table, at))

    def _prepare(self, records: DataFrame, table: LanceTable, at: datetime) -> Prepared:
        replacement = Replacement(
            uri=table.uri,
            version=table.version,
            tombstones_uri=self._tombstones.uri,
            key="key",
            record_version="record_version",
            deleted="is_deleted",
            builder=self._rows,
            at=at,
        )
        sweep = Sweep(table.uri, table.version, self._rows.schema)
        return self._preparing.run(records, replacement, sweep)


class _RepairProtocol(CommitProtocol):
    """The commit protocol for batches that are new for certain, under a lease that is held."""

    def __init__(
        self,
        target: Target,
        *,
        lease: Lease,
        create_table: Callable[[], LanceTable],
        ledger: Ledger,
        tombstones: Tombstones,
        clock: Callable[[], datetime],
        probe: Probe,
    ) -> None:
        super().__init__(
            target,
            create_table=create_table,
            ledger=ledger,
            tombstones=tombstones,
            clock=clock,
            probe=probe,
        )
        self._fence = Fence(lease, target)

    def _decide(self, batch: Batch) -> Decision:
        # A twin could only stand in versions that are newer than this one.
        self._seen_version = LanceTable.open(self._target.uri).version
        return Decision(Course.WRITE)


def unchanged_since(uri: str, version: int) -> LanceTable:
    """The table as it is now; `CommitConflictError` if rows came or went since a version."""
    table = LanceTable.open(uri)
    try:
        changed = [one.version for one in table.history(version) if one.changes_rows]
    except VersionMissingError:
        changed = [version]
    if changed:
        raise CommitConflictError("repair", uri, f"rows changed at version {min(changed)}")
    return table


def check_nobody_writes(ledger: Ledger, pipeline: str, sink: str) -> None:
    """Raises `SinkError` if a driver that would be fenced is running, or may be."""
    claim = newest_claim(ledger.leases, pipeline, sink)
    why = None if claim is None else _why_it_may_run(claim)
    if why is not None:
        raise SinkError(
            f"{why}: a repair would end it. Stop `freshet run` first, or say --force to take over: "
            "the run then ends with an error, and goes on when it is started again"
        )


def _why_it_may_run(claim: Claim) -> str | None:
    found = _PROCESS.search(claim.host)
    if found is None:
        return f"{claim.host} writes the index, and may be running"
    process, machine = int(found.group(1)), found.group(2)
    if machine != platform.node():
        return f"{claim.host} was the last to write the index, and may be running"
    if process == os.getpid() or not is_alive(process):
        return None
    return f"{claim.host} writes the index, and is running"
