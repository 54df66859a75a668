"""Bronze: every event, for ever, in one Delta table of fixed columns."""

from freshet.bronze.table import Counts, count, create, read_stream, rows_to_append, write_stream

__all__ = ["Counts", "count", "create", "read_stream", "rows_to_append", "write_stream"]
