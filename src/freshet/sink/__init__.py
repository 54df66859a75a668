"""Sink: one atomic commit per micro-batch, exactly once, with a ledger of every batch."""

from freshet.sink.commit_protocol import Probe, Step
from freshet.sink.lance_sink import LanceSink
from freshet.sink.ledger import BatchReport, Ledger
from freshet.sink.native import LanceSource, UpdateModeHint
from freshet.sink.target import Mode

__all__ = [
    "BatchReport",
    "LanceSink",
    "LanceSource",
    "Ledger",
    "Mode",
    "Probe",
    "Step",
    "UpdateModeHint",
]
