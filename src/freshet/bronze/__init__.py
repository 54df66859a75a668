"""Bronze: every event, for ever, in one Delta table of fixed columns; and its quarantine."""

from freshet.bronze.quarantine import Quarantined, ReadingResult, quarantined, reasons, results
from freshet.bronze.table import (
    Counts,
    count,
    create,
    envelopes,
    read_stream,
    rows_to_append,
    write_stream,
)

__all__ = [
    "Counts",
    "Quarantined",
    "ReadingResult",
    "count",
    "create",
    "envelopes",
    "quarantined",
    "read_stream",
    "reasons",
    "results",
    "rows_to_append",
    "write_stream",
]
