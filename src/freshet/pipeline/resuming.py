"""The other side of a rebuild: a run that was fenced by it waits, and goes on by itself."""

import time
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from pyspark.sql.streaming.query import StreamingQuery

from freshet.clock import utc_now
from freshet.errors import FencedError, FreshetError, ModelMismatchError, SchemaMismatchError
from freshet.events import emit
from freshet.layout import INDEX, Home
from freshet.pipeline import rebuild_mark
from freshet.pipeline.beside import rebuilt_as
from freshet.sink import Ledger
from freshet.sink.leases import Lease, newest_claim
from freshet.sink.target import Target
from freshet.stores.lance_tables import LanceTable

_LOOK_EVERY_S: Final = 0.5
_TAKEN_BACK: Final = "freshet.taken_back"


class Course(StrEnum):
    """What a run does whose index query has failed."""

    WAIT = "wait"
    RELOAD = "reload"
    """The index was rebuilt: go on with the settings that it was rebuilt with."""
    TAKE_BACK = "take_back"
    """The rebuild ended without a switch: go on as before."""
    FAIL = "fail"


def decide(*, is_active: bool, is_rebuilt: bool, is_held_by_rebuild: bool) -> Course:
    """The course after a failure that a rebuild can be the reason of."""
    if is_active and (is_rebuilt or is_held_by_rebuild):
        return Course.WAIT
    if is_rebuilt:
        return Course.RELOAD
    return Course.TAKE_BACK if is_held_by_rebuild else Course.FAIL


class Resuming:
    """Looks after the queries of a continuous run; `look` is for `queries.watch`."""

    def __init__(
        self,
        home: Home,
        queries: list[StreamingQuery],
        raise_failure: Callable[[StreamingQuery], None],
        renew: Callable[[Course], StreamingQuery],
    ) -> None:
        self._home = home
        self._queries = queries
        self._raise_failure = raise_failure
        self._renew = renew
        self._leases = Ledger(home.ledger).leases
        self._rebuilt_as = rebuilt_as(home)
        self._failure: FreshetError | None = None
        self._looked_at = 0.0

    def look(self, query: StreamingQuery) -> None:
        """Raises why a query failed; puts a new one in its place once a rebuild has let go."""
        if self._failure is None or query.name != INDEX:
            try:
                self._raise_failure(query)
            except (FencedError, ModelMismatchError, SchemaMismatchError) as error:
                self._failure = error
            else:
                return
        if time.monotonic() - self._looked_at < _LOOK_EVERY_S:
            return
        self._looked_at = time.monotonic()
        self._go_on(query, self._failure)

    def _go_on(self, query: StreamingQuery, failure: FreshetError) -> None:
        course = self._course()
        if course is Course.FAIL:
            raise failure
        if course is Course.WAIT:
            return
        emit("pipeline", "index_resuming", course=course)
        if course is Course.TAKE_BACK:
            self._take_back()
        self._failure, self._rebuilt_as = None, rebuilt_as(self._home)
        self._queries[self._queries.index(query)] = self._renew(course)

    def _course(self) -> Course:
        # In this order: a rebuild switches first, and lets go of its mark last.
        mark = rebuild_mark.read(self._home)
        is_active = mark is not None and mark.is_active(utc_now())
        claim = newest_claim(self._leases, self._home.name, INDEX)
        return decide(
            is_active=is_active,
            is_rebuilt=rebuilt_as(self._home) != self._rebuilt_as,
            is_held_by_rebuild=claim is not None and claim.is_for_rebuild,
        )

    def _take_back(self) -> None:
        """A rebuild that was only paused can neither write nor switch after this."""
        target = Target(self._home.index, self._home.name, INDEX)
        Lease.take(self._leases, target, utc_now)
        LanceTable.open(self._home.index).commit(None, [], {_TAKEN_BACK: utc_now().isoformat()})
