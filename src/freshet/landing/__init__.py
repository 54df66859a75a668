"""Landing: discovers change files and reads their records, each file exactly once."""

from freshet.landing.options import LandingOptions
from freshet.landing.records_executor import read_records
from freshet.landing.report import STATES, Backlog, FileReport, ask_again, backlog, files
from freshet.landing.source import LandingSource
from freshet.landing.zone import Zone

__all__ = [
    "STATES",
    "Backlog",
    "FileReport",
    "LandingOptions",
    "LandingSource",
    "Zone",
    "ask_again",
    "backlog",
    "files",
    "read_records",
]
