"""The report of a calibration: what was measured and what follows, as JSON and as a picture."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from freshet.calibration import plot
from freshet.calibration.derive import Derived
from freshet.calibration.evidence import Evidence
from freshet.layout import Home
from freshet.profiling.report import Kept


@dataclass(frozen=True)
class Calibration:
    """What was measured, and the settings that follow from it."""

    pipeline: str
    at: datetime
    seconds: float
    evidence: Evidence
    derived: Derived
    latency: str | None = None
    """The target, as it was given."""

    def as_dict(self) -> dict[str, Any]:
        """The form that `--json` prints, and that a report holds."""
        return {
            "pipeline": self.pipeline,
            "at": self.at.isoformat(),
            "seconds": round(self.seconds, 3),
            "latency": self.latency,
            "evidence": self.evidence.as_dict(),
            "derived": self.derived.as_dict(),
        }

    def keep(self, home: Home, picture: str | None = None) -> Kept:
        """Writes report and picture into the home, or the picture elsewhere."""
        drawn = plot.png(self.evidence, self.derived)
        return Kept.at(home.report("calibrate", self.at), self.as_dict(), drawn, picture)
