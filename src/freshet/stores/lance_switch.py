"""Rows that go from one Lance table to another, and versions that are kept by name."""

import json

import lance
import pyarrow as pa
from lance.fragment import write_fragments

from freshet.stores.lance_commits import translating
from freshet.stores.lance_tables import LanceTable


def copy_rows(source: LanceTable, uri: str) -> list[str]:
    """Writes the rows of one version into data files of another table; returns fragments as JSON.

    No version names them yet. The columns may be other ones than that table has. Rows that were
    deleted stay behind, and small fragments come together. Holds a batch of rows at a time.
    """
    schema = source.schema.remove_metadata()
    rows = pa.RecordBatchReader.from_batches(schema, source.read(schema.names, source.fragment_ids))
    with translating("write data files of", uri):
        # "overwrite" is about the columns: the files need not have those of the table.
        written = write_fragments(
            rows, lance.dataset(uri), mode="overwrite", enable_stable_row_ids=True
        )
    return [json.dumps(fragment.to_json()) for fragment in written]


def tags(uri: str) -> dict[str, int]:
    """The versions that have a name, and so are kept by every cleanup."""
    with translating("read the tags of", uri):
        return {name: int(tag["version"]) for name, tag in lance.dataset(uri).tags.list().items()}


def tag(uri: str, name: str, version: int) -> None:
    """Gives a version a name; another version loses it."""
    with translating("tag a version of", uri):
        known = lance.dataset(uri).tags
        (known.update if name in known.list() else known.create)(name, version)


def untag(uri: str, name: str) -> None:
    """The version of this name can be cleaned up from now on."""
    with translating("remove a tag of", uri):
        lance.dataset(uri).tags.delete(name)
