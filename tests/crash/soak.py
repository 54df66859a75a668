"""`make soak`: random kills for some minutes in each mode, while files come and an optimizer works.

The seed says what is fed, when is killed and what the optimizer does; how far a process comes in
that time is the machine's.
"""

import argparse
import os
import random
import secrets
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from changes import Feed, contents, difference, recount, statuses
from optimizer import Optimizer

from freshet.sink import Step
from freshet.testing import Driver, Moment, NotKilledError, program
from freshet.testing.program import Workplace

_LONGEST_LIFE_S = 4.0
_LONGEST_STEP_S = 0.1
_MOST_STEPS = 40
_BACKLOG_FILES = 12


def say(line: object) -> None:
    """At once, so that somebody who waits sees it."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@dataclass
class Feeding:
    """A thread that lands files as long as the sink is not too far behind."""

    feed: Feed
    place: Workplace
    pause_s: float = 0.3

    def __post_init__(self) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed")

    def __enter__(self) -> "Feeding":
        self.feed.land(3)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self.pause_s):
            seen = newest_batch(self.place.steps.moments())
            if self.feed.files - seen < _BACKLOG_FILES:
                self.feed.land()


@dataclass
class Soak:
    """Kills drivers of one mode until it is time to end; then everything must be there, once."""

    mode: str
    folder: Path
    seed: int
    is_over: Callable[[int, float], bool]
    """Whether to end, told the kills so far and the seconds since the start."""
    kills: int = 0
    """Of processes that had begun to work and were alive."""
    struck: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.place = Workplace(self.folder)
        self._chooser = random.Random(self.seed)
        self._started = time.monotonic()

    def run(self, report: Callable[[str], None] = say) -> "Soak":
        """Kills, drains and recounts; `problems` is empty if all is well."""
        feed = Feed(self.place.input, self.seed, keys=2_000)
        optimizer = Optimizer(self.place, self.mode, self.seed)
        with optimizer:
            with Feeding(feed, self.place):
                self._kill_again_and_again(report)
            self._drain()
        self._recount()
        self.problems += optimizer.problems
        landed = Counter(how[0] for how in statuses(self.place.ledger).values())
        report(f"{self.mode:8} {self.kills} kills: {listed(self.struck)}")
        report(f"{self.mode:8} {feed.files} files, {landed.total()} batches: {listed(landed)}")
        report(f"{self.mode:8} meanwhile: {listed(optimizer.done)}")
        return self

    def _kill_again_and_again(self, report: Callable[[str], None]) -> None:
        while not self.is_over(self.kills, time.monotonic() - self._started):
            try:
                at = self._kill()
            except NotKilledError as error:
                self.problems.append(str(error))
                return
            report(f"{self.mode:8} kill {self.kills:3} {at}")

    def _kill(self) -> str:
        """Starts a driver, lets it work for a random while, and kills it where it is then."""
        before = len(self.place.steps.moments())
        driver = program.start(self.place, self.mode, "--continuous")
        try:
            self._let_work(driver, before)
            driver.kill()
        except BaseException:
            driver.end()
            raise
        last = self.place.steps.moments()[-1]
        self.kills += 1
        self.struck["between batches" if is_end(last) else f"{last.when} {last.step}"] += 1
        return f"at {last}, {len(statuses(self.place.ledger))} batches on record"

    def _let_work(self, driver: Driver, before: int) -> None:
        """For some seconds, or for some steps: seconds alone strike long steps only."""
        if not _took_steps(driver, self.place, before + 1, timeout_s=180):
            raise NotKilledError(f"it never began to work: {self.folder}/output.log")
        if self._chooser.random() < 0.5:
            time.sleep(self._chooser.uniform(0, _LONGEST_LIFE_S))
        else:
            steps = before + self._chooser.randrange(1, _MOST_STEPS)
            _took_steps(driver, self.place, steps, timeout_s=2 * _LONGEST_LIFE_S)
            time.sleep(self._chooser.uniform(0, _LONGEST_STEP_S))

    def _drain(self) -> None:
        code = program.start(self.place, self.mode).finished(timeout_s=600)
        if code != 0:
            self.problems.append(f"a run without a kill ended with {code}: see output.log")

    def _recount(self) -> None:
        has, must = contents(self.mode, self.place.table), recount(self.mode, self.place.input)
        if wrong := difference(must, has):
            self.problems.append(wrong)
        landed = statuses(self.place.ledger)
        twice = [batch for batch, how in landed.items() if len(how) > 1]
        # Not one a file: Spark puts a file that it noted before a kill into the batch after it.
        gaps = sorted(set(range(max(landed, default=0))) - landed.keys())
        if twice or gaps:
            self.problems.append(f"batches on record twice: {twice}, never: {gaps}")


def newest_batch(moments: Sequence[Moment]) -> int:
    """The greatest batch that was begun; -1 if none was."""
    return max((moment.batch_id for moment in moments), default=-1)


def is_end(moment: Moment) -> bool:
    """Whether a batch has ended there and the next has not begun."""
    return (moment.when, moment.step) == ("after", Step.RECORD)


def listed(counts: Counter[str]) -> str:
    """Counts in a line."""
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def _took_steps(driver: Driver, place: Workplace, steps: int, *, timeout_s: float) -> bool:
    """Waits for that many steps; False if the time is over before."""
    deadline = time.monotonic() + timeout_s
    while len(place.steps.moments()) < steps:
        if not driver.is_alive:
            raise NotKilledError(f"it ended before it could be killed: {driver.folder}/output.log")
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def main(arguments: Sequence[str]) -> int:
    """Soaks the modes one after the other; 1 if one of them has a problem."""
    parser = argparse.ArgumentParser(prog="soak")
    parser.add_argument("--minutes", type=float, default=10.0, help="of killing, in each mode")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--modes", nargs="+", default=["update", "append"])
    told = parser.parse_args(arguments)
    seed = secrets.randbelow(1_000_000) if told.seed is None else told.seed
    say(f"seed {seed}")
    folder = Path(tempfile.mkdtemp(prefix="freshet-soak-"))
    soaks = [
        Soak(mode, folder / mode, seed, lambda _, age_s: age_s > 60 * told.minutes).run()
        for mode in told.modes
    ]
    failed = [soak for soak in soaks if soak.problems or not soak.kills]
    for soak in failed:
        say(f"{soak.mode}: {'; '.join(soak.problems) or 'nothing was killed'}")
    if failed:
        say(f"all files are kept in {folder}")
    else:
        shutil.rmtree(folder)
    kills = sum(soak.kills for soak in soaks)
    say(f"{len(soaks) - len(failed)} passed, {len(failed)} failed after {kills} kills, seed {seed}")
    return 1 if failed else 0


if __name__ == "__main__":
    # Native threads of the stores can abort the interpreter's own end; the verdict stands by then.
    os._exit(main(sys.argv[1:]))
