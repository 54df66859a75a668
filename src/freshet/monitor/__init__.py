"""Monitor: where a pipeline stands, read from its tables."""

from freshet.monitor.status import BronzeStatus, FilesStatus, IndexStatus, SchemaStatus, Status

__all__ = ["BronzeStatus", "FilesStatus", "IndexStatus", "SchemaStatus", "Status"]
