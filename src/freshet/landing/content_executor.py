"""The bytes of a file up to its end, or up to where they are damaged."""

from types import TracebackType
from typing import Any, Final, Self

from freshet.landing.batches_executor import UnreadableError, may_pass
from freshet.landing.read_options import is_compressed
from freshet.stores.file_systems import open_file

_NEVER_IN_TEXT: Final = b"\xff"


class Content:
    """A file's content, decompressed, in pieces.

    Where a compressed stream breaks off or is damaged, it ends, and `failure` says why: so the
    records before that place are not lost. Trouble of the storage is raised.
    """

    def __init__(self, uri: str) -> None:
        self._stream: Any = open_file(uri)
        self._is_compressed = is_compressed(uri)
        self.failure: str | None = None

    def read(self, size: int) -> bytes:
        """The next bytes: `size` of them, fewer only at the end."""
        if self.failure is not None:
            return b""
        if self._is_compressed:
            return self._decompressed(size)
        block: bytes = self._stream.read(size)
        while len(block) < size and (more := self._stream.read(size - len(block))):
            block += more
        return block

    def check(self, tail: str = "") -> None:
        """Raises UnreadableError, with the text that it cut off, if the content is damaged."""
        if self.failure is not None:
            raise UnreadableError(self.failure, tail or None)

    def _decompressed(self, size: int) -> bytes:
        # A failing read does not tell how much it gave before: what it did not touch is still ff.
        buffer = bytearray(_NEVER_IN_TEXT * size)
        view, filled = memoryview(buffer), 0
        try:
            while filled < size and (count := self._stream.readinto(view[filled:])):
                filled += count
        except OSError as error:
            if may_pass(error):
                raise
            self.failure = str(error)
            return bytes(buffer.rstrip(_NEVER_IN_TEXT))
        return bytes(view[:filled])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.close()
