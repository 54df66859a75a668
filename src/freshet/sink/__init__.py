"""Sink: one atomic commit per micro-batch, exactly once, with a ledger of every batch."""

from freshet.sink.batch_store import BatchStore, Outcome, OvertakenError, Ready, Standing
from freshet.sink.lance_sink import LanceSink
from freshet.sink.ledger import BatchReport, Ledger
from freshet.sink.native import LanceSource, UpdateModeHint
from freshet.sink.stamps import Batch, Counts, Mark, mark_of
from freshet.sink.steps import Probe, Step
from freshet.sink.store_sink import StoreSink
from freshet.sink.target import Mode

__all__ = [
    "Batch",
    "BatchReport",
    "BatchStore",
    "Counts",
    "LanceSink",
    "LanceSource",
    "Ledger",
    "Mark",
    "Mode",
    "Outcome",
    "OvertakenError",
    "Probe",
    "Ready",
    "Standing",
    "Step",
    "StoreSink",
    "UpdateModeHint",
    "mark_of",
]
