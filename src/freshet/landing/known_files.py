"""Which files are known already: exact answers from little memory.

Two structures, because two questions are asked. *Is this file, which lies here, known?* is asked
for every file of every listing: 16 bytes for each file that is still in the landing zone, whatever
its path's length. *Was this one, which looks new, ever here before?* is asked for new names only: a
filter of constant size says "surely not" nearly always, and otherwise the files table is asked.
So memory does not grow with the files that were read and moved away.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

_FILTER_BITS: Final = 1 << 26
"""8 MiB: at 5 million files one new name in 500 is looked up in vain, at 10 million one in 20."""
_PROBES: Final = 7
_RECENT: Final = 20_000

_Hashes = NDArray[np.uint64]


class PresentFiles:
    """The known files that are still here. Equal 128-bit hashes count as equal names."""

    def __init__(self, high: _Hashes, low: _Hashes) -> None:
        order = np.argsort(high, kind="stable")
        self._high, self._low = high[order], low[order]
        self._recent: set[str] = set()

    @classmethod
    def of(cls, pieces: Sequence[tuple[_Hashes, _Hashes]]) -> Self:
        """The files of these hashes."""
        nothing = np.zeros(0, np.uint64)
        high = np.concatenate([nothing, *(high for high, _ in pieces)])
        return cls(high, np.concatenate([nothing, *(low for _, low in pieces)]))

    def __len__(self) -> int:
        return len(self._high) + len(self._recent)

    @property
    def nbytes(self) -> int:
        """Bytes held for the bulk of them."""
        return int(self._high.nbytes + self._low.nbytes)

    def unknown(self, names: Sequence[str]) -> list[str]:
        """Those of the names that are not known here."""
        if not names:
            return []
        high, low = hashed(names)
        is_known = self._holds(high, low)
        return [
            name
            for name, known in zip(names, is_known.tolist(), strict=True)
            if not known and name not in self._recent
        ]

    def add(self, names: Iterable[str]) -> None:
        """These are known from now on."""
        self._recent.update(names)
        if len(self._recent) > _RECENT:
            merged = PresentFiles.of([(self._high, self._low), hashed(list(self._recent))])
            self._high, self._low = merged._high, merged._low
            self._recent.clear()

    def known_among(self, names: Sequence[str]) -> tuple[_Hashes, _Hashes]:
        """The hashes of those names that are known."""
        high, low = hashed(names)
        is_known = self._holds(high, low)
        if self._recent:
            is_known |= np.fromiter((name in self._recent for name in names), bool, len(names))
        return high[is_known], low[is_known]

    def _holds(self, high: _Hashes, low: _Hashes) -> NDArray[np.bool_]:
        if not len(self._high):
            return np.zeros(len(high), np.bool_)
        at = np.minimum(np.searchsorted(self._high, high), len(self._high) - 1)
        held: NDArray[np.bool_] = (self._high[at] == high) & (self._low[at] == low)
        return held


class EverKnown:
    """A filter over all files ever known: "no" is certain, "perhaps" must be looked up."""

    def __init__(self) -> None:
        self._bits = np.zeros(_FILTER_BITS // 8, np.uint8)

    def add(self, high: _Hashes, low: _Hashes) -> None:
        """These were known."""
        for bit in _places(high, low):
            np.bitwise_or.at(self._bits, bit >> 3, (1 << (bit & 7)).astype(np.uint8))

    def perhaps(self, names: Sequence[str]) -> list[str]:
        """Those of the names that may have been known."""
        if not names:
            return []
        high, low = hashed(names)
        is_set = np.ones(len(names), np.bool_)
        for bit in _places(high, low):
            is_set &= (self._bits[bit >> 3] >> (bit & 7).astype(np.uint8)) & 1 == 1
        return [name for name, found in zip(names, is_set.tolist(), strict=True) if found]


def hashed(names: Sequence[str]) -> tuple[_Hashes, _Hashes]:
    """Two independent 64-bit hashes of each name; good within this process only."""
    count = len(names)
    high = np.fromiter((hash(name) for name in names), np.int64, count)
    low = np.fromiter((hash(f"/{name}") for name in names), np.int64, count)
    return high.view(np.uint64), low.view(np.uint64)


def _places(high: _Hashes, low: _Hashes) -> Iterable[NDArray[np.int64]]:
    step = low | np.uint64(1)
    for probe in range(_PROBES):
        yield ((high + np.uint64(probe) * step) % np.uint64(_FILTER_BITS)).astype(np.int64)
