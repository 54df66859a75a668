"""A real pipeline as a process of its own, a feed that lands files at a rate, and who watches both.

The feed plays a replication tool: every `interval_s` it lands one JSON file of changes of a fixed
set of keys, a twentieth of them deletes, whole from the moment it can be seen. The last record of
each file is a new version of one key, the mark, that counts the files: when a search of the index
finds it at a number, all files up to it have come through. So what is measured does not depend on
what the pipeline says of itself.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import lance

from freshet.testing import Driver
from freshet.testing.processes import left_over

MARK = "mark"
WORDS = ("river", "mill", "weir", "lock", "sluice", "flood", "gauge", "valley", "spring", "brook")
INSTANT = {
    "provider": "lancedb",
    "function": "instant-384",
    "imports": ["instant_function"],
    "window_tokens": 256,
}
MINILM = {"provider": "minilm"}
READY_S = 180.0
Values = Mapping[str, Any]
Land = Callable[[str, str], None]
"""Given a name and a text."""


def command(*words: str) -> tuple[str, ...]:
    """Freshet's command line, which finds what the settings import from here."""
    here = str(Path(__file__).parent)
    path = ":".join(part for part in (here, os.environ.get("PYTHONPATH", "")) if part)
    main = "from freshet.cli import main; main()"
    return ("/usr/bin/env", f"PYTHONPATH={path}", sys.executable, "-c", main, *words)


def settings_text(embedding: Values, trigger: str, **sections: Values) -> str:
    """The settings of such a pipeline, as a file has them."""
    told: dict[str, dict[str, Any]] = {
        "pipeline": {"name": "docs", "home": "./home", "trigger": trigger},
        "landing": {"path": "./landing"},
        "changes": {"envelope": "plain", "key": ["id"], "version": "record_version"},
        "gold": {"text": ["title", "body"], "attributes": ["title"]},
        "embedding": dict(embedding),
    }
    for name, values in sections.items():
        told[name] = told.get(name, {}) | dict(values)
    lines = []
    for name, values in told.items():
        # Text, numbers and lists are written in TOML as in JSON.
        lines += [f"[{name}]", *(f"{one} = {json.dumps(value)}" for one, value in values.items())]
    return "\n".join([*lines, ""])


def into_folder(folder: Path) -> Land:
    """Lands files in a folder, whole from the moment they can be seen."""

    def land(name: str, text: str) -> None:
        hidden = folder / f".{name}"
        hidden.write_text(text)
        hidden.rename(folder / name)

    return land


@dataclass
class Feed:
    """Lands files at a rate, in a thread, until it is stopped."""

    into: Land
    rows_per_s: float
    keys: int = 50_000
    interval_s: float = 1.0
    words: int = 18
    landed_at: list[float] = field(default_factory=list)
    """When each file could be seen, as the clock tells."""

    def __post_init__(self) -> None:
        """Nothing is landed yet."""
        self._random = random.Random(7)
        self._version = 0

    def land(self, rows: int) -> None:
        """One file."""
        number = len(self.landed_at)
        lines = [json.dumps(self._change(self._random.randrange(self.keys))) for _ in range(rows)]
        lines.append(json.dumps(self._record(MARK, f"{number}")))
        self.into(f"changes-{number:07d}.json", "\n".join(lines) + "\n")
        self.landed_at.append(time.time())

    def _change(self, key: int) -> Values:
        record = self._record(f"k{key}", " ".join(self._random.choices(WORDS, k=self.words)))
        return record | {"is_deleted": self._random.random() < 0.05}

    def _record(self, key: str, title: str) -> dict[str, Any]:
        self._version += 1
        body = f"version {self._version}"
        return {"id": key, "title": title, "body": body, "record_version": self._version}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Lands files while the block runs, each at its time or as soon as the one before is."""
        stop = Event()
        rows = max(1, round(self.rows_per_s * self.interval_s))

        def feed() -> None:
            started, count = time.monotonic(), 0
            while not stop.wait(max(0.0, started + count * self.interval_s - time.monotonic())):
                self.land(rows)
                count += 1

        thread = Thread(target=feed, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


@dataclass
class Watch:
    """Looks at the index until it is stopped: which number of the mark could be found when."""

    uri: str
    poll_s: float = 0.02
    seen: list[tuple[int, float]] = field(default_factory=list)
    _version: int = 0

    @property
    def newest(self) -> int:
        """The number that was found last; -1 before the first."""
        return self.seen[-1][0] if self.seen else -1

    def look(self) -> None:
        """Asks for the mark, if the index has a new version."""
        try:
            dataset = lance.dataset(self.uri)
        except ValueError:  # it has not been made yet
            return
        if dataset.version == self._version:
            return
        rows = dataset.to_table(columns=["title"], filter=f"key = '{MARK}'").to_pylist()
        self._version = dataset.version
        if rows and (number := int(rows[0]["title"])) > self.newest:
            self.seen.append((number, time.time()))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Looks while the block runs."""
        stop = Event()

        def watch() -> None:
            while not stop.wait(self.poll_s):
                self.look()

        thread = Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def wait_for(self, number: int, seconds: float) -> bool:
        """Whether a number of the mark was found in time."""
        ends_at = time.monotonic() + seconds
        while self.newest < number and time.monotonic() < ends_at:
            time.sleep(self.poll_s)
        return self.newest >= number

    def delays(self, landed_at: list[float]) -> dict[int, float]:
        """Of each file that came through, the seconds from its landing to the first find."""
        found: dict[int, float] = {}
        for number, at in self.seen:
            for file in range(len(found), number + 1):
                found[file] = at - landed_at[file]
        return found


@contextmanager
def running(folder: Path, text: str) -> Iterator[Driver]:
    """`freshet run` in a folder, ended by Ctrl-C; raises if it did not end well."""
    (folder / "landing").mkdir(parents=True, exist_ok=True)
    (folder / "freshet.toml").write_text(text)
    driver = Driver.start(folder, *command("run"))
    try:
        yield driver
        assert driver.is_alive, (folder / "output.log").read_text()[-4_000:]
        driver.process.send_signal(signal.SIGINT)
        code = driver.finished(timeout_s=120)
        assert code == 0, (folder / "output.log").read_text()[-4_000:]
    finally:
        if driver.is_alive:
            driver.end()


def memory_of(driver: Driver) -> dict[str, int]:
    """Bytes that its processes hold, each page counted once: driver, Java and Python workers."""
    found = {"driver": 0, "java": 0, "workers": 0}
    for pid in left_over(driver.folder):
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:  # it has just ended
            continue
        kind = "java" if name == "java" else "driver" if pid == driver.process.pid else "workers"
        found[kind] += sum(int(one.split()[1]) << 10 for one in lines if one.startswith("Pss:"))
    return found
