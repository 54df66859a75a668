"""Calibration: measures growth, actions and searches on a copy of the index, and derives settings.

Guarantee: the live index is read, and never written.
"""

from freshet.calibration.derive import Derived, derive
from freshet.calibration.evidence import Evidence
from freshet.calibration.report import Calibration

__all__ = ["Calibration", "Derived", "Evidence", "derive"]
