"""Is a file ready, or is somebody still writing it?

Only a local file can be seen half-written: object stores show an object when it is whole.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from freshet.stores.file_listing import FoundFile

CutOff = Callable[[FoundFile], str | None]
"""Why a file seems to end in the middle of a record; None if it does not."""


@dataclass(frozen=True)
class _Look:
    size: int
    modified_at: datetime
    at_s: float


class Settling:
    """Holds files back until they are still for `settle_s`; cut-off ones, for `patience_s`.

    A date is believed only when it is in the past: a file dated tomorrow is ready when it was seen
    unchanged for long enough. Memory holds the files that are being waited for.
    """

    def __init__(self, settle_s: float, patience_s: float, cut_off: CutOff) -> None:
        self._settle_s = settle_s
        self._patience_s = patience_s
        self._cut_off = cut_off
        self._looks: dict[str, _Look] = {}

    @property
    def waiting(self) -> list[str]:
        """Paths of the files that are held back."""
        return list(self._looks)

    def is_ready(self, file: FoundFile, now: datetime, now_s: float) -> bool:
        """Whether the file may be read; `now_s` is a clock that never jumps."""
        still_s = self._still_s(file, now, now_s)
        is_ready = still_s >= self._settle_s and (
            still_s >= self._patience_s or self._cut_off(file) is None
        )
        if is_ready:
            self._looks.pop(file.path, None)
        return is_ready

    def forget(self, path: str) -> None:
        """The file is gone."""
        self._looks.pop(path, None)

    def _still_s(self, file: FoundFile, now: datetime, now_s: float) -> float:
        """For how long the file has not changed, by its date or by what was seen of it."""
        last = self._looks.get(file.path)
        if last is None or (last.size, last.modified_at) != (file.size, file.modified_at):
            last = self._looks[file.path] = _Look(file.size, file.modified_at, now_s)
        return max((now - file.modified_at).total_seconds(), now_s - last.at_s)
