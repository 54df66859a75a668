"""Three ways to ask one version of an index: by vector, by words, and by both."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import pyarrow as pa

from freshet.search.candidates import Candidate, Grouping, best_of_each
from freshet.search.fusion import fused
from freshet.stores.lance_search import DISTANCE, SCORE, Knobs, SearchableTable
from freshet.stores.lance_tables import ROW_ID

_COLUMNS: Final = ("key", "chunk")
_FUSED_PER_RESULT: Final = 4
_LEAST_FUSED: Final = 64


class Mode(StrEnum):
    """What the question is compared by."""

    VECTOR = "vector"
    TEXT = "text"
    HYBRID = "hybrid"


@dataclass(frozen=True)
class Ranking:
    """The candidates of one version of an index that a filter lets through, best first.

    Candidates of equal score are ordered by key and piece.
    """

    table: SearchableTable
    metric: str
    knobs: Knobs
    where: str | None
    grouping: Grouping

    def by_vector(self, vector: Sequence[float], column: str, k: int) -> list[Candidate]:
        """The nearest ones; the score is the cosine, the dot product, or 1 / (1 + distance)."""

        def ask(rows: int) -> list[Candidate]:
            found = self.table.nearest(
                vector,
                rows=rows,
                metric=self.metric,
                columns=_COLUMNS,
                where=self.where,
                column=column,
                knobs=self.knobs,
            )
            return _in_order(_candidates(found, DISTANCE, self._nearness))

        return best_of_each(ask, k, self.grouping)

    def by_text(self, words: str, k: int) -> list[Candidate]:
        """The ones that have the rarest of the words most often; the score is BM25."""

        def ask(rows: int) -> list[Candidate]:
            found = self.table.matching(words, rows=rows, columns=_COLUMNS, where=self.where)
            return _in_order(_candidates(found, SCORE, float))

        return best_of_each(ask, k, self.grouping)

    def by_both(self, words: str, vector: Sequence[float], column: str, k: int) -> list[Candidate]:
        """The two rankings fused, several times as deep; the score is the fused one."""
        depth = max(_FUSED_PER_RESULT * k, _LEAST_FUSED)
        rankings = [self.by_vector(vector, column, depth), self.by_text(words, depth)]
        merged = fused(rankings, self.grouping)
        return [candidate._replace(score=score) for candidate, score in merged[:k]]

    def _nearness(self, distance: float) -> float:
        return 1 / (1 + distance) if self.metric == "l2" else 1 - distance


def _candidates(
    found: pa.Table, measure: str, score_of: Callable[[float], float]
) -> Iterator[Candidate]:
    columns = (found.column(name).to_pylist() for name in (ROW_ID, *_COLUMNS, measure))
    for row_id, key, chunk, measured in zip(*columns, strict=True):
        yield Candidate(row_id, key, chunk, score_of(measured))


def _in_order(candidates: Iterator[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda one: (-one.score, one.key, one.chunk))
