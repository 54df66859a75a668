"""`LanceSink`: writes the micro-batches of any DataFrame to a Lance table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame

from freshet import schemas
from freshet.clock import utc_now
from freshet.errors import CommitConflictError, ModelMismatchError, SinkError
from freshet.events import emit, warn
from freshet.rows import RowBuilder
from freshet.sink.columns import PlainRows, Reshaping, additions, columns_of, reshaping
from freshet.sink.commit_protocol import CommitProtocol
from freshet.sink.copy_executor import Copying
from freshet.sink.fence import try_to_discard
from freshet.sink.ledger import BatchReport, Ledger
from freshet.sink.named_columns import check_named
from freshet.sink.parts_executor import Sweep
from freshet.sink.prepare_executor import Preparation
from freshet.sink.prepared import Prepared
from freshet.sink.preparing import Preparing
from freshet.sink.spark_queries import offsets_of, query_id_of
from freshet.sink.stamps import Batch
from freshet.sink.steps import Probe, no_probe
from freshet.sink.target import Mode, Target, mode_named
from freshet.sink.tombstones import Tombstones
from freshet.stores import lance_columns
from freshet.stores.lance_tables import LanceTable
from freshet.stores.locks import ExpiringLock
from freshet.stores.sql import is_among, quoted

_MAX_CONFLICTS: Final = 10

Settle = Callable[[Sequence[Any]], DataFrame]
"""The rows of a batch, with those of some keys made of more than the batch tells of them."""


class LanceSink:
    """A function for `foreachBatch` that writes a Lance table, one commit a batch.

    `update` (the default) upserts and deletes by key, `append` adds rows, `complete` makes each
    batch the whole table. A missing table is made; columns that it lacks are added.

    Guarantee: every micro-batch takes effect exactly once, also when Spark runs it again after a
    crash at any moment, and when several drivers try to write it. With `update`, of several events
    of a key the greatest version wins, in a batch and over all batches; an older event never undoes
    a newer one, and a deleted key does not come back. Without a version (`version=None`) the later
    batch wins. What a crash may leave behind, and why it does no harm, is said in
    `commit_protocol`; what a lost or replaced checkpoint, ledger or table means, in `continuity`.
    """

    def __init__(
        self,
        uri: str,
        *,
        ledger: str,
        pipeline: str,
        sink: str = "index",
        mode: str = Mode.UPDATE,
        key: str = "key",
        version: str | None = "record_version",
        deleted: str | None = "is_deleted",
        vectors: Mapping[str, int] | None = None,
        takes_over: bool = False,
        rows: RowBuilder | None = None,
        partitions: int | None = None,
        tombstone_retention: timedelta | None = None,
        lock: ExpiringLock | None = None,
        on_batch: Callable[[BatchReport], None] | None = None,
        clock: Callable[[], datetime] = utc_now,
        probe: Probe = no_probe,
    ) -> None:
        chosen = mode_named(mode)
        is_keyed = chosen is Mode.UPDATE
        self._target = Target(uri, pipeline, sink, chosen, key if is_keyed else None, takes_over)
        self._key = key
        self._version = version if is_keyed else None
        self._deleted = deleted if is_keyed else None
        self._vectors = vectors or {}
        self._rows = rows
        self._retired: tuple[str, ...] = ()
        self._on_batch = on_batch
        self._preparing = Preparing(self._target.key, partitions)
        self._columns = pa.schema([])  # those of the batch that is being written
        self._tombstones = Tombstones.beside(uri, tombstone_retention)
        self._protocol = CommitProtocol(
            self._target,
            create_table=self._table,
            ledger=Ledger(ledger),
            tombstones=self._tombstones,
            clock=clock,
            lock=lock,
            probe=probe,
        )

    def __call__(
        self, rows: DataFrame, batch_id: int, *, floor: str = "", settle: Settle | None = None
    ) -> None:
        """Writes one micro-batch; raises what went wrong, so that Spark sees it."""
        query_id = query_id_of(rows)
        if query_id is None:
            raise SinkError("a LanceSink is called by foreachBatch of a streaming query only")
        offsets = offsets_of(rows, query_id, batch_id)
        self.write(
            rows, query_id=query_id, batch_id=batch_id, offsets=offsets, floor=floor, settle=settle
        )

    def write(
        self,
        rows: DataFrame,
        *,
        query_id: str,
        batch_id: int,
        offsets: str | None = None,
        floor: str = "",
        settle: Settle | None = None,
    ) -> BatchReport | None:
        """Writes one batch under a given query id; None if it had been written before.

        `offsets` says where the batch ends in its sources. A batch of a known number that ends
        elsewhere is another batch, made anew by an older checkpoint. Rows whose version is below
        the `floor` leave the table, and none comes back later.
        """
        if self._rows is None:
            check_named(rows, key=self._target.key, version=self._version, deleted=self._deleted)
            self._columns = columns_of(rows, self._vectors, without=self._deleted)
        batch = Batch(self._target.pipeline, self._target.sink, query_id, batch_id, offsets)
        is_read: list[bool] = []

        def prepare(table: LanceTable, at: datetime) -> Prepared:
            is_read.append(True)
            return self._prepare_settled(rows, table, at, floor, settle)

        report = self._protocol.write(batch, prepare)
        if not is_read:
            # Spark fails a query whose state was not computed, also for a batch that has landed.
            rows.write.format("noop").mode("overwrite").save()
        if report is not None and report.counts.rows_in and self._on_batch is not None:
            self._on_batch(report)
        return report

    def check(self) -> None:
        """Raises if the table is there and was made for other rows; makes nothing."""
        if self._rows is not None and LanceTable.exists(self._target.uri):
            self._reshaping(LanceTable.open(self._target.uri), self._rows)

    def use(self, rows: RowBuilder, *, retired: Sequence[str] = ()) -> None:
        """The next batches are made of these rows; columns that are retired leave the table.

        A table whose attributes are all columns of the records gets the columns of its rows when
        the next batch is written; any other one must have them.
        """
        self._rows, self._retired = rows, tuple(retired)

    def fit(self) -> None:
        """Gives the table the columns of its rows now, and not with the next batch, if it is there.

        A crash at any point leaves a table that the next call mends.
        """
        if self._rows is not None and LanceTable.exists(self._target.uri):
            self._fitted(self._rows)

    def _table(self) -> LanceTable:
        """The table, made if absent; an error if it was made for other rows."""
        uri, key = self._target.uri, self._target.key
        if self._rows is not None:
            rows = self._rows
            LanceTable.create(uri, rows.schema, key=key, metadata=rows.metadata)
            return self._fitted(rows)
        return fitting_table(uri, self._columns, key=key)

    def _fitted(self, rows: RowBuilder) -> LanceTable:
        for _ in range(_MAX_CONFLICTS):
            table = LanceTable.open(self._target.uri)
            steps = self._reshaping(table, rows)
            if not steps.is_needed:
                return table
            try:
                reshape(table.uri, steps)
            except CommitConflictError:
                warn("sink", "columns_changed_at_once", table=table.uri)
        raise CommitConflictError(
            "change the columns of", self._target.uri, f"{_MAX_CONFLICTS} conflicts in a row"
        )

    def _reshaping(self, table: LanceTable, rows: RowBuilder) -> Reshaping:
        _check_model(table, rows)
        takes_all = table.metadata.get(schemas.ATTRIBUTES_KEY) == schemas.ALL_ATTRIBUTES
        return reshaping(
            table.uri,
            table.schema,
            rows.schema,
            optional=rows.schema.names if takes_all else (schemas.RESCUED, *schemas.IMAGES),
            retired=(*(self._retired if takes_all else ()), *schemas.IMAGES),
        )

    def _prepare_settled(
        self, rows: DataFrame, table: LanceTable, at: datetime, floor: str, settle: Settle | None
    ) -> Prepared:
        """Step 3; once more with other rows if the table tells that some were not settled."""
        prepared = self._prepare(rows, table, at, floor)
        if prepared.unsettled and settle is not None:
            try_to_discard(table, prepared.fragments)
            prepared = self._prepare(settle(prepared.unsettled), table, at, floor)
        if not floor or self._version is None:
            return prepared
        below = f"{self._version} < {quoted(floor)}"
        deleted = prepared.counts.rows_deleted + table.count(below)
        gone = f" OR {is_among(self._key, prepared.gone)}" if prepared.gone else ""
        counts = replace(prepared.counts, rows_deleted=deleted)
        return replace(prepared, counts=counts, floor=floor, where=below + gone)

    def _prepare(
        self, rows: DataFrame, table: LanceTable, at: datetime, floor: str = ""
    ) -> Prepared:
        """One task a partition; only fragments, keys and counts come back."""
        builder = self._rows or PlainRows(table.schema.remove_metadata())
        sweep = Sweep(table.uri, table.version, builder.schema)
        if self._target.mode is not Mode.UPDATE:
            copying = Copying(table.uri, table.version, builder.schema)
            prepared = self._preparing.run(rows, copying, sweep)
            is_whole = self._target.mode is Mode.COMPLETE
            return replace(prepared, schema=builder.schema) if is_whole else prepared
        preparation = Preparation(
            uri=table.uri,
            version=table.version,
            tombstones_uri=self._tombstones.uri,
            key=self._key,
            record_version=self._version,
            deleted=self._deleted,
            builder=builder,
            at=at,
            floor=max(floor, self._tombstones.floor()) if self._version else "",
        )
        return self._preparing.run(rows, preparation, sweep)


def fitting_table(uri: str, columns: pa.Schema, *, key: str | None) -> LanceTable:
    """The table with at least these columns: made if absent, widened if it lacks some."""
    table = LanceTable.create(uri, columns, key=key)
    lacking = additions(uri, table.schema, columns)
    return table.add_columns(lacking) if lacking else table


def reshape(uri: str, steps: Reshaping) -> None:
    """Carries out what a table's columns need, a commit each; done again, it goes on."""
    emit(
        "sink",
        "columns_changing",
        table=uri,
        drop=",".join(steps.drop),
        add=",".join(field.name for field in steps.add),
        widen=",".join(field.name for field in steps.widen),
    )
    if steps.drop:
        lance_columns.drop(uri, steps.drop)
    if steps.add:
        lance_columns.add(uri, steps.add)
    for field in steps.widen:
        lance_columns.widen(uri, field)


def _check_model(table: LanceTable, builder: RowBuilder) -> None:
    """Before the columns: the model is why they differ, if they do."""
    for name, wanted in builder.metadata.items():
        found = table.metadata.get(name, "nothing")
        if found != wanted:
            raise ModelMismatchError(
                table=table.uri,
                what=name.removeprefix("freshet."),
                in_table=found,
                in_settings=wanted,
            )
