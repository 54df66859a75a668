"""Ten new files among very many that are known: what does a trigger cost?

Three ways to find them, each beside the others on the same files in the same run:

- `spark`: Spark's own file source (`readStream.text`), its `latestOffset` time by its own progress;
- `listing`: ours, listing the landing zone at every trigger;
- `notification`: ours, told by the file system's events.

Ours are measured without Spark around them: `discover()`, files table included. Then the same with
a million known files that were moved away after reading, as archiving does; and the memory of the
process that discovers, above what it held before it knew any file.
"""

import argparse
import gc
import os
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from freshet.landing.discovery import Discovery
from freshet.landing.files import FilesTable, KnownFile
from freshet.landing.options import LandingOptions
from freshet.settings import SparkSettings
from freshet.spark import start_session
from landing_ingest import known_files
from measuring import machine, median, scratch_folder, show_progress, timed_ms

NEW = 10
ROUNDS = 7
LONG_AGO = datetime(2020, 9, 13, 12, 26, 40, tzinfo=UTC)


def land(zone: Path, round_: int) -> None:
    folder = zone / "new"
    folder.mkdir(exist_ok=True)
    for number in range(NEW):
        hidden = folder / f".{round_}-{number}"
        hidden.write_text("{}\n")
        os.utime(hidden, (1_700_000_000, 1_700_000_000))
        hidden.rename(folder / f"{round_}-{number}.json")


def rounds(zone: Path, discover: Callable[[], int], first: int) -> tuple[list[float], list[float]]:
    """Milliseconds of triggers that find ten new files, and of triggers that find nothing."""
    busy, idle = [], []
    known = discover()
    for round_ in range(first, first + ROUNDS):
        land(zone, round_)
        time.sleep(0.1)
        busy.append(timed_ms(discover))
        idle.append(timed_ms(discover))
        known += NEW
        assert discover() == known, "files were missed"
    return busy, idle


def memory_mb() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 10**6


def ours(zone: Path, state: Path, first: int, **options: str) -> None:
    before = memory_mb()
    discovery = Discovery(
        LandingOptions(path=str(zone), state=str(state), settle="0 seconds", **options)
    )
    start_ms = timed_ms(discovery.discover)
    busy, idle = rounds(zone, discovery.discover, first)
    line(options.get("discovery", "listing"), busy, idle, start_ms, memory_mb() - before)
    discovery.close()


def line(name: str, busy: list[float], idle: list[float], start_ms: float, mb: float) -> None:
    print(f"{name:<30}{median(busy):>10.1f}{median(idle):>10.1f}{start_ms:>12.0f}{mb:>10.0f}")


def head(title: str) -> None:
    print(f"\n{title}")
    print(f"{'':<30}{'10 new':>10}{'nothing':>10}{'first look':>12}{'memory':>10}")
    print(f"{'':<30}{'ms':>10}{'ms':>10}{'ms':>12}{'MB':>10}")


def sparks(spark: SparkSession, zone: Path, folder: Path) -> None:
    """Batches are planned by Spark; `latestOffset` is the time that its source took to look."""
    lines = spark.readStream.option("recursiveFileLookup", True).text(str(zone))
    query = (
        lines.writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    query.processAllAvailable()
    for round_ in range(100, 100 + ROUNDS):
        land(zone, round_)
        query.processAllAvailable()
    batches = [one for one in query.recentProgress[1:] if one.numInputRows]
    found = [one.durationMs["latestOffset"] for one in batches]
    query.stop()
    line("spark (readStream.text)", found, [float("nan")], float("nan"), float("nan"))


def moved_away(state: Path, count: int) -> None:
    """The files table after very many files, none of which is here any more."""
    table = FilesTable(str(state))
    for start in range(0, count, 100_000):
        show_progress(f"files table: {start:,}")
        seqs = range(start, min(count, start + 100_000))
        table.append([_known(seq) for seq in seqs])


def _known(seq: int) -> KnownFile:
    path = f"/gone/{seq // 10_000:04d}/{seq:07d}.json"
    return KnownFile(seq, path, 1_000, LONG_AGO, None, LONG_AGO, "listing")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--known", type=int, default=100_000)
    parser.add_argument("--gone", type=int, default=1_000_000)
    parser.add_argument("--here", type=int, default=1_000_000, help="0: leave that part out")
    told = parser.parse_args()
    print(machine())
    with scratch_folder() as folder:
        for count in (100, told.known):
            zone = folder / f"zone-{count}"
            known_files(zone, count)
            head(f"{count:,} known files, all still there")
            ours(zone, folder / f"state-{count}", 0)
            ours(zone, folder / f"state-{count}", 50, discovery="notification")
            spark = start_session(
                SparkSettings(master="local[2]"), name="bench", log_file=folder / "spark.log"
            )
            sparks(spark, zone, folder / f"spark-{count}")
            shutil.rmtree(zone)
        head(f"{told.gone:,} known files, moved away after reading")
        moved_away(folder / "gone", told.gone)
        (folder / "empty").mkdir()
        ours(folder / "empty", folder / "gone", 0)
        ours(folder / "empty", folder / "gone", 50, discovery="notification")
        if told.here:
            head(f"{told.here:,} known files, all still there")
            known_files(folder / "full", told.here)
            ours(folder / "full", folder / "full-state", 0)
            ours(folder / "full", folder / "full-state", 50, discovery="notification")


if __name__ == "__main__":
    main()
