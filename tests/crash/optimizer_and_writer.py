"""`make optimizer-soak`: a writer and an optimizer at one index, each as fast as it can.

The optimizer is a process of its own, with limits so low that something is always due. The seed
says what is written; what meets what is the machine's. In the end every row, every answer and every
batch on record is checked, and what the two cost each other is told.
"""

import argparse
import logging
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from freshet.clock import utc_now
from freshet.layout import INDEX
from freshet.optimizer import Done
from freshet.pipeline.optimizing import Optimizing
from freshet.settings import Settings
from freshet.sink import BatchReport
from freshet.testing import Driver
from optimized import OptimizedIndex, keys, settings_of

OPTIMISTIC, EXCLUSIVE = "optimistic", "exclusive"
CONFLICTS = ("commit_conflict", "rows_changed", "key_index_failed")
"""What a writer's log says when somebody else was faster."""
_POOL = 4_000
_MOST_EVENTS = 120
_SAMPLES = 20
_STOP = "stop"


def settings_for(folder: Path, coordination: str) -> Settings:
    return settings_of(folder, coordination=coordination, retention="2 seconds")


def optimize(folder: Path, coordination: str) -> int:
    """The optimizer's process: works until it is told to stop."""
    optimizing = Optimizing(settings_for(folder, coordination))
    while not (folder / _STOP).exists():
        if not optimizing.run().done:
            time.sleep(0.02)
    return 0


@contextmanager
def optimizer_at(folder: Path, coordination: str) -> Iterator[Driver]:
    command = (sys.executable, __file__, "--optimize", str(folder))
    driver = Driver.start(folder, *command, "--coordination", coordination)
    try:
        yield driver
        (folder / _STOP).touch()
        code = driver.finished(timeout_s=120)
        assert code == 0, (folder / "output.log").read_text()[-3_000:]
    finally:
        driver.end()


