"""`make sinks-soak`: a pipeline with three further sinks, killed at random for some minutes.

Change files come all the time; the process that runs the pipeline is killed after a random while,
and started again; now and then the database is killed instead. In the end all sinks must equal
what the files say.

    python tests/crash/sinks_soak.py --minutes 5
"""

import argparse
import os
import random
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from freshet.sink import Ledger
from freshet.testing import Driver
from histories import indexed, recount, shuffled_history
from looking_at_sinks import SinkRows, in_delta, in_lance, in_postgres, settings_with_sinks
from postgres_server import Server, postgres_server

FRESHET = (sys.executable, "-c", "from freshet.cli import main; main()")
_LONGEST_LIFE_S, _LONGEST_PAUSE_S, _MOST_BATCHES = 90.0, 3.0, 8
_BEGUN = " sink batch_started "
_SINKS = ("rows", "lake", "database")


def say(line: object) -> None:
    """At once, so that somebody who waits sees it."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@dataclass
class Soak:
    """Kills until it is time to end; then everything must be there, once, in every sink."""

    folder: Path
    server: Server
    seed: int
    seconds: float
    kills: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def run(self, report: Callable[[str], None] = say) -> "Soak":
        """`problems` is empty if all is well."""
        chooser = random.Random(self.seed)
        (self.folder / "landing").mkdir(parents=True)
        (self.folder / "freshet.toml").write_text(settings_with_sinks(self.server.address))
        history = shuffled_history(keys=1_500, events=40_000, files=400, seed=self.seed)
        waiting = iter(enumerate(history.files))
        ends_at = time.monotonic() + self.seconds
        while time.monotonic() < ends_at:
            driver = Driver.start(self.folder, *FRESHET, "run")
            # Seconds alone would strike its start only, which takes most of them.
            enough = self._begun() + chooser.randrange(1, _MOST_BATCHES)
            dies_at = time.monotonic() + _LONGEST_LIFE_S
            while time.monotonic() < min(dies_at, ends_at) and self._begun() < enough:
                self._land(waiting)
                if chooser.random() < 0.01:
                    self._kill_database(report)
                time.sleep(0.5)
            time.sleep(chooser.uniform(0, _LONGEST_PAUSE_S))
            driver.kill()
            self.kills["pipeline"] += 1
            report(f"kill {self.kills['pipeline']}: {self._landed()} batches on record")
        self._drain(report)
        self._recount()
        return self

    def _land(self, waiting: "enumerate[list[str]]") -> None:
        for number, lines in waiting:
            path = self.folder / "landing" / f"part-{number:04d}.json"
            hidden = path.with_name(f".{path.name}")
            hidden.write_text("".join(f"{line}\n" for line in lines))
            hidden.rename(path)
            return

    def _begun(self) -> int:
        """Batches of all sinks that were begun so far, by the log of all processes."""
        log = self.folder / "output.log"
        return log.read_text().count(_BEGUN) if log.exists() else 0

    def _kill_database(self, report: Callable[[str], None]) -> None:
        self.server.kill()
        self.server.restart()
        self.kills["database"] += 1
        report("the database was killed, and is back")

    def _drain(self, report: Callable[[str], None]) -> None:
        """Without a fault, to the end."""
        done = subprocess.run(
            [*FRESHET, "run", "--once"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            self.problems.append(f"the last run ended with {done.returncode}: {done.stderr[-600:]}")
        report(f"{sum(1 for _ in (self.folder / 'landing').glob('*.json'))} files")

    def _landed(self) -> dict[str, int]:
        ledger = Ledger(str(self.folder / "home/ledger"))
        return {name: len(ledger.rows("docs", name)) for name in ("index", *_SINKS)}

    def _recount(self) -> None:
        must = recount(self.folder / "landing")
        found: dict[str, SinkRows] = {
            "index": indexed(self.folder / "home"),
            "rows": in_lance(self.folder),
            "lake": in_delta(self.folder),
            "database": in_postgres(self.server),
        }
        for name, has in found.items():
            missing, extra = must.items() - has.items(), has.items() - must.items()
            if missing or extra:
                self.problems.append(f"{name}: {len(missing)} missing, {len(extra)} too many")
        for name in _SINKS:
            rows = Ledger(str(self.folder / "home/ledger")).rows("docs", name)
            landed = Counter(
                (row["query_id"], row["batch_id"]) for row in rows if row["status"] != "failed"
            )
            twice = [batch for batch, times in landed.items() if times > 1]
            if twice:
                self.problems.append(f"{name}: on record twice: {twice}")


def main() -> int:
    """0 if nothing was lost and nothing is there twice."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10_000))
    told = parser.parse_args()
    os.environ.setdefault("LANCE_LOG", "error")
    say(f"seed {told.seed}, {told.minutes:g} minutes")
    with tempfile.TemporaryDirectory(prefix="freshet-sinks-") as name, postgres_server() as server:
        soak = Soak(Path(name) / "pipeline", server, told.seed, 60 * told.minutes).run()
        say(f"killed: {dict(soak.kills)}; batches on record: {soak._landed()}")
    say("; ".join(soak.problems) or "all sinks equal what the files say")
    return 1 if soak.problems else 0


if __name__ == "__main__":
    sys.exit(main())
