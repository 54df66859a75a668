"""Grouping texts for the model: sorted by length, so that padding is small, and in parts, so that
the next ones are made ready while the model runs.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import numpy as np

MAX_TEXTS: Final = 64
_PART_TEXTS: Final = 1_024
_PART_CHARACTERS: Final = 1 << 20

Part = TypeVar("Part")
Made = TypeVar("Made")


def by_token_budget(
    lengths: Sequence[int], budget: int, most_texts: int = MAX_TEXTS
) -> list[list[int]]:
    """Positions in groups whose padded size stays within a budget of tokens.

    A group's padded size is its longest length times its number of texts; a text that is longer
    than the budget stands alone. Every position is in exactly one group.
    """
    groups: list[list[int]] = []
    for position in _by_length(lengths):
        fits = (
            groups
            and len(groups[-1]) < most_texts
            and lengths[position] * (len(groups[-1]) + 1) <= budget
        )
        if fits:
            groups[-1].append(position)
        else:
            groups.append([position])
    return groups


def parts_by_length(texts: Sequence[str], most_texts: int = _PART_TEXTS) -> list[list[int]]:
    """The places of texts, the shortest first, in parts that bound what is held of them at once.

    A part has at most so many texts and about a million characters; a longer text stands alone.
    """
    parts: list[list[int]] = []
    held = 0
    for place in _by_length([len(text) for text in texts]):
        held += len(texts[place])
        if parts and len(parts[-1]) < most_texts and held <= _PART_CHARACTERS:
            parts[-1].append(place)
        else:
            parts.append([place])
            held = len(texts[place])
    return parts


def overlapped(
    parts: Sequence[Part], make: Callable[[Part], Made], use: Callable[[Part, Made], None]
) -> None:
    """Makes something of each part and uses it, in order; makes the next one meanwhile.

    It is made in one thread beside the caller's. At most two of them are held.
    """
    with ThreadPoolExecutor(1) as beside:
        coming = [beside.submit(make, part) for part in parts[:1]]
        for number, part in enumerate(parts, 1):
            made = coming.pop().result()
            coming += [beside.submit(make, following) for following in parts[number : number + 1]]
            use(part, made)
            del made


def _by_length(lengths: Sequence[int]) -> list[int]:
    return [int(place) for place in np.argsort(np.asarray(lengths), kind="stable")]
