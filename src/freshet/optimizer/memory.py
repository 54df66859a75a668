"""How much memory this process takes while something is done."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Final

_STATUS: Final = Path("/proc/self/status")
_EVERY_S: Final = 0.02


@dataclass
class Peak:
    """The most that was seen above what there was at the start; None where it cannot be told."""

    bytes: int | None = None


@contextmanager
def peak() -> Iterator[Peak]:
    """Looks at the memory of this process, all threads of it, until the block ends."""
    found = Peak()
    start = _resident()
    if start is None:
        yield found
        return
    is_done, found.bytes = Event(), 0

    def look() -> None:
        while not is_done.wait(_EVERY_S):
            found.bytes = max(found.bytes or 0, (_resident() or start) - start)

    thread = Thread(target=look, name="freshet-memory", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        is_done.set()
        thread.join()


def _resident() -> int | None:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1_024 for line in lines if line.startswith("VmRSS")), None)
