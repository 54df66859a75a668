"""Lance tables: look-ups at a pinned version, data files, and commits that carry a stamp.

Import it only where it is used on an executor: Lance is not fork-safe, so a Python worker must
load it after its own start.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, Self
from uuid import uuid4

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance import FragmentMetadata, LanceDataset, LanceOperation, Session, Transaction  # type: ignore[attr-defined]
from lance.fragment import write_fragments

from freshet import tiers
from freshet.errors import StoreError, TableMissingError, VersionMissingError
from freshet.stores import file_systems
from freshet.stores.lance_commits import (
    Commit,
    Removal,
    commit_of,
    files_of,
    make_empty,
    removal_of,
    translating,
    update,
)
from freshet.stores.sql import is_among

TABLE_ID: Final = "freshet.table"
"""Where a table's metadata says which table it is: another one at the same place has another."""
ROW_ID: Final = "_rowid"
ROW_ADDRESS: Final = "_rowaddr"
"""Where a row lies in one version: fragment and place in it."""
Said = Mapping[str, str]
_KEYS_PER_FILTER: Final = 1_000
# Measured: a key by the BTREE costs as much as scanning 64 rows, and a fragment costs a scan as
# much as 2,500 rows more than it costs a look-up.
_SCANNED_ROWS_PER_KEY: Final = 64
_SCANNED_ROWS_PER_FRAGMENT: Final = 2_500
_SCAN_BATCH_ROWS: Final = 65_536
_INDEX_CACHE_BYTES: Final = 256 << 20
_METADATA_CACHE_BYTES: Final = 128 << 20
_MAX_KEY_INDEX_PARTS: Final = 8
_MOST_KEYS_TO_MERGE: Final = 1_000_000
"""A merge stands in the writer's way, so it has a bound."""


@cache
def _session() -> Session:
    """The caches of this process, shared by all its tables and bounded in bytes."""
    return Session(
        index_cache_size_bytes=_INDEX_CACHE_BYTES, metadata_cache_size_bytes=_METADATA_CACHE_BYTES
    )


