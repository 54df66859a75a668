"""Faults in the tasks of a batch: a store call that breaks in a Python worker of Spark."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from freshet.sink.preparing import Preparing
from freshet.testing.store_faults import StoreFault


@dataclass(frozen=True)
class FaultyTask:
    """A task of the sink under a fault. Pickled to the executors."""

    task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    fault: StoreFault

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What the task makes of the batches, unless the fault strikes."""
        with self.fault:
            yield from self.task(batches)


@contextmanager
def on_executors(fault: StoreFault) -> Iterator[StoreFault]:
    """Has the fault strike in the tasks of a batch; it needs a marker to be known of.

    A fault of the kind `killed` ends a Python worker, and the driver only if that is its victim.
    """
    if fault.marker is None:
        raise ValueError("only a marker can tell the driver that a fault struck in a task")
    around = _bringing if fault.method.startswith("Postgres") else _preparing
    with around(fault):
        yield fault


@contextmanager
def _bringing(fault: StoreFault) -> Iterator[None]:
    from freshet.sink.postgres import Prepared

    plain = Prepared._run

    def run(prepared: Prepared, rows: Any, task: Any) -> Any:
        return plain(prepared, rows, FaultyTask(task, fault))  # type: ignore[arg-type]

    with _replaced(Prepared, "_run", run):
        yield


@contextmanager
def _preparing(fault: StoreFault) -> Iterator[None]:
    plain = Preparing.run

    def run(preparing: Preparing, rows: Any, task: Callable[[bool], Any], sweep: Any) -> Any:
        def faulty(is_alone: bool) -> Any:
            return FaultyTask(task(is_alone), fault)

        return plain(preparing, rows, faulty, FaultyTask(sweep, fault))  # type: ignore[arg-type]

    with _replaced(Preparing, "run", run):
        yield


@contextmanager
def _replaced(owner: type, name: str, by: Callable[..., Any]) -> Iterator[None]:
    plain = getattr(owner, name)
    setattr(owner, name, by)
    try:
        yield
    finally:
        setattr(owner, name, plain)
