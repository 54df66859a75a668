"""Monitor: where a pipeline stands, read from its tables."""

from freshet.monitor.status import (
    BronzeStatus,
    FilesStatus,
    IndexStatus,
    RebuildStatus,
    SchemaStatus,
    Status,
)

__all__ = [
    "BronzeStatus",
    "FilesStatus",
    "IndexStatus",
    "RebuildStatus",
    "SchemaStatus",
    "Status",
]
