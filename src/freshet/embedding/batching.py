"""Grouping texts for the model: sorted by length, so that padding is small."""

from collections.abc import Sequence
from typing import Final

import numpy as np

MAX_TEXTS: Final = 64


def by_token_budget(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Positions in groups whose padded size stays within a budget of tokens.

    A group's padded size is its longest length times its number of texts; a text that is longer
    than the budget stands alone. Every position is in exactly one group.
    """
    groups: list[list[int]] = []
    for position in (int(place) for place in np.argsort(np.asarray(lengths), kind="stable")):
        fits = (
            groups
            and len(groups[-1]) < MAX_TEXTS
            and lengths[position] * (len(groups[-1]) + 1) <= budget
        )
        if fits:
            groups[-1].append(position)
        else:
            groups.append([position])
    return groups
