"""The landing zone: its files, listed in pieces, and what a file is known by."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final

from freshet.landing.files import Identity, KnownFile
from freshet.landing.options import LandingOptions
from freshet.landing.selection import Selection
from freshet.stores.file_listing import FoundFile, Listed, Seen, look_at_all, walk

_PIECE: Final = 50_000

Piece = tuple[Sequence[str], Callable[[Sequence[str]], list[FoundFile]]]
"""Some names, and a function that gives the files of those of them that matter."""


class Zone:
    """Files that count, by the options; a listing is held in pieces, never as a whole."""

    def __init__(self, options: LandingOptions) -> None:
        self._root = options.path.rstrip("/")
        self._recursive = options.recursive
        self._names_sort = options.names_sort
        self._identifies_versions = options.identifies_versions
        self._selection = Selection(self._root, options.include, options.exclude)
        self._seen: dict[str, Seen] = {}
        self._newest: list[str] = []
        """The folder, part by part, that sorts last of those that hold files."""

    @property
    def identifies(self) -> Identity | None:
        """How files are told apart; None if by their paths alone."""
        return self.identity_of if self._identifies_versions else None

    def identity(self, file: FoundFile | KnownFile) -> str:
        """What a file is known by."""
        return self.identity_of(file.path, file.size, file.modified_at)

    def identity_of(self, path: str, size: int, modified_at: datetime | None) -> str:
        """What a file of this size and time is known by."""
        return f"{path}\0{size}\0{modified_at}" if self._identifies_versions else path

    def takes(self, path: str) -> bool:
        """Whether a path counts, of which an event told."""
        is_deep = "/" in path.removeprefix(self._root + "/")
        return self._selection.takes(path) and (self._recursive or not is_deep)

    def look(self, paths: Sequence[str]) -> list[FoundFile]:
        """The files as they are now; those that are gone are left out."""
        return [file for file in look_at_all(paths) if file is not None]

    def pieces(self, *, everything: bool) -> Iterator[Piece]:
        """All files that count; unless `everything` is asked for, only where new ones may be.

        Those are folders to which something was added since the last listing, and, where names
        sort, folders that do not sort before the newest one.
        """
        floor = [] if everything or not self._names_sort else self._newest

        def enters(folder: str) -> bool:
            parts = self._parts(folder)
            return self._selection.enters(folder) and parts >= floor[: len(parts)]

        if everything or self._identifies_versions:
            self._seen.clear()
        for listed in walk(self._root, recursive=self._recursive, enters=enters, seen=self._seen):
            yield from self._pieces_of(listed)

    def files(self) -> Iterator[FoundFile]:
        """All files that count, in no order."""
        for names, look in self.pieces(everything=True):
            yield from look(names)

    def _parts(self, folder: str) -> list[str]:
        relative = folder[len(self._root) + 1 :]
        return relative.split("/") if relative else []

    def _pieces_of(self, listed: Listed) -> Iterator[Piece]:
        folder, takes = listed.folder, self._selection.takes_name
        if listed.names:
            self._newest = max(self._newest, self._parts(folder))
        if listed.found is not None:
            known = {self.identity(file): file for file in listed.found}
            chosen = [name for name, file in known.items() if self._selection.takes(file.path)]
            yield from ((piece, _from(known)) for piece in _cut(chosen))
            return
        for piece in _cut(listed.names):
            paths = [f"{folder}/{name}" for name in piece if takes(folder, name)]
            yield self._with_versions(paths) if self._identifies_versions else (paths, self.look)

    def _with_versions(self, paths: Sequence[str]) -> Piece:
        known = {self.identity(file): file for file in self.look(paths)}
        return list(known), _from(known)


def _from(known: dict[str, FoundFile]) -> Callable[[Sequence[str]], list[FoundFile]]:
    return lambda names: [known[name] for name in names]


def _cut(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[start : start + _PIECE] for start in range(0, len(names), _PIECE))
