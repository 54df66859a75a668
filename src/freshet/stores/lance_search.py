"""Searching a Lance table, by vector and by words, at one version of it.

Guarantee: every row of the version can be found, whether or not an index covers it. Rows that no
index covers yet are scanned.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from lance.query import MatchQuery

from freshet.partitions import candidates_for, probes_for
from freshet.stores.lance_commits import translating
from freshet.stores.lance_tables import LanceTable
from freshet.stores.lance_versions import Version, versions_of

VECTOR: Final = "vector"
DISTANCE: Final = "_distance"
SCORE: Final = "_score"
Vectors = np.ndarray[Any, np.dtype[np.float32]]
_MODEST: Final[Mapping[str, Any]] = {
    "batch_size": 1_024,
    "io_buffer_size": 32 << 20,
    "batch_readahead": 2,
    "fragment_readahead": 1,
}
"""How all vectors are read beside other work: 0.5 GiB instead of 0.8 for 1,000,000 x 384."""


@dataclass(frozen=True)
class Knobs:
    """How hard the index of the vectors is searched: more finds more, and takes longer."""

    nprobes: int | None = None
    """Partitions to look into, further ones only if these hold too few rows; None: by the rows that
    are indexed."""
    ef: int | None = None
    """Candidates to keep on the way through a graph; None: by the rows that are indexed, and
    twice those asked for at least."""
    refine: int = 0
    """So many times the rows asked for are compared by their exact vectors; 0: none is."""

    def for_rows(self, rows: int, *, of: int) -> dict[str, Any]:
        """The knobs as Lance takes them, for so many rows of those that are indexed."""
        compared = rows * max(self.refine, 1)
        # Lance's own choice, 1.5 times, loses neighbours; fewer than `compared` it refuses.
        ef = max(2 * compared, candidates_for(of)) if self.ef is None else max(self.ef, compared)
        nprobes = probes_for(of) if self.nprobes is None else self.nprobes
        return {"nprobes": nprobes, "ef": ef, "refine_factor": self.refine or None}


DEFAULT_KNOBS: Final = Knobs()


class SearchableTable(LanceTable):
    """One version of a table that questions are asked of."""

    def versions(self) -> list[Version]:
        """The versions that are kept, oldest first, maybe with gaps; reads all their manifests."""
        with translating("read the versions of", self.uri):
            return versions_of(self._dataset)

    def version_numbers(self) -> set[int]:
        """The numbers of the versions that are kept; reads no manifest."""
        with translating("read the versions of", self.uri):
            return {int(one["version"]) for one in self._dataset.version_refs()}

    def nearest(
        self,
        vector: Any,
        *,
        rows: int,
        metric: str,
        columns: Sequence[str] = (),
        where: str | None = None,
        column: str = VECTOR,
        knobs: Knobs = DEFAULT_KNOBS,
    ) -> pa.Table:
        """The rows nearest to a vector, with `_distance` and `_rowid`; the filter comes first."""
        query = {"column": column, "q": vector, "k": rows, "metric": metric}
        index = self._index_on(column)
        query |= knobs.for_rows(rows, of=0 if index is None else index.num_rows_indexed)

        def ask(nearest: Mapping[str, Any]) -> pa.Table:
            return self._dataset.to_table(
                columns=[*columns, DISTANCE],
                nearest=dict(nearest),
                filter=where,
                prefilter=True,
                with_row_id=True,
            )

        with translating("search", self.uri):
            found = ask(query)
            if found.num_rows < rows and index is not None:
                # A minimum alone lets Lance go on to further partitions, which a maximum forbids.
                found = ask(query | {"nprobes": None, "minimum_nprobes": query["nprobes"]})
            return found

    def matching(
        self,
        words: str,
        *,
        rows: int,
        columns: Sequence[str] = (),
        where: str | None = None,
        column: str = "text",
    ) -> pa.Table:
        """The rows that have some of the words, with BM25 as `_score`, and `_rowid`.

        Nothing in the words is an operator, and words that no row has are no error. An index may
        know words by their stems; without one they are compared as they are, in any case.
        """
        with translating("search", self.uri):
            is_indexed = self._index_on(column) is not None
            return self._dataset.to_table(
                columns=[*columns, SCORE],
                full_text_query=MatchQuery(words if is_indexed else _in_any_case(words), column),
                filter=where,
                prefilter=True,
                limit=rows,
                with_row_id=True,
            )

    def exact_distances(self, vectors: Vectors, *, k: int, metric: str) -> list[list[float]]:
        """Of each vector, the distances of its k nearest rows, nearest first; one scan for all."""
        query = {"column": VECTOR, "q": vectors, "k": k, "metric": metric, "use_index": False}
        found: list[list[float]] = [[] for _ in vectors]
        with translating("search", self.uri):
            rows = self._dataset.to_table(columns=[DISTANCE], nearest=query, **_MODEST)
        for place, distance in zip(
            rows.column("query_index").to_pylist(), rows.column(DISTANCE).to_pylist(), strict=True
        ):
            found[place].append(distance)
        return [sorted(distances) for distances in found]

    def vectors_at(self, places: Sequence[int]) -> Vectors:
        """The vectors of the rows at some places, counted from 0; a row may have none."""
        with translating("read rows of", self.uri):
            return _matrix(self._dataset.take(list(places), columns=[VECTOR]).column(VECTOR))

    def vectors_of(self, row_ids: Sequence[int]) -> Vectors:
        """The vectors of some rows, which must have one, in the order of their ids."""
        return _matrix(self.take(row_ids, [VECTOR]).column(VECTOR))


def _in_any_case(words: str) -> str:
    """The words as they may be written, for Lance tells `Apples` from `apples` without an index."""
    kinds = (str, str.lower, str.capitalize, str.upper)
    found = re.findall(r"\w+", words)
    return " ".join(dict.fromkeys(kind(word) for word in found for kind in kinds))


def _matrix(column: pa.ChunkedArray) -> Vectors:
    whole = column.combine_chunks()
    # Null lists have no values here.
    values: Vectors = whole.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(-1, whole.type.list_size)
