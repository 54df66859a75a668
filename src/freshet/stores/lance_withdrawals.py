"""Taking the rows of a commit out again, as if it had never been."""

from collections.abc import Sequence
from typing import Final

import lance
import pyarrow as pa
import pyarrow.compute as pc

from freshet.errors import CommitConflictError
from freshet.stores.lance_commits import Commit, translating
from freshet.stores.lance_tables import ROW_ADDRESS, ROW_ID, LanceTable

_MAX_CONFLICTS: Final = 20


def withdraw(uri: str, commit: Commit) -> int:
    """Deletes the rows that a commit added, wherever a compaction has put them since.

    Returns how many there still were; doing it twice has the effect of doing it once. Holds the ids
    of the commit's rows.
    """
    row_ids, stamp = _added(uri, commit), {"freshet.withdrawn": str(commit.version)}
    for _ in range(_MAX_CONFLICTS):
        table = LanceTable.open(uri)
        addresses = _addresses(uri, table.version, row_ids)
        try:
            if addresses:
                table.commit(table.removal(addresses), [], stamp)
        except CommitConflictError:
            continue
        return len(addresses)
    raise CommitConflictError("withdraw rows from", uri, f"{_MAX_CONFLICTS} conflicts in a row")


def _added(uri: str, commit: Commit) -> pa.Array:
    with translating("read the rows of a commit to", uri):
        fragments = [
            fragment
            for fragment in lance.dataset(uri, version=commit.version).get_fragments()
            if commit.files & {file.path for file in fragment.metadata.files}
        ]
        found = [fragment.to_table(columns=[], with_row_id=True) for fragment in fragments]
    return pa.concat_arrays(chunk for rows in found for chunk in rows.column(ROW_ID).chunks)


def _addresses(uri: str, version: int, row_ids: pa.Array) -> Sequence[int]:
    """Reads no column, only where each row lies."""
    addresses: list[int] = []
    with translating("look for rows in", uri):
        scan = lance.dataset(uri, version=version).scanner(
            columns=[], with_row_id=True, with_row_address=True
        )
        for batch in scan.to_batches():
            found = batch.filter(pc.is_in(batch.column(ROW_ID), row_ids))
            addresses += found.column(ROW_ADDRESS).to_pylist()
    return addresses
