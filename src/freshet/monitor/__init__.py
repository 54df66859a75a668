"""Monitor: where a pipeline stands, read from its tables."""

from freshet.monitor.freshness import Freshness
from freshet.monitor.history import History
from freshet.monitor.optimizer import ActionStatus, ActionTimes, OptimizerStatus, ProbeStatus
from freshet.monitor.status import (
    BronzeStatus,
    FilesStatus,
    IndexStatus,
    RebuildStatus,
    SchemaStatus,
    SinkStatus,
    Status,
)
from freshet.monitor.trigger import ShortTrigger, short_trigger

__all__ = [
    "ActionStatus",
    "ActionTimes",
    "BronzeStatus",
    "FilesStatus",
    "Freshness",
    "History",
    "IndexStatus",
    "OptimizerStatus",
    "ProbeStatus",
    "RebuildStatus",
    "SchemaStatus",
    "ShortTrigger",
    "SinkStatus",
    "Status",
    "short_trigger",
]
