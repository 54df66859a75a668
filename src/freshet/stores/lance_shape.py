"""What a Lance table is made of: fragments, parts of indexes, versions and bytes. Reads only."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import lance
from lance import LanceDataset

from freshet.errors import TableMissingError
from freshet.stores.copies import DatedFile, dated_files_below
from freshet.stores.lance_commits import translating
from freshet.stores.lance_versions import Version, version_named

# Else all centroids of all parts come as text: 5 MB, and a tenth of a second, for a million rows.
os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")

_VERSIONS: Final = "_versions/"
_TEXT: Final = "Inverted"


@dataclass(frozen=True)
class FragmentShape:
    """One fragment: its rows, those of them that are deleted, and the bytes of its data files."""

    id: int
    rows: int
    deleted: int
    bytes: int
    parts: frozenset[str] = frozenset()
    """The parts of indexes that cover it. Lance folds only fragments that the same ones cover."""

    @property
    def live(self) -> int:
        """Rows that are still there."""
        return self.rows - self.deleted


@dataclass(frozen=True)
class PartShape:
    """One part of an index: live rows that it covers, and all that it holds, dead ones too."""

    rows: int
    held: int
    bytes: int


@dataclass(frozen=True)
class IndexShape:
    """One index: its parts, oldest first, and what it does not cover."""

    name: str
    column: str
    kind: str
    """Lance's name: `IVF_HNSW_SQ`, `BTree`, `Inverted` …"""
    parts: tuple[PartShape, ...]
    unindexed_rows: int
    unindexed_fragments: int
    partitions: int | None = None
    """Of its oldest part, if it is one of vectors."""

    @property
    def is_of_vectors(self) -> bool:
        """Whether it answers which vectors are near."""
        return self.kind.startswith("IVF_")

    @property
    def is_merged_whole(self) -> bool:
        """Whether a merge of some parts is one of all parts, as Lance does it for text."""
        return self.kind == _TEXT


@dataclass(frozen=True)
class TableShape:
    """A table as one version has it, and what lies in its folder."""

    version: int
    fragments: tuple[FragmentShape, ...] = ()
    indexes: tuple[IndexShape, ...] = ()
    versions: tuple[Version, ...] = ()
    manifests: int = 0
    """As many as versions are kept."""
    tagged: frozenset[int] = field(default_factory=frozenset)
    """Versions that have a name, and so are kept."""
    bytes: int = 0
    """Of all files below the table's folder."""
    manifest_bytes: int = 0
    """Of the newest manifest, which every commit writes anew."""
    columns: tuple[str, ...] = ()
    dimension: int = 0
    """Of the largest vector."""

    @property
    def rows(self) -> int:
        """Live rows."""
        return sum(fragment.live for fragment in self.fragments)

    @property
    def deleted(self) -> int:
        """Deleted rows that still take room in the data files."""
        return sum(fragment.deleted for fragment in self.fragments)

    def index_on(self, column: str) -> IndexShape | None:
        """The index of a column."""
        return next((index for index in self.indexes if index.column == column), None)


def shape_of(uri: str) -> TableShape:
    """The shape of a table; `TableMissingError` if there is none.

    Holds a few numbers for each fragment, version and part of an index, and no rows. Reads no
    manifest but the newest: when a version was committed is told by its file.
    """
    with translating("look at the shape of", uri):
        try:
            dataset = lance.dataset(uri)
        except ValueError as error:
            if "was not found" in str(error):
                raise TableMissingError("index", uri) from None
            raise
        files = dated_files_below(uri)
        manifests = dict(sorted(_manifests(files)))
        indexes = dataset.describe_indices()
        parts = _parts_by_fragment(indexes)
        return TableShape(
            version=int(dataset.version),
            fragments=tuple(_fragment(found, parts) for found in dataset.get_fragments()),
            indexes=tuple(_index(dataset, found) for found in indexes),
            versions=tuple(Version(at, file.changed_at) for at, file in manifests.items()),
            manifests=len(manifests),
            tagged=frozenset(int(tag["version"]) for tag in dataset.tags.list().values()),
            bytes=sum(file.bytes for file in files.values()),
            manifest_bytes=max(manifests.items())[1].bytes,
            columns=tuple(dataset.schema.names),
            dimension=max((_dimension(field) for field in dataset.schema), default=0),
        )


def _manifests(files: Mapping[str, DatedFile]) -> Iterator[tuple[int, DatedFile]]:
    """By version."""
    for path, file in files.items():
        version = version_named(path.removeprefix(_VERSIONS))
        if version is not None and path.startswith(_VERSIONS):
            yield version, file


def _parts_by_fragment(indexes: Sequence[Any]) -> dict[int, set[str]]:
    covering: dict[int, set[str]] = {}
    for index in indexes:
        for part in index.segments:
            for fragment_id in part.fragment_ids:
                covering.setdefault(int(fragment_id), set()).add(str(part.uuid))
    return covering


def _fragment(fragment: Any, parts: Mapping[int, set[str]]) -> FragmentShape:
    metadata = fragment.metadata
    return FragmentShape(
        id=int(fragment.fragment_id),
        rows=int(metadata.physical_rows),
        deleted=int(fragment.num_deletions),
        bytes=sum(file.file_size_bytes or 0 for file in metadata.files),
        parts=frozenset(parts.get(int(fragment.fragment_id), ())),
    )


def _index(dataset: LanceDataset, found: Any) -> IndexShape:
    stats = dataset.stats.index_stats(found.name)
    rows = [int(count) for count in stats["num_indexed_rows_per_delta"]]
    parts = stats["indices"]
    return IndexShape(
        name=found.name,
        column=found.field_names[0],
        kind=stats["index_type"],
        parts=tuple(
            PartShape(live, max(live, _held(part)), int(segment.size_bytes or 0))
            for live, part, segment in zip(rows, parts, found.segments, strict=True)
        ),
        unindexed_rows=int(stats["num_unindexed_rows"]),
        unindexed_fragments=int(stats["num_unindexed_fragments"]),
        partitions=next((part["num_partitions"] for part in parts if "partitions" in part), None),
    )


def _held(part: dict[str, Any]) -> int:
    """All rows of a part of a vector index; 0 if it is another kind, which does not tell."""
    partitions: Sequence[dict[str, int]] = part.get("partitions", ())
    return sum(partition["size"] for partition in partitions)


def _dimension(field: Any) -> int:
    return int(getattr(field.type, "list_size", 0))
