"""Changes: one shape for every replication tool: key, version, deleted, row image."""

from freshet.changes.normalise import AUTO, ENVELOPES, normalise
from freshet.changes.sample import check_sample

__all__ = ["AUTO", "ENVELOPES", "check_sample", "normalise"]
