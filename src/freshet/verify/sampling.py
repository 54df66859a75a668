"""A sample of the keys: chosen by a hash of the key, so that both sides choose the same ones."""

from dataclasses import dataclass
from random import SystemRandom
from typing import Any, Final, Self

from pyspark.sql import Column
from pyspark.sql import functions as F

from freshet.errors import SettingsError

_STEPS: Final = 1_000_000_000
_SEEDS: Final = 1_000_000
_RULE_OF_THREE: Final = 3
"""-ln(0.05): if as many keys as one in n/3 were wrong, n sampled ones would show it, at 95 %."""


@dataclass(frozen=True)
class Sample:
    """Which keys are looked at."""

    share: float
    """Of all keys, between 0 and 1."""
    seed: int
    of_keys: int
    """About how many keys there are."""

    @classmethod
    def of(cls, asked: float, *, keys: int, seed: int | None = None) -> Self | None:
        """A share of the keys (below 1) or about so many of them; None if that is all of them.

        Without a seed the choice is another one every time.
        """
        if asked <= 0:
            raise SettingsError(f"a sample of {asked:g} shows nothing: ask for more than 0")
        share = asked if asked < 1 else asked / max(keys, 1)
        if share >= 1:
            return None
        return cls(share, SystemRandom().randrange(_SEEDS) if seed is None else seed, keys)

    def holds(self, column: str = "key") -> Column:
        """Whether the key in a column is one of them."""
        place = F.pmod(F.xxhash64(F.lit(self.seed), F.col(column)), F.lit(_STEPS))
        return F.col(column).isNotNull() & (place < round(self.share * _STEPS))

    def proves(self, keys: int) -> float:
        """The share of wrong keys that is ruled out, at 95 %, if none of so many was wrong."""
        return min(1.0, _RULE_OF_THREE / keys) if keys else 1.0

    def as_dict(self, keys: int, *, is_ok: bool) -> dict[str, Any]:
        """The form that `--json` prints."""
        said = {"share": self.share, "seed": self.seed, "keys": keys, "of_keys": self.of_keys}
        return said | ({"wrong_share_below": self.proves(keys)} if is_ok else {})
