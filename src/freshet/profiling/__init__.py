"""Profiling: measures the embedding on the user's own data, and derives settings from that."""

from freshet.profiling.derive import Advice, Derived, derive
from freshet.profiling.evidence import Evidence
from freshet.profiling.report import Profile
from freshet.profiling.write import write

__all__ = ["Advice", "Derived", "Evidence", "Profile", "derive", "write"]
