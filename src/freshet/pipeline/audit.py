"""The report of a verify or a repair: what was compared, what was found, what was done."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from freshet.layout import Home
from freshet.stores import small_files
from freshet.verify import Verdict

_KEYS_LISTED: Final = 1_000
_COUNTS: Final = ("keys", "rounds", "written", "deleted", "embedded")


@dataclass(frozen=True)
class Repair:
    """What a repair did, in records; each may have been repaired more than once."""

    keys: int = 0
    rounds: int = 0
    written: int = 0
    deleted: int = 0
    embedded: int = 0
    """Texts that the model ran on."""
    before: Verdict | None = None
    """What was found before it."""
    first_keys: tuple[str, ...] = ()
    """The first of the keys."""

    @classmethod
    def first_of(cls, keys: set[str]) -> tuple[str, ...]:
        """As many as a report lists."""
        return tuple(sorted(keys)[:_KEYS_LISTED])

    def as_dict(self) -> dict[str, Any]:
        """The form that `--json` prints."""
        counts = {name: getattr(self, name) for name in _COUNTS}
        found = {} if self.before is None else {"before": self.before.as_dict()}
        return counts | found | {"first_keys": list(self.first_keys)}


@dataclass(frozen=True)
class Audit:
    """What a verify found; after a repair, what it found last."""

    pipeline: str
    verdict: Verdict
    at: datetime
    seconds: float
    settings: str
    """Tells settings apart that make other rows."""
    index_version: int
    bronze_version: int
    repair: Repair | None = None
    """None: nothing was to be repaired."""

    def as_dict(self) -> dict[str, Any]:
        """The form that `--json` prints, and that a report holds."""
        told = self.verdict.as_dict() | {
            "pipeline": self.pipeline,
            "at": self.at.isoformat(),
            "seconds": round(self.seconds, 3),
            "settings": self.settings,
            "index_version": self.index_version,
            "bronze_version": self.bronze_version,
        }
        return told if self.repair is None else told | {"repair": self.repair.as_dict()}

    def keep(self, home: Home) -> str:
        """Writes the report into the home; returns where it lies."""
        place = f"{home.report('verify', self.at)}.json"
        told = json.dumps(self.as_dict(), indent=2, ensure_ascii=False)
        small_files.replace(place, told.encode())
        return place
