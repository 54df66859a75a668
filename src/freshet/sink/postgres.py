"""`PostgresSink`: writes the micro-batches of any DataFrame to a table of PostgreSQL."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import uuid4

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from freshet.errors import StoreError
from freshet.events import emit
from freshet.sink.batch_store import Outcome, OvertakenError, Standing
from freshet.sink.named_columns import check_named, counted
from freshet.sink.postgres_columns import as_texts, sql_types
from freshet.sink.postgres_executor import PARTS, Bringing
from freshet.sink.stamps import Batch, Counts, mark_of
from freshet.sink.store_sink import StoreSink
from freshet.sink.target import Mode, mode_named
from freshet.stores import postgres_marks, postgres_tables
from freshet.stores.postgres import Database, TableName, name
from freshet.stores.postgres_merge import DELETED, PART, Merge, Merged

_DIRECT_ROWS: Final = 20_000
"""A larger batch is staged, unless it is said which way to go."""
_INCOMING: Final = "freshet_incoming"
_FURTHER: Final = {DELETED: "boolean", PART: "text"}


class PostgresSink(StoreSink):
    """A function for `foreachBatch` that writes a table of PostgreSQL, one transaction a batch.

    `update` (the default) upserts and deletes by key, `append` adds rows, `complete` makes each
    batch the whole table. A small batch is brought and merged by one task, over one connection; a
    large one is brought to an unlogged staging table by all tasks, and merged from there.

    Guarantee: every micro-batch takes effect exactly once and whole: its mark is in the same
    transaction (the table `freshet_batches`). With `update`, of several events of a key the
    greatest version wins, in a batch and over all batches; an older event never undoes a newer one,
    and a deleted key does not come back (the table `…_tombstones`). Without a version
    (`version=None`) the later batch wins. A crash may leave a staging table, which the next staged
    batch drops.
    """

    def __init__(
        self,
        address: str,
        table: str,
        *,
        ledger: str,
        pipeline: str,
        sink: str = "postgres",
        mode: str = Mode.UPDATE,
        key: str = "key",
        version: str | None = "record_version",
        deleted: str | None = "is_deleted",
        vectors: Mapping[str, int] | None = None,
        create: bool = False,
        staged: bool | None = None,
        tombstone_retention: timedelta | None = None,
        **told: Any,
    ) -> None:
        chosen = mode_named(mode)
        is_keyed = chosen is Mode.UPDATE
        store = PostgresStore(
            Database.at(address),
            TableName.of(table),
            chosen,
            key if is_keyed else None,
            version if is_keyed else None,
            deleted if is_keyed else None,
            vectors or {},
            create,
            staged,
            tombstone_retention,
        )
        super().__init__(store, ledger=ledger, pipeline=pipeline, sink=sink, **told)


@dataclass(frozen=True)
class PostgresStore:
    """A table of PostgreSQL that batches are written to."""

    database: Database
    table: TableName
    mode: Mode
    key: str | None
    version: str | None
    deleted: str | None
    vectors: Mapping[str, int]
    is_created: bool
    is_staged: bool | None
    retention: timedelta | None

    @property
    def place(self) -> str:
        """The database and the table."""
        return f"{self.database.place}/{self.table.schema}.{self.table.table}"

    def standing(self, batch: Batch) -> Standing | None:
        """What the table of marks says."""
        with self.database.transaction("read", self.place) as cursor:
            shape = postgres_tables.shape_of(cursor, self.table)
            if shape is None:
                return None
            found = postgres_marks.newest(cursor, self.table, batch.pipeline, batch.sink)
        if found is None:
            return Standing(shape.table_id, 0, 0, None)
        mark = mark_of(found.stamp, found.number)
        return Standing(shape.table_id, found.number, found.number, mark)

    def prepare(self, rows: DataFrame, batch: Batch) -> "Prepared":
        """Makes the table fit, and stages the rows of a large batch."""
        check_named(rows, key=self.key, version=self.version, deleted=self.deleted)
        table_id, types = self._fitted(rows)
        is_deleted = F.coalesce(F.col(self.deleted), F.lit(False)) if self.deleted else F.lit(False)
        told = rows.select(*as_texts(rows, types), is_deleted.cast("string").alias(DELETED))
        told = told.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            count = counted(told, key=self.key, version=self.version)
            is_staged = count > _DIRECT_ROWS if self.is_staged is None else self.is_staged
            merge = Merge(
                self.table,
                tuple(types),
                self.key,
                self.version,
                self.mode is Mode.COMPLETE,
                self.retention,
            )
            staging = self._staging(batch, merge.columns) if is_staged and count else None
            prepared = Prepared(self, batch, merge, table_id, told, count, staging)
            if staging is not None:
                prepared.bring()
        except BaseException:
            told.unpersist()
            raise
        return prepared

    def _fitted(self, rows: DataFrame) -> tuple[str, dict[str, str]]:
        """The table's id, and the types that it has for the columns of the rows."""
        with self.database.transaction("make fit", self.place) as cursor:
            has_vectors = bool(self.vectors) and postgres_tables.has_vectors(cursor)
            wanted = sql_types(
                rows, without=self.deleted, vectors=self.vectors, has_vectors=has_vectors
            )
            shape = postgres_tables.make(
                cursor, self.table, wanted, self.key, is_asked=self.is_created
            )
            postgres_marks.make(cursor, self.table)
            Merge(self.table, (), self.key, self.version).make_tombstones(cursor)
        return shape.table_id, {column: shape.columns[column] for column in wanted}

    def _staging(self, batch: Batch, columns: Sequence[str]) -> TableName:
        """An empty staging table; those that crashed batches of this sink left are dropped."""
        sink = hashlib.sha256(f"{batch.pipeline}/{batch.sink}".encode()).hexdigest()[:12]
        prefix = f"freshet_staging_{sink}_"
        staging = self.table.beside(f"{prefix}{batch.batch_id}_{uuid4().hex[:8]}")
        with self.database.transaction("stage rows beside", self.place) as cursor:
            if swept := postgres_tables.sweep(cursor, self.table, prefix):
                emit("sink", "staging_swept", tables=swept)
            postgres_tables.make_staging(cursor, staging, self.table, columns, _FURTHER)
        return staging


