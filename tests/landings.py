"""Landing zones for tests: files with chosen dates, and discoveries with clocks of their own."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from freshet.landing.discovery import Discovery
from freshet.landing.files import FilesTable, KnownFile
from freshet.landing.options import LandingOptions

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Clock:
    """A clock that goes only when told to."""

    seconds: float = 0.0

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds)

    def ticks(self) -> float:
        return self.seconds


@dataclass
class LandingZone:
    """A folder that files land in, and the files table beside it."""

    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / "landing"

    @property
    def state(self) -> str:
        return str(self.folder / "files")

    def land(self, name: str, modified: float = 1_700_000_000, content: str = "{}\n") -> Path:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        os.utime(file, (modified, modified))
        return file

    def options(self, **options: Any) -> LandingOptions:
        self.path.mkdir(exist_ok=True)
        return LandingOptions(path=str(self.path), state=self.state, **options)

    def discovery(self, clock: Clock | None = None, **options: Any) -> Discovery:
        clock = clock or Clock()
        return Discovery(self.options(**options), clock=clock.now, ticks=clock.ticks)

    def known(self) -> list[KnownFile]:
        return FilesTable(self.state).between(0)

    def names(self) -> list[str]:
        """Known files in the order of their numbers, by their paths below the landing zone."""
        return [str(Path(file.path).relative_to(self.path)) for file in self.known()]
