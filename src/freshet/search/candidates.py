"""Candidates: the rows that a table offers as an answer, and the best of each record."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from freshet.search.fusion import Identity

_OVERFETCH: Final = 2
_MOST_ROWS: Final = 65_536


class Candidate(NamedTuple):
    """A row that may be in the answer; the greater the score, the better."""

    row_id: int
    key: str
    chunk: int
    score: float


Grouping = Callable[[Candidate], Identity]


def by_record(candidate: Candidate) -> Identity:
    """All pieces of a record count as one."""
    return (candidate.key,)


def by_piece(candidate: Candidate) -> Identity:
    """Every piece counts."""
    return (candidate.key, candidate.chunk)


def best_of_each(
    ask: Callable[[int], Sequence[Candidate]], k: int, grouping: Grouping
) -> list[Candidate]:
    """The best candidates of k groups, best first; fewer only if there are no more.

    `ask` gives so many candidates, best first, or all that there are. It is asked for twice as many
    as long as they are too few groups, up to 65,536.
    """
    rows = k if grouping is by_piece else _OVERFETCH * k
    while True:
        found = ask(rows)
        best: dict[Identity, Candidate] = {}
        for candidate in found:
            best.setdefault(grouping(candidate), candidate)
        if len(best) >= k or len(found) < rows or rows >= _MOST_ROWS:
            return list(best.values())[:k]
        rows *= 2
