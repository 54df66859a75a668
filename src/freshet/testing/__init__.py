"""For tests of your own: scripted faults, and a runner that kills real processes."""

from freshet.testing.faults import FailAt, InjectedFaultError, KillAt, Moment, Trace

__all__ = ["FailAt", "InjectedFaultError", "KillAt", "Moment", "Trace"]
