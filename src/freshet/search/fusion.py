"""Reciprocal rank fusion: one ranking out of several whose scores cannot be compared."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

Item = TypeVar("Item")
Identity = tuple[str | int, ...]

CONSTANT: Final = 60
"""How little the first places stand out; the usual choice (Cormack, Clarke and Büttcher, 2009)."""


def fused(
    rankings: Sequence[Sequence[Item]], identity: Callable[[Item], Identity]
) -> list[tuple[Item, float]]:
    """All items, best first, each once and with its score: the sum of 1 / (60 + rank).

    Ranks count from 1. Of items of one identity the one that ranks best stands for all. Equal
    scores are ordered by the best rank, then by the identity, whatever order the rankings have.
    """
    scores: dict[Identity, float] = defaultdict(float)
    best: dict[Identity, tuple[int, Item]] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking, start=1):
            name = identity(item)
            scores[name] += 1 / (CONSTANT + rank)
            if name not in best or rank < best[name][0]:
                best[name] = (rank, item)
    order = sorted(scores, key=lambda name: (-scores[name], best[name][0], name))
    return [(best[name][1], scores[name]) for name in order]
