"""Verify: the proof that the index equals what the source says, key by key."""

from freshet.verify.compare import Comparison, compare
from freshet.verify.sampling import Sample
from freshet.verify.sides import actual, expected
from freshet.verify.verdict import PROBLEMS, Difference, Verdict

__all__ = [
    "PROBLEMS",
    "Comparison",
    "Difference",
    "Sample",
    "Verdict",
    "actual",
    "compare",
    "expected",
]
