"""Monitor: where a pipeline stands, read from its tables."""

from freshet.monitor.status import (
    BronzeStatus,
    FilesStatus,
    IndexStatus,
    RebuildStatus,
    SchemaStatus,
    Status,
)
from freshet.monitor.trigger import ShortTrigger, short_trigger

__all__ = [
    "BronzeStatus",
    "FilesStatus",
    "IndexStatus",
    "RebuildStatus",
    "SchemaStatus",
    "ShortTrigger",
    "Status",
    "short_trigger",
]
