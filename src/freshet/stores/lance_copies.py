"""Copies of Lance tables to try things on: made, changed as a batch would, and set back."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import lance
import pyarrow as pa

from freshet.stores.lance_commits import translating
from freshet.stores.lance_tables import ROW_ADDRESS, LanceTable

_BLOCK_ROWS: Final = 1_024


def copy_rows(uri: str, target: str, most: int) -> int:
    """Copies the rows of a table, or so many of them, into a new one without indexes.

    Returns how many. Reads one version; what is written meanwhile makes no difference.
    """
    with translating("copy", uri):
        source = lance.dataset(uri)
        blocks = blocks_of(source.count_rows(), most)
        batches = (
            batch
            for start, count in blocks
            for batch in source.scanner(offset=start, limit=count).to_batches()
        )
        reader = pa.RecordBatchReader.from_batches(source.schema, batches)
        lance.write_dataset(reader, target, mode="create", enable_stable_row_ids=True)
    return sum(count for _, count in blocks)


def blocks_of(rows: int, most: int) -> list[tuple[int, int]]:
    """Starts and lengths of runs of rows: all of them as one, or so many evenly over all. Pure."""
    if rows <= most:
        return [(0, rows)]
    count = -(-most // _BLOCK_ROWS)
    ends = [place * most // count for place in range(count + 1)]
    sizes = [end - start for start, end in pairwise(ends)]
    return [(place * rows // count, size) for place, size in enumerate(sizes)]


def rows_at(uri: str, places: Sequence[int], columns: Sequence[str]) -> pa.Table:
    """Some rows, by their places from 0 on."""
    with translating("read rows of", uri):
        return lance.dataset(uri).take(list(places), columns=list(columns))


def change_oldest(uri: str, rows: int) -> int:
    """Writes the rows that lie first anew, as an update of their records does; one commit.

    They leave their fragments and form a new one. Returns its version.
    """
    table = LanceTable.open(uri)
    with translating("read rows of", uri):
        found = lance.dataset(uri).scanner(limit=rows, with_row_address=True).to_table()
    removal = table.removal(found.column(ROW_ADDRESS).to_pylist())
    new = found.drop_columns([ROW_ADDRESS]).cast(table.schema)
    return table.commit(removal, table.write_files(new.to_reader()), {})


def restore(uri: str, version: int) -> None:
    """Makes an earlier version the newest one, with its rows and its indexes."""
    with translating(f"restore version {version} of", uri):
        earlier: Any = lance.dataset(uri).checkout_version(version)
        earlier.restore()


def new_fragments(uri: str, since: int) -> Iterator[int]:
    """The fragments that a version did not have."""
    known = set(LanceTable.open(uri, version=since).fragment_ids)
    return (one for one in LanceTable.open(uri).fragment_ids if one not in known)
