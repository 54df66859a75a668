"""Which paths count: ready names, and the patterns that somebody chose."""

from collections.abc import Sequence
from typing import Final

from pathspec import GitIgnoreSpec

_HIDDEN: Final = (".", "_")
_BEING_WRITTEN: Final = (".tmp", ".temp", ".part", ".partial", ".inprogress", ".crdownload",
                         ".filepart", "._COPYING_", ".swp", "~")  # fmt: skip


class Selection:
    """Decides by the name alone; folders that begin with `.` or `_` hide everything below them."""

    def __init__(self, root: str, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        self._root = root.rstrip("/") + "/"
        self._include = GitIgnoreSpec.from_lines(include) if include else None
        self._exclude = GitIgnoreSpec.from_lines(exclude) if exclude else None

    def enters(self, folder: str) -> bool:
        """Whether files below a folder may count."""
        return not folder.rpartition("/")[2].startswith(_HIDDEN)

    def takes_name(self, folder: str, name: str) -> bool:
        """Whether a file counts whose folder was entered."""
        if name.startswith(_HIDDEN) or name.endswith(_BEING_WRITTEN):
            return False
        if self._include is None and self._exclude is None:
            return True
        return self._is_chosen(f"{folder}/{name}"[len(self._root) :])

    def takes(self, path: str) -> bool:
        """Whether a file counts, of which an event told."""
        if not path.startswith(self._root):
            return False
        *folders, name = path[len(self._root) :].split("/")
        if any(folder.startswith(_HIDDEN) for folder in folders):
            return False
        return self.takes_name(path.rpartition("/")[0], name)

    def _is_chosen(self, relative: str) -> bool:
        if self._exclude is not None and self._exclude.match_file(relative):
            return False
        return self._include is None or self._include.match_file(relative)
