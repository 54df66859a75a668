"""Sink: one atomic commit per micro-batch, exactly once, with a ledger of every batch."""

from freshet.sink.commit_protocol import Probe, Step
from freshet.sink.lance_sink import LanceSink
from freshet.sink.ledger import BatchReport, Ledger

__all__ = ["BatchReport", "LanceSink", "Ledger", "Probe", "Step"]
