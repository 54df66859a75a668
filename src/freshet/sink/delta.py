"""`DeltaSink`: writes the micro-batches of any DataFrame to a Delta table."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from freshet.clock import utc_now
from freshet.errors import StoreError
from freshet.sink.batch_store import Outcome, OvertakenError, Standing
from freshet.sink.delta_merge import Extent, Merge, fit, quoted
from freshet.sink.named_columns import check_named
from freshet.sink.stamps import Batch, Counts, is_stamp_of, mark_of
from freshet.sink.store_sink import StoreSink
from freshet.sink.target import Mode, mode_named
from freshet.stores.delta_conflicts import SPARK_ERRORS, came_first
from freshet.stores.delta_marks import LogMarks, log_marks

_APPLICATION: Final = "spark.databricks.delta.write.txnAppId"
_NUMBER: Final = "spark.databricks.delta.write.txnVersion"
_METADATA: Final = "spark.databricks.delta.commitInfo.userMetadata"


class DeltaSink(StoreSink):
    """A function for `foreachBatch` that writes a Delta table, one commit a batch.

    `update` (the default) upserts and deletes by key with MERGE, `append` adds rows, `complete`
    makes each batch the whole table. A missing table is made; columns that it lacks are added.

    Guarantee: every micro-batch takes effect exactly once and whole: its mark and Delta's own
    transaction number are in the same commit, and a number is taken once, by whichever driver comes
    first. With `update`, of several events of a key the greatest version wins, in a batch and over
    all batches; an older event never undoes a newer one, and a deleted key does not come back (the
    table `…_tombstones`, written before the rows leave). Without a version (`version=None`) the
    later batch wins. A crash may leave data files that no version names, for `VACUUM` to remove.
    """

    def __init__(
        self,
        uri: str,
        *,
        ledger: str,
        pipeline: str,
        sink: str = "delta",
        mode: str = Mode.UPDATE,
        key: str = "key",
        version: str | None = "record_version",
        deleted: str | None = "is_deleted",
        partition_by: Sequence[str] = (),
        prune: bool = True,
        prune_by: Sequence[str] = (),
        tombstone_retention: timedelta | None = None,
        **told: Any,
    ) -> None:
        chosen = mode_named(mode)
        is_keyed = chosen is Mode.UPDATE
        store = DeltaStore(
            uri,
            chosen,
            key if is_keyed else None,
            version if is_keyed else None,
            deleted if is_keyed else None,
            tuple(partition_by),
            prune,
            tuple(prune_by),
            tombstone_retention,
        )
        super().__init__(store, ledger=ledger, pipeline=pipeline, sink=sink, **told)


@dataclass(frozen=True)
class DeltaStore:
    """A Delta table that batches are written to."""

    uri: str
    mode: Mode
    key: str | None
    version: str | None
    deleted: str | None
    partition_by: tuple[str, ...]
    is_pruned: bool
    prune_by: tuple[str, ...]
    retention: timedelta | None

    @property
    def place(self) -> str:
        """The table."""
        return self.uri

    def standing(self, batch: Batch) -> Standing | None:
        """What the table's log says."""
        found = self.marks(batch)
        if found is None:
            return None
        newest = None if found.stamp is None else mark_of(found.stamp, found.stamped_version)
        return Standing(found.table_id, found.version, found.number, newest, found.restored_at)

    def marks(self, batch: Batch) -> LogMarks | None:
        """The newest commit of the batch's sink."""
        return log_marks(self.uri, application(batch), lambda told: is_stamp_of(told, batch))

    def prepare(self, rows: DataFrame, batch: Batch) -> "Prepared":
        """Makes the table fit, and chooses the newest event of each key."""
        check_named(rows, key=self.key, version=self.version, deleted=self.deleted)
        if self.key is None:
            return Prepared(self, batch, rows)
        columns = [name for name in rows.columns if name != self.deleted]
        told = (self.is_pruned, self.prune_by, self.retention)
        merge = Merge(self.uri, self.key, self.version, tuple(columns), *told)
        newest = merge.newest(self._events(rows)).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            keyed = Keyed(merge, merge.extent(newest))
            with _translated("make fit", self.uri):
                fit(self.uri, rows.select(*columns), self.partition_by)
        except BaseException:
            newest.unpersist()
            raise
        return Prepared(self, batch, newest, keyed)

    def _events(self, rows: DataFrame) -> DataFrame:
        """The rows, with `is_deleted` and the version under the names that a merge uses."""
        deleted = F.lit(False)
        if self.deleted is not None:
            deleted = F.coalesce(F.col(quoted(self.deleted)), F.lit(False))
        version = F.lit("") if self.version is None else F.col(quoted(self.version))
        return rows.withColumns({Merge.DELETED: deleted, Merge.VERSION: version})


