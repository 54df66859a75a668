"""`LanceSink`: writes the micro-batches of any keyed DataFrame to a Lance table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from freshet.errors import ModelMismatchError, SchemaMismatchError, SinkError
from freshet.rows import BuiltRows, CurrentRows, RowBuilder
from freshet.sink.commit_protocol import CommitProtocol, Prepared, Probe, no_probe
from freshet.sink.ledger import BatchReport, Counts, Ledger
from freshet.sink.prepare_executor import PARTS, Part, Preparation
from freshet.sink.stamps import Batch
from freshet.sink.tombstones import Tombstones
from freshet.stores.lance_tables import LanceTable

_QUERY_ID: Final = "sql.streaming.queryId"
_PARTS: Final = from_arrow_schema(PARTS)


def utc_now() -> datetime:
    """The time now, with its zone."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class PlainRows:
    """The row builder of a DataFrame that is written as it is."""

    schema: pa.Schema
    needs: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)

    def build(
        self, records: pa.Table, current: CurrentRows, at: datetime, *, is_alone: bool = False
    ) -> BuiltRows:
        """The records' own columns."""
        return BuiltRows(records.select(self.schema.names).cast(self.schema))


@dataclass
class _Attempts:
    """When to try again what was refused: after 1, 2, 4, 8 and then always 16 other batches."""

    pause: int = 0
    left: int = 0

    def is_due(self) -> bool:
        """Whether this batch is to be tried; counts the batches."""
        self.left -= 1
        return self.left < 0

    def note(self, *, is_refused: bool) -> None:
        """Remembers how the attempt went."""
        self.pause = min(max(1, 2 * self.pause), 16) if is_refused else 0
        self.left = self.pause


