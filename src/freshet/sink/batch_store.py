"""What a store with transactions of its own must do to be a sink: one small protocol.

`StoreSink` does the rest: ledger, leases, recovery, the start-up check. `freshet.testing` has the
tests that a store must pass (`SinkContract`).
"""

from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame

from freshet.errors import CommitConflictError
from freshet.sink.stamps import Batch, Counts, Mark
from freshet.sink.target import Mode


class OvertakenError(CommitConflictError):
    """Another batch of the sink has landed since the store was looked at: look again."""


@dataclass(frozen=True)
class Standing:
    """What a store says of its table, and of the batches that one sink has landed in it."""

    table_id: str
    """Tells the table from another one that came in its place."""
    version: int
    """Grows with every batch, and never shrinks unless somebody sets the table back."""
    number: int
    """How many batches of the sink have landed; the next one makes it one more."""
    newest: Mark | None
    """The last of them."""
    restored_at: int | None = None
    """A version after it that put an older state of the table back."""


@dataclass(frozen=True)
class Outcome:
    """What came of a batch that has landed."""

    table_id: str
    version: int
    counts: Counts
    write_s: float = 0.0
    """What it took to bring the rows to the store, before the transaction."""


class Ready(Protocol):
    """A batch that has been brought so far that one transaction makes it take effect."""

    def land(self, owner: str, after: int) -> Outcome:
        """One transaction: the rows, and the batch's mark as number `after + 1`.

        `owner` is the driver that writes it, and goes into the mark. Raises `OvertakenError`, and
        changes nothing, if `after` is not the number of the newest batch any more.
        """
        ...

    def discard(self) -> None:
        """Lets go of what was brought; called once, whether or not the batch has landed."""
        ...


class BatchStore(Protocol):
    """A table that batches are written to.

    Guarantee that an implementation must give: `land` is all or nothing, and the mark is in the
    same transaction as the rows. Then every batch takes effect exactly once.
    """

    @property
    def place(self) -> str:
        """Where the table is, for people; without secrets."""
        ...

    @property
    def mode(self) -> Mode:
        """What a batch does to the table."""
        ...

    def standing(self, batch: Batch) -> Standing | None:
        """What the store knows; None if there is no table yet."""
        ...

    def prepare(self, rows: DataFrame, batch: Batch) -> Ready:
        """Makes the table fit the rows, and brings them as near as can be. Nothing is visible."""
        ...