class Events(logging.Handler):
    """Counts what Freshet logs, by the names of the events."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        self.counts[record.getMessage()] += 1

    @contextmanager
    def heard(self) -> Iterator[None]:
        logger = logging.getLogger("freshet")
        level = logger.level
        logger.addHandler(self)
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.removeHandler(self)
            logger.setLevel(level)


@dataclass
class Soak:
    """Both at work for a while; `problems` is empty if all is well."""

    folder: Path
    coordination: str
    seed: int
    seconds: float
    reports: list[tuple[BatchReport, bool]] = field(default_factory=list)
    """Every batch, and whether the optimizer stood in its way."""
    events: Events = field(default_factory=Events)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.index = OptimizedIndex(settings_for(self.folder, self.coordination))
        self._chooser = Random(self.seed)

    def run(self) -> "Soak":
        """Writes, and compares with the model when both have ended."""
        self.index.fill(1_000)
        with self.events.heard(), optimizer_at(self.folder, self.coordination) as optimizer:
            self._wait_for_first_action(optimizer)
            end = time.monotonic() + self.seconds
            while time.monotonic() < end:
                self._write()
                if not optimizer.is_alive:
                    break
        self._check()
        return self

    def _wait_for_first_action(self, optimizer: Driver) -> None:
        while not self.actions():
            assert optimizer.is_alive, (self.folder / "output.log").read_text()[-3_000:]
            time.sleep(0.05)

    def _write(self) -> None:
        before = self.disturbances
        chosen = self._chooser.sample(keys(_POOL), self._chooser.randint(1, _MOST_EVENTS))
        gone = self._chooser.randint(0, len(chosen) // 5)
        report = self.index.write(chosen[gone:], chosen[:gone])
        self.reports.append((report, self.disturbances > before))

    def _check(self) -> None:
        self.problems += self.index.problems(samples=_SAMPLES)
        report = Optimizing(self.index.settings).run()
        self.problems += [f"{done.target}: {done.error}" for done in report.done if done.error]
        self.problems += self.index.problems(samples=_SAMPLES)
        tries = Counter(
            (row["batch_id"], row["status"])
            for row in self.index.ledger.rows(self.index.settings.home.name, INDEX)
        )
        must = Counter((number, "committed") for number in range(self.index.batches))
        if tries != must:
            self.problems.append(f"in the ledger: {tries - must} too much, {must - tries} missing")
        self.problems += [
            f"{done.action} {done.target}: {done.error}"
            for done in self.actions()
            if done.status == "failed"
        ]

    # --- what the two cost each other ------------------------------------------------------------

    @property
    def conflicts(self) -> int:
        """How often the writer found that the optimizer had been faster."""
        return sum(self.events.counts[name] for name in CONFLICTS)

    @property
    def disturbances(self) -> int:
        return self.conflicts + self.events.counts["waiting"]

    def actions(self) -> list[Done]:
        """All that the optimizer tried."""
        records = Optimizing(self.index.settings).optimizer().records
        return records.latest(utc_now())

    @property
    def lost(self) -> list[Done]:
        return [done for done in self.actions() if done.status == "lost"]

    def lines(self) -> Iterator[str]:
        """What happened, for people."""
        undisturbed = [report.total_s for report, is_disturbed in self.reports if not is_disturbed]
        disturbed = [report.total_s for report, is_disturbed in self.reports if is_disturbed]
        usual = median(undisturbed) if undisturbed else 0.0
        rows = sum(report.counts.rows_in for report, _ in self.reports)
        yield f"{len(self.reports)} batches of {rows} events, {1_000 * usual:.0f} ms each (median)"
        seen = {name: self.events.counts[name] for name in (*CONFLICTS, "waiting")}
        yield f"writer: {listed(seen)}"
        yield (
            f"writer: {len(disturbed)} batches were disturbed, which cost them "
            f"{sum(max(0.0, took - usual) for took in disturbed):.2f} s in all"
        )
        actions = self.actions()
        tried = Counter(f"{done.action} {done.status}" for done in actions)
        yield f"optimizer: {listed(tried)} in {sum(done.seconds for done in actions):.1f} s"
        wasted = sum(done.seconds for done in self.lost)
        yield f"optimizer: {len(self.lost)} actions lost, {wasted:.2f} s in vain"


def listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()) if count) or "none"


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def soak(
    coordination: str, folder: Path, seed: int, minutes: float, tell: Callable[[str], None]
) -> bool:
    """One mode; whether all is well."""
    done = Soak(folder / coordination, coordination, seed, 60 * minutes).run()
    if coordination == EXCLUSIVE and (done.conflicts or done.lost):
        done.problems.append(
            f"{done.conflicts} + {len(done.lost)} conflicts, though they take turns"
        )
    for line in (*done.lines(), *(f"PROBLEM: {problem}" for problem in done.problems)):
        tell(f"{coordination:10} {line}")
    return not done.problems


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="optimizer_and_writer")
    parser.add_argument("--minutes", type=float, default=10.0, help="in each mode")
    parser.add_argument("--coordination", nargs="+", default=[OPTIMISTIC, EXCLUSIVE])
    parser.add_argument("--seed", type=int)
    parser.add_argument("--optimize", type=Path, help=argparse.SUPPRESS)
    told = parser.parse_args(arguments)
    if told.optimize is not None:
        return optimize(told.optimize, told.coordination[0])
    seed = secrets.randbelow(1_000_000) if told.seed is None else told.seed
    say(f"seed {seed}")
    folder = Path(tempfile.mkdtemp(prefix="freshet-optimizer-soak-"))
    went_well = [soak(one, folder, seed, told.minutes, say) for one in told.coordination]
    if all(went_well):
        shutil.rmtree(folder)
    else:
        say(f"all files are kept in {folder}")
    say(f"{went_well.count(True)} passed, {went_well.count(False)} failed, seed {seed}")
    return 0 if all(went_well) else 1


if __name__ == "__main__":
    # Native threads of the stores can abort the interpreter's own end; the verdict stands by then.
    os._exit(main(sys.argv[1:]))
