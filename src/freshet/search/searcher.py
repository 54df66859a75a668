"""Search over the index: by vector, by words or by both, filtered, now or as of then."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from freshet import schemas
from freshet.clock import utc_now
from freshet.errors import ModelMismatchError, SearchError, StoreError
from freshet.rows import MODEL_KEY
from freshet.search.as_of import AsOf, version_as_of
from freshet.search.candidates import Candidate, by_piece, by_record
from freshet.search.ranking import Mode, Ranking
from freshet.stores.lance_search import DEFAULT_KNOBS, VECTOR, Knobs, SearchableTable

Embed = Callable[[str], Sequence[float]]


@dataclass(frozen=True)
class Hit:
    """One piece of one record; the greater the score, the better.

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

    Refuses to compare vectors with those of an index that another model filled.
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
        knobs: Knobs = DEFAULT_KNOBS,
    ) -> None:
        self._uri = uri
        self._model_id = model_id
        self._embed = embed
        self._attributes = None if attributes is None else tuple(attributes)
        self._metric = metric
        self._knobs = knobs

    def search(
        self,
        question: str,
        *,
        k: int,
        where: str | None = None,
        vector: str | None = None,
        mode: str = Mode.VECTOR,
        as_of: AsOf | None = None,
        per_record: bool = True,
        nprobes: int | None = None,
        ef: int | None = None,
        refine: int | None = None,
    ) -> list[Hit]:
        """The k best records, each by its best piece, or with `per_record=False` the k best pieces.

        `where` is an SQL condition on the columns, applied before. With a `vector`, the one of that
        name is compared, and a record is shown by its first piece. With `as_of`, the answer is the
        one of that version, or of the newest at that moment: `AsOfError` if it is not kept.
        """
        asked = _mode_of(mode, vector)
        _check_at_least(1, k=k, nprobes=nprobes, ef=ef)
        _check_at_least(0, refine=refine)
        table = self._table(as_of)
        _check_vector(vector, table)
        given = {"nprobes": nprobes, "ef": ef, "refine": refine}
        knobs = replace(self._knobs, **{name: n for name, n in given.items() if n is not None})
        grouping = by_record if per_record else by_piece
        ranking = Ranking(table, self._metric, knobs, where, grouping)
        try:
            found = self._ranked(ranking, asked, question, vector or VECTOR, k)
        except StoreError as error:
            if where is None:
                raise
            raise _condition_error(where, table, error) from error
        return self._hits(table, found)

    def _table(self, as_of: AsOf | None) -> SearchableTable:
        newest = SearchableTable.open(self._uri, what="index")
        if as_of is None:
            return newest
        if isinstance(as_of, datetime) or as_of not in newest.version_numbers():
            as_of = version_as_of(as_of, newest.versions(), utc_now())
        return SearchableTable.open(self._uri, version=as_of, what="index")

    def _ranked(
        self, ranking: Ranking, mode: Mode, question: str, column: str, k: int
    ) -> list[Candidate]:
        if mode is Mode.TEXT:
            return ranking.by_text(question, k)
        self._check_model(ranking.table)
        vector = self._embed(question)
        if mode is Mode.VECTOR:
            return ranking.by_vector(vector, column, k)
        return ranking.by_both(question, vector, column, k)

    def _check_model(self, table: SearchableTable) -> None:
        found = table.metadata.get(MODEL_KEY, "an unknown model")
        if found != self._model_id:
            raise ModelMismatchError(
                table=self._uri, what="model", in_table=found, in_settings=self._model_id
            )

    def _hits(self, table: SearchableTable, found: Sequence[Candidate]) -> list[Hit]:
        if not found:
            return []
        names = self._attributes_of(table)
        wanted = ("text", schemas.CHUNK_START, *names)
        columns = [name for name in wanted if name in table.schema.names]
        rows = table.take([one.row_id for one in found], columns).to_pylist()
        return [_hit(one, row, names) for one, row in zip(found, rows, strict=True)]

    def _attributes_of(self, table: SearchableTable) -> list[str]:
        """Of an index that was made before, a column may still be missing."""
        further = {column for name in _further(table) for column in (name, schemas.hash_of(name))}
        not_attributes = {*schemas.INDEX_COLUMNS, *further}
        own = (name for name in table.schema.names if name not in not_attributes)
        return [name for name in own if self._attributes is None or name in self._attributes]


def _hit(found: Candidate, row: Mapping[str, Any], names: Sequence[str]) -> Hit:
    return Hit(
        key=found.key,
        chunk=found.chunk,
        start=row.get(schemas.CHUNK_START),
        score=round(found.score, 4),
        text=row["text"],
        attributes={name: row[name] for name in names},
    )


def _mode_of(name: str, vector: str | None) -> Mode:
    if name not in set(Mode):
        raise SearchError(f'there is no mode "{name}"; there are {", ".join(Mode)}')
    if name == Mode.TEXT and vector is not None:
        raise SearchError(f'a search by text compares no vector: leave out "{vector}"')
    return Mode(name)


def _check_at_least(least: int, **given: int | None) -> None:
    for name, value in given.items():
        if value is not None and value < least:
            raise SearchError(f"{name} is {value}, but must be {least} or more")


def _check_vector(name: str | None, table: SearchableTable) -> None:
    if name is not None and name not in _vectors(table):
        known = ", ".join(_vectors(table))
        raise SearchError(f'the index has no vector "{name}"; it has {known}')


def _condition_error(where: str, table: SearchableTable, error: StoreError) -> SearchError:
    columns = ", ".join(name for name in table.schema.names if name not in _vectors(table))
    return SearchError(
        f'the condition "{where}" cannot be used: {error.reason}. The columns are {columns}'
    )


def _further(table: SearchableTable) -> list[str]:
    """The names of the index's further vectors."""
    return list(json.loads(table.metadata.get(schemas.VECTORS_KEY, "{}")))


def _vectors(table: SearchableTable) -> list[str]:
    return [VECTOR, *_further(table)]
