"""The program that crash tests run and kill: change files, through a `LanceSink`, to a table.

    python -m freshet.testing.program FOLDER MODE [--continuous]
        [--kill-at MOMENT | --pause-at MOMENT | --fault FAULT]

Reads `FOLDER/input`, one JSON file a batch in the order of their times, and writes
`FOLDER/rows.lance`. Every step of the protocol is written to `FOLDER/steps.log` before it may be
the last one: after a kill, that file tells where it struck.
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from freshet.settings import SparkSettings
from freshet.sink import LanceSink, Probe
from freshet.sink.steps import no_probe
from freshet.sink.target import Mode
from freshet.spark import start_session
from freshet.testing.faults import KillAt, Moment, PauseAt, StepLog, together
from freshet.testing.processes import Driver
from freshet.testing.store_faults import StoreFault

COLUMNS: Final = (
    "key string, record_version string, is_deleted boolean, section string, note string"
)


@dataclass(frozen=True)
class Workplace:
    """The files of one program: what it reads, what it writes, and what it leaves as proof."""

    folder: Path

    @property
    def input(self) -> Path:
        """Change files, as JSON lines with the columns of `COLUMNS`."""
        return self.folder / "input"

    @property
    def table(self) -> Path:
        """What the sink writes."""
        return self.folder / "rows.lance"

    @property
    def ledger(self) -> Path:
        """The sink's ledger."""
        return self.folder / "ledger"

    @property
    def steps(self) -> StepLog:
        """The steps that all programs took here, one after the other."""
        return StepLog(self.folder / "steps.log")

    @property
    def marker(self) -> Path:
        """Made by a store fault that struck."""
        return self.folder / "struck"


def start(place: Workplace, mode: str, *options: str) -> Driver:
    """Runs this program in a process of its own."""
    module = "freshet.testing.program"
    return Driver.start(
        place.folder, sys.executable, "-m", module, str(place.folder), mode, *options
    )


def session(folder: Path) -> SparkSession:
    """A Spark session for short lives: compiling code well would take longer than running it."""
    conf = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    settings = SparkSettings(master="local[2]", conf=conf)
    return start_session(settings, name="crash test", log_file=folder / "spark.log")


def stream(
    spark: SparkSession,
    place: Workplace,
    mode: str,
    *,
    probe: Probe = no_probe,
    is_continuous: bool = False,
) -> StreamingQuery:
    """Starts the query: all files that are there, or all that ever come, one file a batch.

    In `complete` mode the table holds how many rows each section has; otherwise the rows.
    """
    sink = LanceSink(
        str(place.table), ledger=str(place.ledger), pipeline="crash", mode=mode, probe=probe
    )
    rows = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).json(str(place.input))
    if mode == Mode.COMPLETE:
        rows = rows.groupBy("section").count()
    writer = rows.writeStream.foreachBatch(sink).outputMode(mode)
    writer = writer.option("checkpointLocation", str(place.folder / "checkpoint"))
    if is_continuous:
        return writer.trigger(processingTime="100 milliseconds").start()
    return writer.trigger(availableNow=True).start()


def main(arguments: Sequence[str]) -> int:
    """Runs until its end or its kill."""
    parser = argparse.ArgumentParser(prog="freshet.testing.program")
    parser.add_argument("folder", type=Path)
    parser.add_argument("mode", choices=list(Mode))
    parser.add_argument("--continuous", action="store_true")
    parser.add_argument("--kill-at", type=Moment.parse)
    parser.add_argument("--pause-at", type=Moment.parse)
    parser.add_argument("--fault")
    told = parser.parse_args(arguments)
    place = Workplace(told.folder)
    probes: list[Probe] = [place.steps]
    if told.kill_at is not None:
        probes.append(KillAt(told.kill_at))
    if told.pause_at is not None:
        probes.append(PauseAt(told.pause_at))
    with ExitStack() as faults:
        spark = session(place.folder)
        if told.fault is not None:
            faults.enter_context(StoreFault.parse(told.fault, place.marker))
        probe = together(*probes)
        query = stream(spark, place, told.mode, probe=probe, is_continuous=told.continuous)
        query.awaitTermination()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
