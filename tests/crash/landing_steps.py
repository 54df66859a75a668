"""A process that discovers files and archives those that were read, until it is killed on the way.

    python tests/crash/landing_steps.py OPTIONS MOMENT

`OPTIONS` is a JSON file with the options of the landing source. A moment is a step of discovery
(`before:number`, `after:number`) or of archiving (`before:move`, `after:move`, `before:history`)
with how often it comes before it kills (`after:move:3`), or `append`: as soon as a data file of
the files table is on disk, which is before the commit that makes it count.
"""

import json
import os
import signal
import sys
import threading
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from freshet.landing.archive import Archive
from freshet.landing.discovery import Discovery
from freshet.landing.files import FilesHistory
from freshet.landing.options import LandingOptions

APPEND = "append"
NEVER_STRUCK = 3


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class KillAt:
    """Kills its own process when a step has come so many times."""

    def __init__(self, moment: str) -> None:
        self._step, _, times = moment.rpartition(":")
        self._times = int(times) if times.isdigit() else 0
        self._seen: Counter[str] = Counter()

    def __call__(self, step: str) -> None:
        self._seen[step] += 1
        if step == self._step and self._seen[step] == self._times:
            kill()


def kill_at_new_file(folder: Path) -> None:
    """Waits, in the background, for a data file that was not there."""
    before = set(os.listdir(folder)) if folder.exists() else set()

    def wait() -> None:
        while True:
            if folder.exists() and any(
                name.endswith(".parquet") for name in set(os.listdir(folder)) - before
            ):
                kill()

    threading.Thread(target=wait, daemon=True).start()


def main(file: str, moment: str) -> int:
    options = LandingOptions(**json.loads(Path(file).read_text()))
    probe = KillAt(moment)
    if moment == APPEND:
        kill_at_new_file(Path(options.state))
    Discovery(options, probe=probe).discover_settled()
    archive = Archive(options, FilesHistory(options.state), probe)
    for _ in range(3):
        archive.step(datetime.now(UTC))
    return NEVER_STRUCK


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
