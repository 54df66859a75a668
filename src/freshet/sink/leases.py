"""Leases: which driver may write a sink's table. A small table beside the ledger."""

import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final, Self
from uuid import uuid4

from freshet.errors import FencedError, SinkNameTakenError
from freshet.sink.target import Target
from freshet.stores.delta_tables import SmallTable
from freshet.stores.sql import quoted

FOR_REBUILD: Final = "rebuild"
"""What a claim is for that will be given back by itself: the sink's own driver may go on then."""


@dataclass(frozen=True)
class Claim:
    """One row: a driver that began to write a table for a sink."""

    pipeline: str
    sink: str
    epoch: int
    owner: str
    host: str
    table_uri: str
    taken_at: datetime

    @property
    def is_for_rebuild(self) -> bool:
        """Whether a rebuild holds the lease, so that it will not be held for ever."""
        return self.host.startswith(f"{FOR_REBUILD} ")


class Lease:
    """One driver's right to write one table for one sink.

    Guarantee: of all drivers that claimed a sink, the one that began last passes `check`, and all
    others raise `FencedError`. A driver that was paused between its check and its commit is caught
    by the twin check that follows the commit. A claim is never given back: the next one ends it.
    """

    def __init__(self, leases: SmallTable, claim: Claim) -> None:
        self._leases = leases
        self._claim = claim
        self._seen_version = -1

    @property
    def owner(self) -> str:
        """Marks the commits of this driver."""
        return self._claim.owner

    @classmethod
    def take(
        cls,
        leases: SmallTable,
        target: Target,
        clock: Callable[[], datetime],
        purpose: str | None = None,
    ) -> Self:
        """Claims the sink's table for this driver; whoever held it before is fenced from now on."""
        before = newest_claim(leases, target.pipeline, target.sink)
        place = _seen_from(leases.uri, target.uri)
        if before is not None and before.table_uri != place:
            raise SinkNameTakenError(
                sink=f"{target.pipeline}/{target.sink}", table=place, other=before.table_uri
            )
        claim = Claim(
            pipeline=target.pipeline,
            sink=target.sink,
            epoch=1 if before is None else before.epoch + 1,
            owner=uuid4().hex,
            host=f"{f'{purpose} in ' if purpose else ''}process {os.getpid()} on {platform.node()}",
            table_uri=place,
            taken_at=clock(),
        )
        leases.append([asdict(claim)])
        return cls(leases, claim)

    def check(self) -> None:
        """Raises `FencedError` if another driver has claimed the sink since."""
        # The table changes only when somebody claims something, so its version tells almost always.
        version = self._leases.version()
        if version == self._seen_version:
            return
        holder = newest_claim(self._leases, self._claim.pipeline, self._claim.sink)
        if holder is not None and holder.owner != self._claim.owner:
            raise FencedError(
                table=self._claim.table_uri,
                sink=f"{holder.pipeline}/{holder.sink}",
                holder=holder.host,
                since=holder.taken_at,
            )
        self._seen_version = version


def newest_claim(leases: SmallTable, pipeline: str, sink: str) -> Claim | None:
    """Who holds the lease of a sink; None if nobody ever did."""
    where = f"pipeline = {quoted(pipeline)} AND sink = {quoted(sink)}"
    claims = (Claim(**row) for row in leases.read(where=where))
    return max(claims, key=lambda claim: (claim.epoch, claim.owner), default=None)


def _seen_from(home: str, uri: str) -> str:
    """The table's place without what it shares with the leases': all of it can move together."""
    parts, others = uri.split("/"), home.split("/")[:-1]
    while parts and others and parts[0] == others[0]:
        del parts[0], others[0]
    return "/".join(parts)
