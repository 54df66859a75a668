"""The optimizer: looks at an index, plans what is due, and does it beside the writer.

Guarantee: it changes how rows lie and what finds them, never which rows there are. A failure, a
kill at any moment and a lost race against the writer cost its own work and nothing else: the next
run does what is still due. Of several optimizers of an index one works at a time.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

from freshet.clock import utc_now
from freshet.errors import CommitConflictError, FreshetError, StoreError
from freshet.events import emit, warn
from freshet.optimizer import memory
from freshet.optimizer.acting import Acting
from freshet.optimizer.actions import Action, Plan, Refusal
from freshet.optimizer.limits import Limits
from freshet.optimizer.plan import Situation, Wanted, plan
from freshet.optimizer.records import DONE, FAILED, LOST, Done, Records, is_waiting
from freshet.stores.lance_shape import TableShape, shape_of
from freshet.stores.locks import ExpiringLock

OnAction = Callable[[Action, Done | None], None]
"""Told an action before it is done, and once more with its record after."""

_MOST_ROUNDS: Final = 8
_WAIT_FOR_WRITER_S: Final = 5.0
_POLL_S: Final = 0.05


@dataclass(frozen=True)
class RunReport:
    """What one run did."""

    done: tuple[Done, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    waiting: tuple[Action, ...] = ()
    """Due, but they failed lately and are tried later."""
    busy: str | None = None
    """Who works on the index instead; nothing was done then."""

    @property
    def is_failed(self) -> bool:
        """Whether something went wrong; a race that was lost is no failure."""
        return any(done.status == FAILED for done in self.done)


@dataclass
class Optimizer:
    """Plans and acts for one index."""

    uri: str
    pipeline: str
    wanted: Callable[[TableShape], Sequence[Wanted]]
    look: Callable[[TableShape, Sequence[Done]], Situation]
    """All else that a plan follows from."""
    limits: Limits
    acting: Acting
    records: Records
    lock: ExpiringLock
    """Held while this one works, so that others do not."""
    writer_lock: ExpiringLock | None = None
    """Held during an action, so that no batch is written: only for exclusive coordination."""
    cadence: timedelta = timedelta(seconds=30)
    clock: Callable[[], datetime] = utc_now
    on_shape: Callable[[TableShape], None] = lambda _: None
    """Told what the index looks like, once a run."""
    _run_id: str = field(default_factory=lambda: uuid4().hex, init=False)

    def plan(self) -> Plan:
        """What a run would do now."""
        return self._plan(shape_of(self.uri), self.records.latest(self.clock()))

    def _plan(self, shape: TableShape, records: Sequence[Done]) -> Plan:
        return plan(self.look(shape, records), self.wanted(shape), self.limits)

    def run(self, on_action: OnAction = lambda _action, _done: None) -> RunReport:
        """Does what is due, until nothing is; does nothing if another one is at it."""
        other = self.lock.take()
        if other is not None:
            emit("optimizer", "busy", holder=other.sentence)
            return RunReport(busy=other.sentence)
        with self.lock.renewed():
            return self._run(on_action)

    def _run(self, on_action: OnAction) -> RunReport:
        done: list[Done] = []
        tried: set[Action] = set()
        refusals: tuple[Refusal, ...] = ()
        waiting: list[Action] = []
        before = self.records.latest(self.clock())
        for round_ in range(_MOST_ROUNDS):
            shape, records = shape_of(self.uri), [*before, *done]
            if not round_:
                self._note(shape)
            found = self._plan(shape, records)
            refusals, due = found.refusals, []
            for action in found.actions:
                if is_waiting(action, records, self.clock(), self.cadence):
                    waiting.append(action)
                elif action not in tried:
                    due.append(action)
            if not due:
                break
            for action in due:
                tried.add(action)
                done += self._done(action, shape, on_action)
        return RunReport(tuple(done), refusals, tuple(dict.fromkeys(waiting)))

    def _note(self, shape: TableShape) -> None:
        try:
            self.on_shape(shape)
        except FreshetError as error:
            warn("optimizer", "look_not_noted", error=error)

    def _done(self, action: Action, shape: TableShape, on_action: OnAction) -> Iterator[Done]:
        """Does one action and records it; nothing if the writer would not let go."""
        with self._alone() as is_alone:
            if not is_alone:
                emit("optimizer", "action_skipped", action=action.sentence)
                return
            on_action(action, None)
            record = self._try(action, shape)
        try:
            self.records.add(record)
        except StoreError as error:  # others, such as a cleanup, may make room
            warn("optimizer", "action_not_recorded", action=action.sentence, error=error)
        on_action(action, record)
        yield record

    def _try(self, action: Action, shape: TableShape) -> Done:
        started_at, started = self.clock(), time.perf_counter()
        status, error = DONE, None
        with memory.peak() as peak:
            try:
                self.acting.do(action)
            except CommitConflictError as lost:
                status, error = LOST, str(lost)
            except (FreshetError, OSError) as failure:
                status, error = FAILED, f"{type(failure).__name__}: {failure}"[:2_000]
                warn("optimizer", "action_failed", action=action.sentence, error=failure)
        seconds = time.perf_counter() - started
        emit(
            "optimizer",
            f"action_{status}",
            action=action.kind,
            target=action.target,
            reasons=", ".join(action.reasons),
            rows=action.rows,
            duration_s=seconds,
        )
        return Done(
            pipeline=self.pipeline,
            run_id=self._run_id,
            action=action.kind,
            target=action.target,
            reasons=", ".join(action.reasons),
            status=status,
            rows=action.rows,
            seconds=seconds,
            memory_bytes=peak.bytes,
            version_before=shape.version,
            fragments_before=len(shape.fragments),
            bytes_before=shape.bytes,
            error=error,
            started_at=started_at,
            finished_at=self.clock(),
        )

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """With exclusive coordination: no batch is written meanwhile."""
        if self.writer_lock is None:
            yield True
            return
        until = time.monotonic() + _WAIT_FOR_WRITER_S
        while self.writer_lock.take() is not None:
            if time.monotonic() > until:
                yield False
                return
            time.sleep(_POLL_S)
        with self.writer_lock.renewed():
            yield True
