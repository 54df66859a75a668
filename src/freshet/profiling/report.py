"""The report of a profile: what was measured and what follows, as JSON and as a picture."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

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

    @classmethod
    def at(cls, place: str, told: dict[str, Any], picture: bytes, elsewhere: str | None) -> Self:
        """Writes a report and its picture side by side, or the picture elsewhere."""
        kept = cls(f"{place}.json", elsewhere or f"{place}.png")
        text = json.dumps(told, indent=2, ensure_ascii=False)
        small_files.replace(kept.report, text.encode())
        small_files.replace(kept.plot, picture)
        return kept


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
        drawn = plot.png(self.evidence, self.derived)
        return Kept.at(home.report("profile", self.at), self.as_dict(), drawn, picture)
