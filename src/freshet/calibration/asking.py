"""Questions that are asked of a copy of the index, as searches ask them.

They are rows of the index: the vector of one, and the first words of its text. So no model is
needed, and the time that one takes to embed a question is not in the figures.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from freshet.search import Knobs, Mode
from freshet.search.candidates import by_record
from freshet.search.ranking import Ranking
from freshet.stores import lance_copies
from freshet.stores.lance_search import VECTOR, SearchableTable

_QUESTIONS: Final = 32
_FEWEST: Final = 8
_WORDS: Final = 6
_COLUMNS: Final = ("text", VECTOR)


@dataclass(frozen=True)
class Asking:
    """How questions are asked."""

    mode: str
    k: int
    metric: str
    knobs: Knobs

    def __str__(self) -> str:
        knobs = f"nprobes = {self.knobs.nprobes or 'unset'}, ef = {self.knobs.ef or 'unset'}"
        return f"mode = {self.mode}, k = {self.k}, {knobs}, refine = {self.knobs.refine}"

    def ask(self, table: SearchableTable, words: str, vector: Any) -> None:
        """One question, with the texts of what was found."""
        ranking = Ranking(table, self.metric, self.knobs, None, by_record)
        if self.mode == Mode.TEXT:
            found = ranking.by_text(words, self.k)
        elif self.mode == Mode.VECTOR:
            found = ranking.by_vector(vector, VECTOR, self.k)
        else:
            found = ranking.by_both(words, vector, VECTOR, self.k)
        table.take([one.row_id for one in found], ["text"])


@dataclass(frozen=True)
class Questions:
    """Some rows of a table, and how they are asked."""

    uri: str
    asking: Asking
    rows: Sequence[dict[str, Any]]

    @classmethod
    def of(cls, uri: str, rows: int, asking: Asking, seed: int) -> Self:
        """Rows of a table, anywhere in it; those without a vector are left out."""
        places = random.Random(seed).sample(range(rows), min(rows, 2 * _QUESTIONS))  # noqa: S311
        found = lance_copies.rows_at(uri, sorted(places), _COLUMNS).to_pylist()
        return cls(uri, asking, [row for row in found if row[VECTOR]][:_QUESTIONS])

    def warm_up(self, version: int) -> None:
        """Asks each of them, so that what they need of the index is in memory."""
        for place in range(len(self.rows)):
            self._ask(version, place)

    def times_ms(self, version: int, seconds: float) -> list[float]:
        """Asks one after the other for some time, a few in any case; each opens the table anew."""
        times = list[float]()
        while len(times) < _FEWEST or sum(times) < 1_000 * seconds:
            started = time.perf_counter()
            self._ask(version, len(times) % len(self.rows))
            times.append(1_000 * (time.perf_counter() - started))
        return times

    def _ask(self, version: int, place: int) -> None:
        row = self.rows[place]
        words = " ".join((row["text"] or "").split()[:_WORDS])
        self.asking.ask(SearchableTable.open(self.uri, version=version), words, row[VECTOR])
