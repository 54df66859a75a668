"""What keeps a Lance table fast, one bounded step at a time: indexes, compaction, cleanup.

Every function opens the newest version, and ends in one commit or in none. A kill at any moment
leaves the table as it was, and at worst files that no version names.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import lance
from lance.optimize import Compaction, RewriteResult

from freshet.errors import CommitConflictError, StoreError
from freshet.stores import copies, file_systems
from freshet.stores.lance_commits import translating

_NO_DELETED_ROW_STAYS: Final = 1e-9
_ALL_VERSIONS: Final = 1 << 30
_MOST_ORPHANS: Final = 10_000
_TRANSACTIONS: Final = "_transactions/"
_UNTOLD: Final = ("_deletions/", _TRANSACTIONS)


@dataclass(frozen=True)
class Cleaned:
    """What a cleanup removed."""

    versions: int
    bytes: int


def build_vector_index(
    uri: str, column: str, name: str, *, kind: str, metric: str, partitions: int, **params: Any
) -> None:
    """Trains an index on all vectors of a column, in place of the one of that name."""
    with _conflicts_told("build the index of", uri):
        lance.dataset(uri).create_index(
            column,
            kind,
            name=name,
            metric=metric,
            num_partitions=partitions,
            replace=True,
            **params,
        )


def build_scalar_index(uri: str, column: str, name: str, kind: Any) -> None:
    """Indexes a column of values, `BTREE` or `BITMAP`, or one of text, `INVERTED`."""
    with _conflicts_told("build the index of", uri):
        lance.dataset(uri).create_scalar_index(column, kind, name=name, replace=True)


def extend_index(uri: str, name: str) -> None:
    """A further part for the rows that an index does not cover."""
    _optimize_index(uri, name, 0)


def merge_parts(uri: str, name: str, count: int) -> None:
    """The newest parts of an index become one, which takes uncovered rows along."""
    _optimize_index(uri, name, count)


def _optimize_index(uri: str, name: str, merged: int) -> None:
    with _conflicts_told("extend the index of", uri):
        lance.dataset(uri).optimize.optimize_indices(
            index_names=[name], num_indices_to_merge=merged
        )


def compact(
    uri: str,
    fragment_ids: Sequence[int],
    target_rows: int,
    before_commit: Callable[[], None] = lambda: None,
) -> None:
    """Rewrites neighbouring fragments without their deleted rows, as one of up to so many rows.

    Raises `CommitConflictError` if a writer changed one of them meanwhile; what was written in vain
    is removed. Others stay as they are, whatever their size.
    """
    chosen = set(fragment_ids)
    with _conflicts_told("compact", uri):
        dataset = lance.dataset(uri)
        others = [f.fragment_id for f in dataset.get_fragments() if f.fragment_id not in chosen]
        options: Mapping[str, Any] = {
            "target_rows_per_fragment": max(target_rows, 1),
            "materialize_deletions_threshold": _NO_DELETED_ROW_STAYS,
            "excluded_fragment_ids": others,
        }
        written = [
            task.execute(dataset)
            for task in Compaction.plan(dataset, options).tasks  # type: ignore[arg-type]
        ]
        before_commit()
        try:
            if written:
                Compaction.commit(dataset, written, options)  # type: ignore[arg-type]
        except (OSError, ValueError, RuntimeError) as error:
            if _is_conflict(error):
                _discard(uri, written)
            raise


def _discard(uri: str, written: Sequence[RewriteResult]) -> None:
    for result in written:
        for fragment in result.new_fragments:
            for file in fragment.files:
                file_systems.delete_file(f"{uri}/data/{file.path}")


def clean(uri: str, versions: Sequence[int]) -> Cleaned:
    """Removes versions, and the files that only they name. Versions with a name stay."""
    with translating("clean up", uri):
        done = lance.dataset(uri).cleanup_old_versions(
            versions=list(versions), error_if_tagged_old_versions=False
        )
    return Cleaned(int(done.old_versions), int(done.bytes_removed))


def orphans(uri: str, before: datetime) -> dict[str, int]:
    """Files that no version names, by their path in the table, with sizes; only older ones.

    A writer's files have no name before its commit, so `before` must lie before any commit under
    way began to write.
    """
    known = copies.dated_files_below(uri)
    old = {path: file.bytes for path, file in known.items() if file.changed_at < before}
    with translating("look for files that nothing names in", uri):
        dataset = lance.dataset(uri)
        if _newest_names(dataset, old):
            return {}
        found = dataset.explain_cleanup_old_versions(
            retain_versions=_ALL_VERSIONS,
            delete_unverified=True,
            include_files=True,
            max_files=_MOST_ORPHANS,
        )
        told = [file.path for file in found.candidate_files if file.unverified]
        unnamed = {path for full in told for path in _endings(full)}
        unnamed |= _unnamed(dataset, {path for path in old if _is_untold(path)})
    return {path: size for path, size in old.items() if path in unnamed}


def _newest_names(dataset: lance.LanceDataset, paths: Iterable[str]) -> bool:
    """Whether the newest version names them all, as it mostly does; else all have to be read."""
    named = _named_by(dataset, int(dataset.version))
    for fragment in dataset.get_fragments():
        named |= {f"data/{file.path}" for file in fragment.metadata.files}
    parts = (part for index in dataset.describe_indices() for part in index.segments)
    folders = tuple(f"_indices/{part.uuid}/" for part in parts)
    return all(
        path in named or path.startswith(folders) or path.endswith(".manifest") for path in paths
    )


def _is_untold(path: str) -> bool:
    """Whether Lance's own account leaves such files out, and so would keep them for ever.

    Those are files of deletions and transactions, and files that a kill has left half written.
    """
    name = path.rpartition("/")[2]
    return path.startswith(_UNTOLD) or name.startswith(".tmp") or "#" in name


def _unnamed(dataset: lance.LanceDataset, paths: set[str]) -> set[str]:
    """Those of the paths that no version names; almost always the newest or oldest names all."""
    paths = paths - _named_by(dataset, int(dataset.version))
    for known in dataset.versions() if paths else ():
        paths -= _named_by(dataset, int(known["version"]))
        if not paths:
            break
    return paths


def _named_by(dataset: lance.LanceDataset, version: int) -> set[str]:
    """The files of deletions that a version has, and the one of the transaction that made it."""
    fragments = dataset.checkout_version(version).get_fragments()
    deletions = ((f.fragment_id, f.metadata.deletion_file) for f in fragments)
    named = {str(file.path(number)) for number, file in deletions if file is not None}
    made_by = dataset.read_transaction(version)
    if made_by is not None:
        named.add(f"{_TRANSACTIONS}{made_by.read_version}-{made_by.uuid}.txn")
    return named


def sweep(uri: str, paths: Sequence[str]) -> None:
    """Removes files of a table by their paths in it."""
    for path in paths:
        file_systems.delete_file(f"{uri}/{path}")


def _endings(path: str) -> Iterator[str]:
    """What a path may be called in its table: `data/x`, or `_indices/id/x`."""
    parts = path.split("/")
    yield "/".join(parts[-2:])
    yield "/".join(parts[-3:])


@contextmanager
def _conflicts_told(action: str, uri: str) -> Iterator[None]:
    """As `translating`; Lance tells some conflicts only in words."""
    try:
        with translating(action, uri):
            yield
    except StoreError as error:
        if not isinstance(error, CommitConflictError) and _is_conflict(error.reason):
            raise CommitConflictError(action, uri, error.reason) from error
        raise


def _is_conflict(error: object) -> bool:
    return "conflict" in str(error).lower()
