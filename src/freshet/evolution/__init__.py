"""Evolution: the schema of the records, version by version, and what of it is surfaced."""

from freshet.evolution.amendments import acceptance, rollback
from freshet.evolution.history import History, Summary, newest_file, summary
from freshet.evolution.schema import Column, Entry, Event, Held, Schema, Span
from freshet.evolution.surface import Surfaced, surfaced
from freshet.evolution.tracker import Tracker
from freshet.evolution.types import Kind, takes

__all__ = [
    "Column",
    "Entry",
    "Event",
    "Held",
    "History",
    "Kind",
    "Schema",
    "Span",
    "Summary",
    "Surfaced",
    "Tracker",
    "acceptance",
    "newest_file",
    "rollback",
    "summary",
    "surfaced",
    "takes",
]