class LanceTable:
    """One version of a Lance table. `reopened()` gives the newest; a commit returns its version."""

    def __init__(self, uri: str, dataset: LanceDataset) -> None:
        self.uri = uri
        self._dataset = dataset

    @classmethod
    def open(cls, uri: str, *, version: int | None = None, what: str = "table") -> Self:
        """The table at its newest or at a given version; `TableMissingError` if there is none.

        `VersionMissingError` if there is one, but not at this version.
        """
        try:
            return cls(uri, lance.dataset(uri, version=version, session=_session()))
        except ValueError as error:
            if "was not found" not in str(error):
                raise StoreError("open", uri, error) from error
            if version is not None and cls.exists(uri):
                raise VersionMissingError(f"open version {version} of", uri, error) from None
            raise TableMissingError(what, uri) from None
        except OSError as error:
            raise StoreError("open", uri, error) from error

    @classmethod
    def exists(cls, uri: str) -> bool:
        """Whether a table is there."""
        try:
            cls.open(uri)
        except TableMissingError:
            return False
        return True

    @classmethod
    def create(
        cls,
        uri: str,
        schema: pa.Schema,
        *,
        key: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Self:
        """The table, made empty and with a BTREE on its key (if it has one) if it is not there.

        Stable row ids cannot be switched on later; with them compaction leaves indexes alone.
        """
        try:
            table = cls.open(uri)
        except TableMissingError:
            cls._make(uri, schema.with_metadata({**(metadata or {}), TABLE_ID: uuid4().hex}))
            table = cls.open(uri)
        if key is not None and table._index_on(key) is None:
            with translating("index the key of", uri):
                table._dataset.create_scalar_index(key, "BTREE", name=f"{key}_idx")
            table = table.reopened()
        return table

    @classmethod
    def _make(cls, uri: str, schema: pa.Schema) -> None:
        """Makes a table; does nothing if another process has made it in the same moment."""
        try:
            make_empty(uri, schema)
        except StoreError:
            if not cls.exists(uri):
                raise

    def reopened(self) -> Self:
        """The same table at its newest version."""
        return type(self).open(self.uri)

    @property
    def version(self) -> int:
        """The version that this object reads."""
        return int(self._dataset.version)

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._dataset.schema

    @property
    def metadata(self) -> dict[str, str]:
        """What was written down when the table was made."""
        raw = self.schema.metadata or {}
        return {name.decode(): value.decode() for name, value in raw.items()}

    @property
    def fragment_ids(self) -> list[int]:
        """The fragments of this version."""
        return [fragment.fragment_id for fragment in self._dataset.get_fragments()]

    def count(self, where: str | None = None) -> int:
        """Rows of this version."""
        with translating("count the rows of", self.uri):
            return int(self._dataset.count_rows(filter=where))

    def read(self, columns: Sequence[str], fragment_ids: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Rows of some fragments, batch by batch."""
        for fragment_id in fragment_ids:
            # Not the dataset's `to_batches(fragments=…)`: that reads all fragments, given or not.
            fragment = self._dataset.get_fragment(fragment_id)
            if fragment is not None:
                yield from fragment.to_batches(columns=list(columns))

    def lookup(self, column: str, values: Sequence[Any], columns: Sequence[str]) -> pa.Table:
        """Rows whose column holds one of the values, with ids and addresses; holds only those.

        By index, or by a scan where that is cheaper; so the columns should be small ones.
        """
        places = [(ROW_ID, pa.uint64()), (ROW_ADDRESS, pa.uint64())]
        schema = pa.schema([*(self.schema.field(name) for name in columns), *places])
        rows = self.count()
        if not values or rows == 0:
            return schema.empty_table()
        with translating("look up keys in", self.uri):
            scan = rows + len(self.fragment_ids) * _SCANNED_ROWS_PER_FRAGMENT
            if scan <= len(values) * _SCANNED_ROWS_PER_KEY:
                batches = self._scan_for(column, values, columns)
                return pa.Table.from_batches(batches, schema)
            return pa.concat_tables(self._seek(column, values, columns)).cast(schema)

    def _scan_for(
        self, column: str, values: Sequence[Any], columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        among = pa.array(values, self.schema.field(column).type)
        scan = self._dataset.scanner(
            columns=list(columns),
            with_row_id=True,
            with_row_address=True,
            batch_size=_SCAN_BATCH_ROWS,
        )
        for batch in scan.to_batches():
            yield batch.filter(pc.is_in(batch.column(column), among))

    def _seek(
        self, column: str, values: Sequence[Any], columns: Sequence[str]
    ) -> Iterator[pa.Table]:
        for start in range(0, len(values), _KEYS_PER_FILTER):
            some = is_among(column, values[start : start + _KEYS_PER_FILTER])
            yield self._dataset.scanner(
                columns=list(columns), filter=some, with_row_id=True, with_row_address=True
            ).to_table()

    def take(self, row_ids: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Rows by their ids, in the order of the ids."""
        with translating("read rows of", self.uri):
            return self._dataset._take_rows(list(row_ids), columns=list(columns))

    def write_files(self, rows: pa.RecordBatchReader) -> list[str]:
        """Writes data files that no version holds yet; returns their fragments as JSON."""
        with translating("write data files of", self.uri):
            written = write_fragments(rows, self._dataset, enable_stable_row_ids=True)
        return [json.dumps(fragment.to_json()) for fragment in written]

    def removal(self, addresses: Sequence[int], where: str | None = None) -> Removal | None:
        """Prepares that rows leave, by address or condition: writes files that no version names."""
        with translating("delete rows of", self.uri):
            return removal_of(self._dataset, addresses, where)

    def commit(
        self, removal: Removal | None, fragments: Sequence[str], stamp: Mapping[str, str]
    ) -> int:
        """One commit: the removed rows leave, the fragments join, the stamp is kept.

        Raises `CommitConflictError` if another commit touched the same rows first. Any other error
        leaves open whether the commit landed.
        """
        new = [FragmentMetadata.from_json(fragment) for fragment in fragments]
        operation = (
            LanceOperation.Append(new)
            if removal is None
            else update(removal, new, self._dataset.lance_schema.fields())
        )
        return self._land("commit to", operation, stamp)

    def overwrite(
        self, schema: pa.Schema, fragments: Sequence[str], stamp: Said, metadata: Said | None = None
    ) -> int:
        """One commit: the fragments are all rows from now on; metadata stays if none is given.

        Raises `CommitConflictError` if anything was committed since this version. Any other error
        leaves open whether the commit landed.
        """
        new = [FragmentMetadata.from_json(fragment) for fragment in fragments]
        kept = schema.with_metadata(self.schema.metadata if metadata is None else dict(metadata))
        # Without retries Lance overwrites only what it was told to read.
        return self._land("overwrite", LanceOperation.Overwrite(kept, new), stamp, max_retries=0)

    def _land(
        self,
        action: str,
        operation: LanceOperation.BaseOperation,
        stamp: Mapping[str, str],
        *,
        max_retries: int = 20,
    ) -> int:
        transaction = Transaction(self.version, operation, transaction_properties=dict(stamp))
        with translating(action, self.uri):
            return int(
                LanceDataset.commit(self._dataset, transaction, max_retries=max_retries).version
            )

    def discard(self, fragments: Sequence[str]) -> None:
        """Removes data files that no version names, and surely none will."""
        for path in files_of(fragments):
            file_systems.delete_file(f"{self.uri}/data/{path}")

    def add_columns(self, fields: Sequence[pa.Field]) -> Self:
        """The table with further columns, null in all rows that are there."""
        with translating("add columns to", self.uri):
            self._dataset.add_columns(list(fields))
        return self.reopened()

    def history(self, after: int) -> Iterator[Commit]:
        """The commits after a version, newest first; a cleaned one raises VersionMissingError."""
        for version in range(self.version, after, -1):
            try:
                with translating(f"read the transaction of version {version} of", self.uri):
                    transaction = self._dataset.read_transaction(version)
            except StoreError as error:
                if self._has(version):
                    raise
                raise VersionMissingError(error.action, self.uri, error.reason) from error
            if transaction is None:
                raise VersionMissingError("read the history of", self.uri, f"no version {version}")
            yield commit_of(version, transaction)

    def _has(self, version: int) -> bool:
        return any(known["version"] == version for known in self._dataset.versions())

    def unindexed(self, column: str) -> tuple[int, int]:
        """Fragments and rows that the column's index does not cover; all if it has none."""
        index = self._index_on(column)
        if index is None:
            return len(self.fragment_ids), self.count()
        stats = self._dataset.stats.index_stats(index.name)
        return int(stats["num_unindexed_fragments"]), int(stats["num_unindexed_rows"])

    def index_new_keys(self, key: str) -> None:
        """Extends the key's BTREE to new rows by a small part; merges parts where that is due."""
        index = self._index_on(key)
        if index is None:
            return
        stats = self._dataset.stats.index_stats(index.name)
        sizes = [*stats["num_indexed_rows_per_delta"], stats["num_unindexed_rows"]]
        due = tiers.newest_to_merge(sizes, most=_MAX_KEY_INDEX_PARTS, most_rows=_MOST_KEYS_TO_MERGE)
        with translating("index the new keys of", self.uri):
            self._dataset.optimize.optimize_indices(
                index_names=[index.name], num_indices_to_merge=max(due - 1, 0)
            )

    def compact(self) -> None:
        """Folds small fragments together."""
        with translating("compact", self.uri):
            self._dataset.optimize.compact_files()

    def _index_on(self, column: str) -> Any:
        """What Lance tells of the column's index; None if it has none."""
        found = self._dataset.describe_indices()
        return next((index for index in found if index.field_names == [column]), None)
