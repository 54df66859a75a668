"""How much a batch takes: at most so many files and so many bytes, but always one file."""

from collections.abc import Sequence
from itertools import accumulate

from freshet.landing.files import FilesTable, KnownFile, Waiting
from freshet.landing.options import LandingOptions


class Admission:
    """Ends batches, and counts what waits. Memory holds the files of one batch."""

    def __init__(self, options: LandingOptions) -> None:
        self._table = FilesTable(options.state)
        self._max_bytes = options.max_bytes
        self._batch: list[KnownFile] = []
        self._counted_from: int | None = None
        self.waiting = Waiting(0, 0)
        """What no batch has been given yet."""

    def end(self, start: int, newest: int, max_files: int | None, new: Sequence[KnownFile]) -> int:
        """The first number that the batch from `start` on does not take."""
        self._count(start, new)
        if newest <= start:
            return start
        files = self._window(start, newest, max_files, new)
        taken = files[: _within(files, self._max_bytes)]
        is_all = len(taken) == len(files) and (max_files is None or len(files) < max_files)
        self._batch = taken
        self._give(taken)
        return newest if is_all else taken[-1].seq + 1

    def files(self, start: int, end: int) -> list[KnownFile]:
        """The files of a batch; those of the batch that was ended last are at hand."""
        at_hand = self._batch
        if at_hand and at_hand[0].seq >= start and at_hand[-1].seq + 1 == end:
            return at_hand
        return self._table.between(start, end)

    def _window(
        self, start: int, newest: int, max_files: int | None, new: Sequence[KnownFile]
    ) -> list[KnownFile]:
        """The next files, as many as a batch may take; numbers can have gaps.

        Usually all of them were found right now, and nothing needs to be read.
        """
        if new and new[0].seq <= start and new[-1].seq + 1 == newest:
            return [file for file in new if file.seq >= start][:max_files]
        if max_files is None:
            return self._table.between(start, newest)
        end, files = start, list[KnownFile]()
        while end < newest and len(files) < max_files:
            upper = min(newest, end + max_files)
            files += self._table.between(end, upper)
            end = upper
        return files[:max_files]

    def _count(self, start: int, new: Sequence[KnownFile]) -> None:
        if self._counted_from is None:
            self.waiting = self._table.unread(start)
            self._counted_from = start
        else:
            size = sum(file.size or 0 for file in new)
            self.waiting = Waiting(self.waiting.files + len(new), self.waiting.bytes + size)

    def _give(self, files: Sequence[KnownFile]) -> None:
        size = sum(file.size or 0 for file in files)
        self.waiting = Waiting(self.waiting.files - len(files), self.waiting.bytes - size)


def _within(files: Sequence[KnownFile], max_bytes: int | None) -> int:
    """How many files stay within the limit; one is always taken."""
    if max_bytes is None:
        return len(files)
    sums = accumulate(file.size or 0 for file in files)
    return max(1, sum(1 for total in sums if total <= max_bytes))
