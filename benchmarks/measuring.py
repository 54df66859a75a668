"""What the benchmarks share: the machine's line, a folder that goes away, times and medians."""

import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from freshet.sink import Step


def machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


@contextmanager
def scratch_folder(beside: Path | None = None) -> Iterator[Path]:
    """A new folder, gone at the end; on the disk of another one, if files are to be shared."""
    if beside is not None:
        beside.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="freshet-bench-", dir=beside))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def timed_ms(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1_000


def median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else float("nan")


def show_progress(text: str) -> None:
    """For whoever sits at a terminal; says nothing to a file."""
    if sys.stderr.isatty():
        print(f"\r{text:<60}", end="", file=sys.stderr, flush=True)


@dataclass
class Stopwatch:
    """A probe of the commit protocol that notes when each step of a batch began and ended."""

    moments: dict[tuple[Step, str], float] = field(default_factory=dict)

    def __call__(self, step: Step, when: str, batch_id: int) -> None:
        """The probe."""
        self.moments[step, when] = time.perf_counter()

    def step_ms(self, step: Step) -> float:
        """How long a step of the last batch took."""
        return self.between_ms((step, "before"), (step, "after"))

    def between_ms(self, start: tuple[Step, str], end: tuple[Step, str]) -> float:
        """What passed between two moments of the last batch."""
        return (self.moments[end] - self.moments[start]) * 1_000
