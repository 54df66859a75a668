"""A process that optimizes an index until it is killed on the way.

    python tests/crash/optimizer_steps.py FOLDER SETTINGS MOMENT

`SETTINGS` is a JSON file with what `optimized.settings_of` is told. A moment is an action and where
in it the process dies: `build:vector_idx:before`, `compact::written` (its files are there, and no
version names them), `sweep:files:deleted` (some of its files are gone), `merge:text_idx:after`, or
`extend:vector_idx:0.12`, seconds after it began. What was begun and ended stands in `steps.log`.
"""

import json
import os
import signal
import sys
import threading
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from freshet.optimizer import Action
from freshet.pipeline.optimizing import Optimizing
from freshet.stores import file_systems
from optimized import settings_of

NEVER_STRUCK = 3
DELETED = "deleted"
_FILES_BEFORE_DEATH = 2


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_while_deleting() -> None:
    """Some files are removed, and then no more."""
    plain, numbers = file_systems.delete_file, count()

    def deadly(uri: str) -> None:
        if next(numbers) == _FILES_BEFORE_DEATH:
            kill()
        plain(uri)

    file_systems.delete_file = deadly


class KillIn:
    """The hook: writes down how far each action came, and kills its own process in one."""

    def __init__(self, moment: str, log: Path) -> None:
        self._kind, self._target, self._when = moment.split(":")
        self._log = log

    def __call__(self, when: str, action: Action) -> None:
        with self._log.open("a") as log:
            log.write(f"{when}:{action.kind}:{action.target}\n")
        if action.kind != self._kind or self._target not in {"", action.target}:
            return
        if when == self._when:
            kill()
        if when == "before":
            self._prepare()

    def _prepare(self) -> None:
        if self._when == DELETED:
            kill_while_deleting()
        elif self._when[0].isdigit():
            threading.Timer(float(self._when), kill).start()


def main(folder: str, settings: str, moment: str) -> int:
    chosen = settings_of(Path(folder), **json.loads(Path(settings).read_text()))
    Optimizing(chosen, KillIn(moment, Path(folder) / "steps.log")).run()
    return NEVER_STRUCK


if __name__ == "__main__":
    # A timer of a moment that never came must not strike at the end.
    os._exit(main(*sys.argv[1:]))
