"""Real driver processes, to be killed: started, proven dead, and waited for to the last child."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

_MARK: Final = "CRASH_TEST_FOLDER"
_PAUSE_S: Final = 0.02


class NotKilledError(Exception):
    """A process that should have been killed ended by itself, or never came to its end."""


@dataclass(frozen=True)
class Driver:
    """A process of its own, with all that it starts: Java, and Spark's Python workers.

    Guarantee: when `kill`, `killed` or `finished` have returned, none of these processes is left,
    so that the next driver starts as after the crash of a machine. Needs Linux's `/proc`.
    """

    folder: Path
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, folder: Path, *command: str) -> Self:
        """Runs a command in a folder; what it prints goes to `output.log` there."""
        # The mark is inherited by all children, whatever session they put themselves in.
        marked = ["/usr/bin/env", f"{_MARK}={folder}", *command]
        with (folder / "output.log").open("ab") as log:
            process = subprocess.Popen(
                marked, cwd=folder, stdout=log, stderr=log, start_new_session=True
            )
        return cls(folder, process)

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended yet."""
        return self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL, now; raises `NotKilledError` if it had ended by itself."""
        if not self.is_alive:
            raise NotKilledError(self._ended("it ended before it could be killed"))
        self.process.kill()
        self.killed(timeout_s=30)

    def killed(self, *, timeout_s: float = 180) -> None:
        """Waits for its death by SIGKILL; raises `NotKilledError` if it ends in another way."""
        code = self._code(timeout_s)
        if code != -signal.SIGKILL:
            raise NotKilledError(self._ended(f"it was not killed but ended with {code}"))

    def finished(self, *, timeout_s: float = 180) -> int:
        """Waits for its own end, and returns its exit code."""
        return self._code(timeout_s)

    def end(self) -> None:
        """Ends it and all that it started, however far it is; for clean-up after a failed test."""
        self.process.kill()
        self.process.wait()
        for number in left_over(self.folder):
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)

    def _code(self, timeout_s: float) -> int:
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.end()
            raise NotKilledError(self._ended(f"nothing ended it in {timeout_s} s")) from None
        _wait_for_children(self.folder)
        return code

    def _ended(self, sentence: str) -> str:
        tail = (self.folder / "output.log").read_text(errors="replace")[-2_000:]
        return f"{sentence}; its last words:\n{tail}"


def left_over(folder: Path) -> Sequence[int]:
    """Processes that a driver in this folder started and that are still there."""
    mark = f"{_MARK}={folder}\0".encode()
    return [
        int(process.name)
        for process in Path("/proc").glob("[0-9]*")
        if mark in _environment(process)
    ]


def _environment(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""


def _wait_for_children(folder: Path, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while left := left_over(folder):
        if time.monotonic() > deadline:
            raise NotKilledError(f"processes outlive their driver: {left}")
        time.sleep(_PAUSE_S)
