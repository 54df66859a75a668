"""Rows of small Lance tables, by condition: the side tables of an index."""

from collections.abc import Sequence

import lance
import pyarrow as pa

from freshet.stores.lance_commits import translating


def matching(uri: str, columns: Sequence[str], where: str) -> pa.Table:
    """The rows that meet a condition; holds all of them."""
    with translating("read", uri):
        return lance.dataset(uri).to_table(columns=list(columns), filter=where)


def delete_matching(uri: str, where: str) -> None:
    """Removes the rows that meet a condition, in one commit; nothing is written if none does."""
    with translating("delete rows of", uri):
        table = lance.dataset(uri)
        if table.count_rows(filter=where):
            table.delete(where)
