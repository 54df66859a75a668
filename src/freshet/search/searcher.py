"""Vector search over the index, with a filter on its columns."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from freshet import schemas
from freshet.errors import ModelMismatchError, SearchError, StoreError
from freshet.rows import MODEL_KEY
from freshet.stores.lance_tables import LanceTable

Embed = Callable[[str], Sequence[float]]


@dataclass(frozen=True)
class Hit:
    """One piece of one record; the greater the score, the nearer.

    It is the record's text from `start` on, in characters; None in an index that was made before.
    """

    key: str
    chunk: int
    start: int | None
    score: float
    text: str
    attributes: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """The flat form that `--json` prints."""
        own = {"key": self.key, "chunk": self.chunk, "start": self.start, "score": self.score}
        return own | {"text": self.text} | dict(self.attributes)


class Searcher:
    """Asks an index. Every question sees the newest committed batch; only the model is kept.

    Refuses an index that another model filled: its vectors cannot be compared with the question's.
    Without `attributes` a hit has all that the index has when it is asked.
    """

    def __init__(
        self,
        uri: str,
        *,
        model_id: str,
        embed: Embed,
        attributes: Sequence[str] | None,
        metric: str,
    ) -> None:
        self._uri = uri
        self._model_id = model_id
        self._embed = embed
        self._attributes = None if attributes is None else tuple(attributes)
        self._metric = metric

    def search(
        self, question: str, *, k: int, where: str | None = None, vector: str | None = None
    ) -> list[Hit]:
        """The k nearest pieces, nearest first; `where` is an SQL condition on the columns.

        With a `vector`, the k records whose vector of that name is nearest, with their first piece.
        """
        table = LanceTable.open(self._uri, what="index")
        self._check_model(table)
        _check_vector(vector, table)
        attributes = self._attributes_of(table)
        try:
            found = table.nearest(
                self._embed(question),
                k=k,
                metric=self._metric,
                columns=[*_own_columns(table), *attributes],
                where=where,
                column=vector or "vector",
            )
        except StoreError as error:
            if where is None:
                raise
            columns = ", ".join(name for name in table.schema.names if name not in _vectors(table))
            raise SearchError(
                f'the condition "{where}" cannot be used: {error.reason}. The columns are {columns}'
            ) from error
        return [self._hit(row, attributes) for row in found.to_pylist()]

    def _attributes_of(self, table: LanceTable) -> list[str]:
        """Of an index that was made before, a column may still be missing."""
        further = {column for name in _further(table) for column in (name, schemas.hash_of(name))}
        not_attributes = {*schemas.INDEX_COLUMNS, *further}
        own = (name for name in table.schema.names if name not in not_attributes)
        return [name for name in own if self._attributes is None or name in self._attributes]

    def _check_model(self, table: LanceTable) -> None:
        found = table.metadata.get(MODEL_KEY, "an unknown model")
        if found != self._model_id:
            raise ModelMismatchError(
                table=self._uri, what="model", in_table=found, in_settings=self._model_id
            )

    def _hit(self, row: Mapping[str, Any], names: Sequence[str]) -> Hit:
        distance = row["_distance"]
        score = 1 / (1 + distance) if self._metric == "l2" else 1 - distance
        attributes = {name: row[name] for name in names}
        start = row.get(schemas.CHUNK_START)
        return Hit(row["key"], row["chunk"], start, round(score, 4), row["text"], attributes)


def _own_columns(table: LanceTable) -> list[str]:
    """What a hit tells of a piece; an index that was made before may lack some of it."""
    wanted = ("key", "chunk", schemas.CHUNK_START, "text")
    return [name for name in wanted if name in table.schema.names]


def _further(table: LanceTable) -> list[str]:
    """The names of the index's further vectors."""
    return list(json.loads(table.metadata.get(schemas.VECTORS_KEY, "{}")))


def _vectors(table: LanceTable) -> list[str]:
    return ["vector", *_further(table)]


def _check_vector(name: str | None, table: LanceTable) -> None:
    if name is not None and name not in _vectors(table):
        known = ", ".join(_vectors(table))
        raise SearchError(f'the index has no vector "{name}"; it has {known}')
