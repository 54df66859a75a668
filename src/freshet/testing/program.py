"""The program that crash tests run and kill: change files, through a sink, to a table.

    python -m freshet.testing.program FOLDER MODE [--continuous]
        [--sink lance|delta|postgres|postgres-staged] [--address ADDRESS]
        [--kill-at MOMENT | --pause-at MOMENT | --fault FAULT [--in-task]]

Reads `FOLDER/input`, one JSON file a batch in the order of their times, and writes
`FOLDER/rows.lance`, `FOLDER/rows` or the table `rows` of a database. Every step of the protocol is
written to `FOLDER/steps.log` before it may be the last one: after a kill, that file tells where it
struck.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import freshet
from freshet.settings import SparkSettings
from freshet.sink import LanceSink, Probe
from freshet.sink.steps import no_probe
from freshet.sink.target import Mode
from freshet.spark import start_session
from freshet.testing.faults import KillAt, Moment, PauseAt, StepLog, together
from freshet.testing.processes import Driver
from freshet.testing.store_faults import StoreFault
from freshet.testing.tasks_executor import on_executors

SINKS: Final = ("lance", "delta", "postgres", "postgres-staged")
"""What the program can write to; the two of PostgreSQL differ in how the rows are brought."""
COLUMNS: Final = (
    "key string, record_version string, is_deleted boolean, section string, note string"
)


@dataclass(frozen=True)
class Workplace:
    """The files of one program: what it reads, what it writes, and what it leaves as proof."""

    folder: Path
    sink: str = "lance"
    """One of `SINKS`."""
    address: str = ""
    """Of the database, if the sink writes to one."""

    @property
    def input(self) -> Path:
        """Change files, as JSON lines with the columns of `COLUMNS`."""
        return self.folder / "input"

    @property
    def table(self) -> Path:
        """What the sink writes, if that is files."""
        return self.folder / ("rows" if self.sink == "delta" else "rows.lance")

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
    told = ("--sink", place.sink, "--address", place.address, *options)
    return Driver.start(place.folder, sys.executable, "-m", module, str(place.folder), mode, *told)


def session(folder: Path) -> SparkSession:
    """A Spark session for short lives: compiling code well would take longer than running it."""
    conf = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    settings = SparkSettings(master="local[2]", conf=conf)
    return start_session(settings, name="crash test", log_file=folder / "spark.log")


def sink_of(place: Workplace, mode: str, probe: Probe) -> Callable[[DataFrame, int], None]:
    """The sink that is put to the test."""
    told: dict[str, Any] = {"ledger": str(place.ledger), "pipeline": "crash"}
    told |= {"mode": mode, "probe": probe}
    if place.sink == "lance":
        return LanceSink(str(place.table), **told)
    if place.sink == "delta":
        return freshet.DeltaSink(str(place.table), **told)
    is_staged = place.sink == "postgres-staged"
    return freshet.PostgresSink(place.address, "rows", create=True, staged=is_staged, **told)


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
    sink = sink_of(place, mode, probe)
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
    parser.add_argument("--sink", choices=SINKS, default="lance")
    parser.add_argument("--address", default="")
    parser.add_argument("--kill-at", type=Moment.parse)
    parser.add_argument("--pause-at", type=Moment.parse)
    parser.add_argument("--fault")
    parser.add_argument("--in-task", action="store_true")
    told = parser.parse_args(arguments)
    place = Workplace(told.folder, told.sink, told.address)
    probes: list[Probe] = [place.steps]
    if told.kill_at is not None:
        probes.append(KillAt(told.kill_at))
    if told.pause_at is not None:
        probes.append(PauseAt(told.pause_at))
    with ExitStack() as faults:
        spark = session(place.folder)
        if told.fault is not None:
            fault = StoreFault.parse(told.fault, place.marker)
            faults.enter_context(_entered(fault, in_task=told.in_task))
        probe = together(*probes)
        query = stream(spark, place, told.mode, probe=probe, is_continuous=told.continuous)
        query.awaitTermination()
    return 0


def _entered(fault: StoreFault, *, in_task: bool) -> AbstractContextManager[Any]:
    """The fault here, or in a task, which then takes this process with it."""
    if not in_task:
        return fault
    fault.victim = os.getpid()
    return on_executors(fault)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
