"""Texts that the model does not take: their records are in the index, without a vector."""

from collections.abc import Iterator
from dataclasses import dataclass

from freshet import schemas
from freshet.stores import lance_rows
from freshet.stores.lance_tables import LanceTable


@dataclass(frozen=True)
class Refused:
    """One piece of a record that a search by its vector does not find, and why."""

    key: str
    chunk: int
    error: str
    text: str


def refused(uri: str) -> Iterator[Refused]:
    """The pieces of an index that lack a vector; an index that was made before does not tell."""
    if not LanceTable.exists(uri):
        return
    if schemas.EMBEDDING_ERROR not in LanceTable.open(uri).schema.names:
        return
    columns = ["key", "chunk", schemas.EMBEDDING_ERROR, "text"]
    for row in lance_rows.matching(uri, columns, schemas.IS_REFUSED).to_pylist():
        yield Refused(*(row[name] for name in columns))