class LanceSink:
    """A function for `foreachBatch`: keyed upserts and deletes, one commit a batch.

    Guarantee: every micro-batch takes effect exactly once, also when Spark runs it again after a
    crash at any moment; of several events of a key the greatest version wins, in a batch and over
    all batches; an older event never undoes a newer one, and a deleted key does not come back.
    The precondition is that one driver writes the table. What a crash may leave behind, and why it
    does no harm, is said in `commit_protocol`.
    """

    def __init__(
        self,
        uri: str,
        *,
        key: str = "key",
        ledger: str,
        pipeline: str,
        sink: str = "index",
        version: str = "record_version",
        deleted: str = "is_deleted",
        rows: RowBuilder | None = None,
        partitions: int | None = None,
        on_batch: Callable[[BatchReport], None] | None = None,
        clock: Callable[[], datetime] = utc_now,
        probe: Probe = no_probe,
    ) -> None:
        self._uri = uri
        self._key = key
        self._pipeline = pipeline
        self._sink = sink
        self._version = version
        self._deleted = deleted
        self._rows = rows
        self._partitions = partitions
        self._on_batch = on_batch
        self._ledger = Ledger(ledger)
        self._tombstones = Tombstones(f"{uri.removesuffix('.lance')}_tombstones.lance")
        self._clock = clock
        self._probe = probe
        self._protocol: CommitProtocol | None = None
        self._alone = _Attempts()

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Writes one micro-batch; raises what went wrong, so that Spark sees it."""
        query_id = rows.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        if query_id is None:
            raise SinkError("a LanceSink is called by foreachBatch of a streaming query only")
        self.write(rows, query_id=query_id, batch_id=batch_id)

    def write(self, rows: DataFrame, *, query_id: str, batch_id: int) -> BatchReport | None:
        """Writes one batch under a given query id; None if there was nothing to do."""
        builder = self._rows or PlainRows(self._columns_of(rows))
        protocol = self._protocol or self._start(builder)
        batch = Batch(self._pipeline, self._sink, query_id, batch_id)
        report = protocol.write(batch, lambda table, at: self._prepare(rows, builder, table, at))
        if report is not None and self._on_batch is not None:
            self._on_batch(report)
        return report

    def check(self) -> None:
        """Raises if the table is there and was made for other rows; makes nothing."""
        if self._rows is not None and LanceTable.exists(self._uri):
            _check_fit(LanceTable.open(self._uri), self._rows)

    def _columns_of(self, rows: DataFrame) -> pa.Schema:
        schema = to_arrow_schema(rows.schema, timezone="UTC")
        return schema.remove(schema.get_field_index(self._deleted))

    def _start(self, builder: RowBuilder) -> CommitProtocol:
        self._protocol = CommitProtocol(
            key=self._key,
            create_table=lambda: _fitting_table(self._uri, self._key, builder),
            ledger=self._ledger,
            tombstones=self._tombstones,
            clock=self._clock,
            probe=self._probe,
        )
        return self._protocol

    def _prepare(
        self, rows: DataFrame, builder: RowBuilder, table: LanceTable, at: datetime
    ) -> Prepared:
        """Step 3: one task a partition; only fragments, keys and counts come back."""
        preparation = Preparation(
            uri=self._uri,
            version=table.version,
            tombstones_uri=self._tombstones.uri,
            key=self._key,
            record_version=self._version,
            deleted=self._deleted,
            builder=builder,
            at=at,
        )
        prepared = self._prepare_alone(rows, preparation) if self._alone.is_due() else None
        if prepared is None:
            tasks = self._partitions or rows.sparkSession.sparkContext.defaultParallelism
            prepared = joined(_collected(rows.repartition(tasks, self._key), preparation))
        return prepared

    def _prepare_alone(self, rows: DataFrame, preparation: Preparation) -> Prepared | None:
        """One task, no shuffle and one fragment for a small batch; None if it is not small.

        Spreading a small batch over tasks would cost more than the work itself.
        """
        parts = _collected(rows.coalesce(1), replace(preparation, is_alone=True))
        is_refused = any(part.is_refused for part in parts)
        self._alone.note(is_refused=is_refused)
        return None if is_refused else joined(parts)


def _collected(rows: DataFrame, preparation: Preparation) -> list[Part]:
    made = rows.mapInArrow(preparation, _PARTS).toArrow()
    return [Part.of(batch) for batch in made.to_batches(max_chunksize=1)]


def joined(parts: Sequence[Part]) -> Prepared:
    """What all tasks made of the batch; they run side by side, so times are the slowest one's."""
    deleted = {key: version for part in parts for key, version in part.deleted.items()}
    return Prepared(
        fragments=tuple(fragment for part in parts for fragment in part.fragments),
        gone=tuple(key for part in parts for key in part.gone),
        deleted=deleted,
        counts=Counts(
            rows_in=sum(part.rows_in for part in parts),
            rows_upserted=sum(part.upserted for part in parts),
            rows_deleted=len(deleted),
            rows_stale=sum(part.stale for part in parts),
            rows_unchanged=sum(part.unchanged for part in parts),
            rows_reused=sum(part.reused for part in parts),
            rows_embedded=sum(part.embedded for part in parts),
        ),
        embed_s=max((part.embed_s for part in parts), default=0.0),
        write_s=max((part.write_s for part in parts), default=0.0),
    )


def _fitting_table(uri: str, key: str, builder: RowBuilder) -> LanceTable:
    """The table, made if absent; an error if it was made for other rows."""
    table = LanceTable.create(uri, builder.schema, key=key, metadata=builder.metadata)
    _check_fit(table, builder)
    return table


def _check_fit(table: LanceTable, builder: RowBuilder) -> None:
    """The model first: it is why the columns differ, if they do."""
    for name, wanted in builder.metadata.items():
        found = table.metadata.get(name, "nothing")
        if found != wanted:
            raise ModelMismatchError(
                table=table.uri,
                what=name.removeprefix("freshet."),
                in_table=found,
                in_settings=wanted,
            )
    _check_columns(table, builder.schema)


def _check_columns(table: LanceTable, wanted: pa.Schema) -> None:
    problems = [
        f"column {field.name} is to be {field.type} but is {_type_in(table, field.name)}"
        for field in wanted
        if _type_in(table, field.name) != str(field.type)
    ]
    problems += [
        f"column {name} is not filled" for name in table.schema.names if name not in wanted.names
    ]
    if problems:
        raise SchemaMismatchError(table=table.uri, problems=problems)


def _type_in(table: LanceTable, name: str) -> str:
    return str(table.schema.field(name).type) if name in table.schema.names else "not there"
