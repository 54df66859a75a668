"""Verify: the proof that the index equals what the source says, key by key."""

from freshet.verify.compare import Verdict, compare
from freshet.verify.sides import actual, expected

__all__ = ["Verdict", "actual", "compare", "expected"]
