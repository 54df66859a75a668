"""Which small things are worth folding into a larger one, as a log-structured merge tree does.

Pure. A thing is folded only with others that together are about as large as itself, so its rows are
written again only each time its size has about doubled: the whole cost follows the new rows, times
the logarithm of the table.
"""

from collections.abc import Sequence
from typing import Final

FAN_IN: Final = 4
"""Fewer things of about a size are left alone."""
_MOST_TIMES: Final = 4
_PAYS_FROM: Final = 100


def newest_to_merge(sizes: Sequence[int], *, most: int, most_rows: int) -> int:
    """How many of the newest parts should become one; 0 if they should stay. Oldest come first.

    Never takes more than `most_rows` rows together. If there are more than `most` parts, it merges
    some even where that is not due yet.
    """
    count, total = 0, 0
    for size in reversed(sizes):
        if count and size > total:
            break
        if total + size > most_rows:
            break
        count, total = count + 1, total + size
    if count >= FAN_IN:
        return count
    if len(sizes) > most and sum(sizes[-2:]) <= most_rows:
        return max(2, count)
    return 0


def all_to_merge(sizes: Sequence[int], *, most: int) -> int:
    """As `newest_to_merge`, for parts that can only be merged all at once: all of them, or 0.

    That pays when the parts after the first have a hundredth of the rows. With four times as many
    parts as there should be it is done in any case.
    """
    count, total = len(sizes), sum(sizes)
    pays = sum(sizes[1:]) * _PAYS_FROM >= total or count > _MOST_TIMES * most
    return count if count > most and pays else 0


def window_to_fold(sizes: Sequence[int | None], *, most_rows: int) -> tuple[int, int] | None:
    """The longest run of neighbours that should become one, as start and end; None if none should.

    None among the sizes is a thing that must stay as it is. No member is larger than all others of
    its run together, and a run has at most `most_rows` rows.
    """
    best: tuple[int, int] | None = None
    for start in range(len(sizes)):
        total, largest = 0, 0
        for end, size in enumerate(sizes[start:], start + 1):
            if size is None or total + size > most_rows:
                break
            total, largest = total + size, max(largest, size)
            is_due = end - start >= FAN_IN and 2 * largest <= total
            if is_due and (best is None or end - start > best[1] - best[0]):
                best = (start, end)
    return best
