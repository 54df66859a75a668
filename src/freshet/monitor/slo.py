"""Whether a target of freshness is met, and how that is said. Pure."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Verdict:
    """One target against what was found."""

    target: str
    """Its name in the settings."""
    target_s: float
    percentile: int
    found_s: float | None
    """At the percentile; None if nothing came to the end in the window."""
    waiting_s: float | None
    """For how long the oldest has waited that has not come to the end; None if nothing waits."""
    is_missed: bool

    @property
    def missed_by_s(self) -> float:
        """How far the worse of the two is above the target; below 0 if the target is met."""
        return max(self.found_s or 0.0, self.waiting_s or 0.0) - self.target_s

    @property
    def sentence(self) -> str:
        """The target, what was found, and what follows."""
        told = [] if self.found_s is None else [f"p{self.percentile} {_time(self.found_s)}"]
        if self.waiting_s is not None:
            told.append(f"the oldest waiting for {_time(self.waiting_s)}")
        verdict = f"missed by {_time(self.missed_by_s)}" if self.is_missed else "met"
        found = ", ".join(told) or "nothing in the window"
        return f"{self.target} {verdict}: {found}; target {_time(self.target_s)}"

    def fields(self) -> dict[str, Any]:
        """What an event says of it."""
        return {
            "target": self.target,
            "target_s": self.target_s,
            "percentile": self.percentile,
            "found_s": self.found_s,
            "waiting_s": self.waiting_s,
        }


def judge(
    target: str,
    target_s: float,
    percentile: int,
    *,
    found_s: float | None,
    waiting_s: float | None,
) -> Verdict:
    """A target is missed if the percentile is above it, or if something has waited for longer.

    A pipeline that stands still finishes nothing: what waits must count.
    """
    is_missed = any(one is not None and one > target_s for one in (found_s, waiting_s))
    return Verdict(target, target_s, percentile, found_s, waiting_s, is_missed)


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s"
