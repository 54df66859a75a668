"""For tests of your own: scripted faults at steps and store calls, and real processes to kill."""

from freshet.testing.faults import (
    FailAt,
    InjectedFaultError,
    KillAt,
    Moment,
    PauseAt,
    StepLog,
    Trace,
    together,
)
from freshet.testing.processes import Driver, NotKilledError
from freshet.testing.store_faults import Kind, StoreFault
from freshet.testing.tasks_executor import on_executors

__all__ = [
    "Driver",
    "FailAt",
    "InjectedFaultError",
    "KillAt",
    "Kind",
    "Moment",
    "NotKilledError",
    "PauseAt",
    "StepLog",
    "StoreFault",
    "Trace",
    "on_executors",
    "together",
]
