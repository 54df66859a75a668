"""What commits to Lance tables are made of, and what their history tells."""

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from lance import FragmentMetadata, LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError as LanceConflictError

from freshet.errors import CommitConflictError, StoreError

_DELETES_AT_ONCE: Final = 4


@dataclass(frozen=True)
class Commit:
    """One entry of a table's history."""

    version: int
    kind: str
    """Lance's name of the operation: Append, Update, Rewrite, Restore …"""
    properties: Mapping[str, str]
    files: frozenset[str] = frozenset()
    """Data files that it added."""

    @property
    def changes_rows(self) -> bool:
        """Whether rows may have come or gone, which no optimizer's commit does."""
        return self.kind in {"Append", "Delete", "Merge", "Overwrite", "Restore", "Update"}


def commit_of(version: int, transaction: Transaction) -> Commit:
    """What a transaction tells."""
    operation = transaction.operation
    added = getattr(operation, "new_fragments", None) or getattr(operation, "fragments", None)
    return Commit(
        version=version,
        kind=type(operation).__name__,
        properties=transaction.transaction_properties or {},
        files=frozenset(file.path for fragment in added or () for file in fragment.files),
    )


@dataclass(frozen=True)
class Removal:
    """Rows that are about to leave; made by one table object and committed by it."""

    emptied: Sequence[int]
    """Fragments of which nothing is left."""
    thinned: Sequence[FragmentMetadata]
    """The others, with their new deletion files."""


def removal_of(
    dataset: LanceDataset, addresses: Sequence[int], where: str | None = None
) -> Removal | None:
    """Writes the deletion files of rows that are to leave, by address or by condition."""
    if where is not None:
        return _removal_where(dataset, where)
    return _removal_at(dataset, addresses) if addresses else None


def _removal_where(dataset: LanceDataset, condition: str) -> Removal:
    """A fragment at a time, so that memory does not grow with the rows that leave."""
    emptied, thinned = [], []
    for fragment in dataset.get_fragments():
        left = fragment.delete(condition)
        if left is None:
            emptied.append(fragment.fragment_id)
        elif left.num_deletions != fragment.num_deletions:
            thinned.append(left)
    return Removal(emptied, thinned)


def _removal_at(dataset: LanceDataset, addresses: Sequence[int]) -> Removal:
    """Several fragments at a time."""
    places: dict[int, list[int]] = {}
    for address in addresses:
        places.setdefault(address >> 32, []).append(address & 0xFFFFFFFF)

    def thinned(fragment_id: int) -> FragmentMetadata | None:
        fragment = dataset.get_fragment(fragment_id)
        if fragment is None:
            raise ValueError(f"there is no fragment {fragment_id}")
        return fragment.delete_rows(places[fragment_id])

    with ThreadPoolExecutor(_DELETES_AT_ONCE) as pool:
        left = dict(zip(places, pool.map(thinned, places), strict=True))
    emptied = [fragment_id for fragment_id, kept in left.items() if kept is None]
    return Removal(emptied, [kept for kept in left.values() if kept is not None])


def files_of(fragments: Sequence[str]) -> Iterator[str]:
    """The data files of fragments that are given as JSON."""
    for fragment in fragments:
        yield from (file["path"] for file in json.loads(fragment)["files"])


def update(
    removal: Removal, new: list[FragmentMetadata], fields: Sequence[Any]
) -> LanceOperation.Update:
    """An update that removes rows and adds fragments at once; `fields` are those of the table."""
    return LanceOperation.Update(
        removed_fragment_ids=list(removal.emptied),
        updated_fragments=list(removal.thinned),
        new_fragments=new,
        fields_modified=[],
        # Rows that stay are as they were, so every index of the table still holds for them.
        fields_for_preserving_frag_bitmap=list(_ids_of(fields)),
        update_mode="rewrite_rows",
    )


def _ids_of(fields: Sequence[Any]) -> Iterator[int]:
    for field in fields:
        yield field.id()
        yield from _ids_of(field.children())


def make_empty(uri: str, schema: pa.Schema) -> None:
    """A new table; an error if one is there, also if it was made in the same moment.

    Of two that call Lance's `write_dataset` at once, the second empties what the first has made.
    """
    with translating("create", uri):
        LanceDataset.commit(
            uri,
            Transaction(0, LanceOperation.Overwrite(schema, [])),
            max_retries=0,
            enable_stable_row_ids=True,
            enable_v2_manifest_paths=True,
        )


@contextmanager
def translating(action: str, uri: str) -> Iterator[None]:
    """Lance's errors become ours; `action` says what could not be done."""
    try:
        yield
    except LanceConflictError as error:
        raise CommitConflictError(action, uri, error) from error
    except (OSError, ValueError, RuntimeError) as error:
        raise StoreError(action, uri, error) from error
