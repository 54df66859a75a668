"""The report of a profile: what was measured and what follows, as JSON and as a picture."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from freshet.layout import Home
from freshet.profiling import plot
from freshet.profiling.derive import Derived
from freshet.profiling.evidence import Evidence
from freshet.stores import small_files


@dataclass(frozen=True)
class Kept:
    """Where a report lies."""

    report: str
    plot: str


@dataclass(frozen=True)
class Profile:
    """What was measured, and the settings that follow from it."""

    pipeline: str
    at: datetime
    seconds: float
    evidence: Evidence
    derived: Derived
    freshness: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The form that `--json` prints, and that a report holds."""
        return {
            "pipeline": self.pipeline,
            "at": self.at.isoformat(),
            "seconds": round(self.seconds, 3),
            "freshness": self.freshness,
            "evidence": self.evidence.as_dict(),
            "derived": self.derived.as_dict(),
        }

    def keep(self, home: Home, picture: str | None = None) -> Kept:
        """Writes report and picture into the home, or the picture elsewhere."""
        place = f"{home.reports}/profile-{self.at:%Y%m%dT%H%M%S}.{self.at.microsecond // 1000:03}Z"
        kept = Kept(f"{place}.json", picture or f"{place}.png")
        told = json.dumps(self.as_dict(), indent=2, ensure_ascii=False)
        small_files.replace(kept.report, told.encode())
        small_files.replace(kept.plot, plot.png(self.evidence, self.derived))
        return kept
