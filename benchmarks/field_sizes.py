"""How much is measured: the full run stays within an hour on two cores, the quick within 5 minutes.

A figure that may take long has a limit in time instead of a promise: whoever is too slow for it is
stopped, and the tables say after how many batches.
"""

from dataclasses import dataclass, replace

from field_rivals import (
    FRESHET,
    MERGE,
    NAIVE,
    NATIVE,
    NOOP,
    OPTIMIZED,
    PULL_399,
    PULL_564,
    UPDATE,
)

EXPERIMENTS = ("E1", "E2", "E3", "E4")
ON_S3 = ("E1", "E4")
"""Those that are run on an object store, too."""
SHARES = {
    FRESHET: 1.0,
    OPTIMIZED: 1.0,
    PULL_399: 1.0,
    PULL_564: 0.5,
    NATIVE: 0.5,
    NAIVE: 0.25,
    UPDATE: 0.25,
    MERGE: 0.25,
    NOOP: 0.25,
}
"""The part of all batches that a rival writes in E1 and E2: the hour goes to what is asked."""
LEEWAY = 1.15
"""A rival may take so much more than its share of the time."""

LEAST_TRIGGERS = 3.5
"""A window has so many; the first ones of a start are in no figure."""


@dataclass(frozen=True)
class Size:
    """One choice of all numbers."""

    name: str
    rows: int
    """A batch, in E1 and E2."""
    batches: int
    """Of E1."""
    warm_up: int
    """Batches of each rival before anything is measured."""
    rounds: int
    """In so many turns each rival writes them."""
    minutes: float
    """Of E1."""
    cadences: tuple[int, ...]
    cadence_batches: int
    """Of E2, for each cadence."""
    cadence_minutes: float
    """Of E2."""
    cadence_rivals: tuple[str, ...]
    versions: tuple[int, ...]
    triggers_s: tuple[int, ...]
    window_s: float
    """How long `freshet` keeps a trigger in E4."""
    short_window_s: float
    """How long the others do, a few triggers at least."""
    trigger_rivals: tuple[str, ...]
    rate_triggers_s: tuple[int, ...]
    """For which the highest rate is looked for."""
    vector_triggers_s: tuple[int, ...]
    """… of rows with vectors, too."""
    limit_minutes: float
    """What can be left out, the last rates that are looked for, is left out after this."""
    look_backs: tuple[int, ...] = (100, 500, 1_000)
    trials: int = 5
    rate: int = 1_000
    """Rows a second of E4."""
    partitions: int | None = None

    def batches_of(self, rival: str) -> int:
        """Of one turn in E1."""
        return max(round(self.batches * SHARES[rival] / self.rounds), 1)

    def seconds_of(self, rival: str, rivals: tuple[str, ...]) -> float:
        """The longest that a turn in E1 may take."""
        return 60 * self.minutes * LEEWAY * self._share(rival, rivals) / self.rounds

    def cadence_seconds_of(self, rival: str, rivals: tuple[str, ...]) -> float:
        """The longest that a stream in E2 may take."""
        return 60 * self.cadence_minutes * LEEWAY * self._share(rival, rivals) / len(self.cadences)

    def cadence_batches_of(self, rival: str) -> int:
        """Of one stream in E2."""
        return max(round(self.cadence_batches * SHARES[rival]), 1)

    def _share(self, rival: str, rivals: tuple[str, ...]) -> float:
        return SHARES[rival] / sum(SHARES[other] for other in rivals)

    def window_of(self, rival: str, trigger_s: int) -> float:
        """How long a rival is watched in E4."""
        if rival == FRESHET:
            return max(self.window_s, LEAST_TRIGGERS * trigger_s)
        return max(self.short_window_s, LEAST_TRIGGERS * trigger_s)


FULL = Size(
    name="full",
    rows=5_000,
    batches=2_000,
    warm_up=20,
    rounds=4,
    minutes=24,
    cadences=(50, 200),
    cadence_batches=500,
    cadence_minutes=6,
    cadence_rivals=(FRESHET, NATIVE, PULL_399, PULL_564, NAIVE),
    versions=(10, 100, 500, 1_000, 4_000),
    triggers_s=(1, 5, 15),
    window_s=120,
    short_window_s=20,
    trigger_rivals=(FRESHET, NATIVE, PULL_399, PULL_564, NAIVE, NOOP),
    rate_triggers_s=(1, 5, 15),
    vector_triggers_s=(1, 5),
    limit_minutes=54,
)
QUICK = Size(
    name="quick",
    rows=5_000,
    batches=40,
    warm_up=3,
    rounds=2,
    minutes=1.5,
    cadences=(10,),
    cadence_batches=40,
    cadence_minutes=0.3,
    cadence_rivals=(FRESHET, PULL_399),
    versions=(10, 100, 500),
    triggers_s=(1, 5),
    window_s=20,
    short_window_s=8,
    trigger_rivals=(FRESHET, PULL_399, NOOP),
    rate_triggers_s=(1,),
    vector_triggers_s=(),
    limit_minutes=4.5,
)
S3 = replace(
    FULL,
    name="s3",
    batches=200,
    warm_up=3,
    rounds=2,
    window_s=60,
    short_window_s=30,
    trigger_rivals=(FRESHET, NATIVE, PULL_399, NAIVE, NOOP),
    vector_triggers_s=(),
)
"""Where a batch takes a second and more."""
