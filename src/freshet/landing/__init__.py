"""Landing: discovers change files and reads their records, each file exactly once."""

from freshet.landing.discovery import Backlog, backlog
from freshet.landing.records_executor import read_records
from freshet.landing.source import LandingSource

__all__ = ["Backlog", "LandingSource", "backlog", "read_records"]