@dataclass
class Prepared:
    """A batch that is staged, or waits for its one task."""

    store: PostgresStore
    batch: Batch
    merge: Merge
    table_id: str
    rows: DataFrame
    count: int
    staging: TableName | None
    parts: Sequence[str] = ()
    write_s: float = 0.0

    def bring(self) -> None:
        """All tasks copy their rows to the staging table; it is dropped if one of them fails."""
        try:
            answers = self._run(self.rows, Bringing(*self._to(str(self.staging))))
        except Exception:
            with suppress(StoreError):
                self.discard()
            raise
        self.parts = [one["part"] for one in answers]
        self.write_s = max((one["seconds"] for one in answers), default=0.0)

    def land(self, owner: str, after: int) -> Outcome:
        """One transaction: on an executor for rows that are not staged, else here."""
        landing = Landing(self.merge, self.batch, owner, after, self.count)
        if self.staging is None and self.count:
            task = Bringing(*self._to(name(_INCOMING)), landing.begin, landing.finish)
            (answer,) = self._run(self.rows.coalesce(1), task)
            merged = Merged(**json.loads(answer["answer"]))
            return self._outcome(landing, merged, answer["seconds"])
        with self.store.database.transaction("write to", self.store.place) as cursor:
            if self.staging is None:
                landing.begin(cursor)
            else:
                landing.move(cursor)
            place = name(_INCOMING) if self.staging is None else str(self.staging)
            merged = landing.merged(cursor, place, self.parts)
        return self._outcome(landing, merged, self.write_s)

    def discard(self) -> None:
        """Drops the staging table, and what Spark holds of the rows."""
        self.rows.unpersist()
        if self.staging is not None:
            with self.store.database.transaction("clear up beside", self.store.place) as cursor:
                cursor.execute(f"DROP TABLE IF EXISTS {self.staging}")

    def _to(self, staging: str) -> tuple[Database, str, str, tuple[str, ...]]:
        return self.store.database, self.store.place, staging, (*self.merge.columns, DELETED)

    def _run(self, rows: DataFrame, task: Bringing) -> list[dict[str, Any]]:
        found = rows.mapInArrow(task, from_arrow_schema(PARTS)).toArrow()
        answers: list[dict[str, Any]] = found.to_pylist()
        for answer in answers:
            if answer["error"] is not None:
                kind = OvertakenError if answer["is_overtaken"] else StoreError
                raise kind("write to", self.store.place, answer["error"])
        return answers

    def _outcome(self, landing: "Landing", merged: Merged, write_s: float) -> Outcome:
        return Outcome(self.table_id, landing.after + 1, landing.counts(merged), write_s)


@dataclass(frozen=True)
class Landing:
    """What happens around a merge in its transaction: the mark first, its counts last."""

    merge: Merge
    batch: Batch
    owner: str
    after: int
    rows: int

    def begin(self, cursor: Any) -> None:
        """The mark, and an empty table for rows that come in the same transaction."""
        self.move(cursor)
        table, columns = self.merge.table, self.merge.columns
        postgres_tables.make_staging(cursor, _INCOMING, table, columns, _FURTHER)

    def move(self, cursor: Any) -> None:
        """Nobody else can land a batch of the sink until the transaction ends."""
        stamp = self.batch.stamp(self.owner, Counts(rows_in=self.rows))
        if not postgres_marks.move(cursor, self.merge.table, self._sink, self.after, stamp):
            raise OvertakenError("commit to", str(self.merge.table), "another batch came first")

    def finish(self, cursor: Any, part: str) -> str:
        """Merges what one task has brought."""
        return json.dumps(asdict(self.merged(cursor, name(_INCOMING), [part])))

    def merged(self, cursor: Any, staging: str, parts: Sequence[str]) -> Merged:
        """Merges, and has the mark say what the batch did."""
        merged = self.merge.run(cursor, staging, parts, self.after + 1)
        stamp = self.batch.stamp(self.owner, self.counts(merged))
        postgres_marks.amend(cursor, self.merge.table, self._sink, stamp)
        return merged

    @property
    def _sink(self) -> tuple[str, str]:
        return self.batch.pipeline, self.batch.sink

    def counts(self, merged: Merged) -> Counts:
        """For the ledger."""
        return Counts(
            rows_in=self.rows,
            rows_upserted=merged.upserted,
            rows_deleted=merged.deleted,
            rows_stale=merged.stale,
            rows_unchanged=merged.unchanged,
        )