@dataclass(frozen=True)
class Keyed:
    """How rows are merged, and what is known of them."""

    merge: Merge
    extent: Extent


@dataclass(frozen=True)
class Prepared:
    """A batch whose rows are at hand: those that came, or the newest of each key."""

    store: DeltaStore
    batch: Batch
    rows: DataFrame
    keyed: Keyed | None = None

    def land(self, owner: str, after: int) -> Outcome:
        """One commit, whose transaction number can be taken only once."""
        with _translated("commit to", self.store.uri):
            counts = Counts(rows_in=0 if self.keyed is None else self.keyed.extent.rows)
            told = {
                _APPLICATION: application(self.batch),
                _NUMBER: str(after + 1),
                _METADATA: json.dumps(self.batch.stamp(owner, counts)),
            }
            if self.keyed is None:
                self._write(told)
            else:
                self._merge(self.keyed, told, after + 1)
        return self._outcome(owner, after, counts)

    def discard(self) -> None:
        """Lets go of what Spark holds of the rows."""
        if self.keyed is not None:
            self.rows.unpersist()

    def _merge(self, keyed: Keyed, told: dict[str, str], number: int) -> None:
        keyed.merge.bury(self.rows, keyed.extent, utc_now(), number)
        with _said(self.rows.sparkSession, told):
            keyed.merge.run(self.rows, keyed.extent)

    def _write(self, told: dict[str, str]) -> None:
        is_whole = self.store.mode is Mode.COMPLETE
        writer = self.rows.write.format("delta").mode("overwrite" if is_whole else "append")
        writer = writer.option("overwriteSchema" if is_whole else "mergeSchema", "true")
        writer = writer.option("txnAppId", told[_APPLICATION]).option("txnVersion", told[_NUMBER])
        if self.store.partition_by:
            writer = writer.partitionBy(*self.store.partition_by)
        writer.option("userMetadata", told[_METADATA]).save(self.store.uri)

    def _outcome(self, owner: str, after: int, counts: Counts) -> Outcome:
        """Delta leaves out in silence what has a number that is taken, so its log is looked at."""
        found = self.store.marks(self.batch)
        stamp = None if found is None else found.stamp
        mark = None if found is None or stamp is None else mark_of(stamp, found.stamped_version)
        is_own = mark is not None and mark.writer == owner and mark.is_of(self.batch)
        if found is None or mark is None or not is_own or found.number != after + 1:
            raise OvertakenError("commit to", self.store.uri, "another batch came first")
        done = found.metrics
        if self.keyed is None:
            written = done.get("numOutputRows", 0)
            counts = replace(counts, rows_in=written, rows_upserted=written)
        else:
            upserted = done.get("numTargetRowsInserted", 0) + done.get("numTargetRowsUpdated", 0)
            deleted = done.get("numTargetRowsDeleted", 0)
            counts = replace(counts, rows_upserted=upserted, rows_deleted=deleted)
        return Outcome(found.table_id, mark.version, counts)


def application(batch: Batch) -> str:
    """Under which name the sink's transactions are numbered in a table's log."""
    return f"freshet:{batch.pipeline}:{batch.sink}"


@contextmanager
def _said(spark: SparkSession, told: dict[str, str]) -> Iterator[None]:
    """What statements in the block carry; the session's own settings come back after it."""
    before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in told}
    try:
        for name, value in told.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, own in before.items():
            if own is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, own)


@contextmanager
def _translated(action: str, uri: str) -> Iterator[None]:
    """Spark's errors become ours; a commit that came first is told from all others."""
    try:
        yield
    except SPARK_ERRORS as error:
        if came_first(error):
            raise OvertakenError(action, uri, error) from error
        raise StoreError(action, uri, error) from error
