"""One Spark stream into nothing, and into Lance: what does a sink add to a micro-batch?

The same files are streamed in the same batches, one file each, through

- `nothing`: a `foreachBatch` that does nothing, so not even the file is read;
- `noop`: one that writes Spark's format `noop`, so that rows are read and dropped: Spark's floor;
- `empty task`: one that sends the rows through one Python task and gets one number back: what any
  sink written in Python has to pay;
- `append` and `update`: `LanceSink`, adding rows and upserting by key, rows written as they are;
- `native`: `format("lance")`, adding rows.

All run in one session, one after another, in several rounds of which the first is left out: by then
the JVM has compiled what it runs. Every run has a new table and a new checkpoint. Durations are
Spark's own, of its query progress; the split of the sink's time is the ledger's.
"""

import argparse
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

import freshet
from freshet.settings import SparkSettings
from freshet.sink import LanceSink, Ledger
from freshet.spark import start_session
from freshet.stores.lance_tables import LanceTable
from instant_rows import DIMENSION, count_rows
from measuring import machine, median, scratch_folder, show_progress
from sink_vs_merge_insert import key_of, text_of

KEYS = 50_000
FIRST_BATCHES = 2
"""The first batches of a query make the table, take the lease and start Python workers."""


@dataclass
class Taken:
    """Milliseconds, one entry a batch."""

    trigger: list[float] = field(default_factory=list)
    add_batch: list[float] = field(default_factory=list)
    total: list[float] = field(default_factory=list)
    write: list[float] = field(default_factory=list)
    commit: list[float] = field(default_factory=list)

    def add(self, progress: Sequence[Any], ledger: Sequence[dict[str, Any]]) -> None:
        """What one run took, without its first batches."""
        batches = [entry for entry in progress if "addBatch" in entry.durationMs][FIRST_BATCHES:]
        self.trigger += [entry.durationMs["triggerExecution"] for entry in batches]
        self.add_batch += [entry.durationMs["addBatch"] for entry in batches]
        for row in ledger[FIRST_BATCHES:]:
            self.total.append(row["total_s"] * 1_000)
            self.write.append(row["write_s"] * 1_000)
            self.commit.append(row["commit_s"] * 1_000)


@dataclass(frozen=True)
class Place:
    """Where one run writes."""

    folder: Path

    @property
    def table(self) -> str:
        """The table's place."""
        return str(self.folder / "rows.lance")

    @property
    def ledger(self) -> str:
        """The ledger's place."""
        return str(self.folder / "ledger")


Attach = Callable[[DataStreamWriter, Place], DataStreamWriter]


def nothing(writer: DataStreamWriter, place: Place) -> DataStreamWriter:
    return writer.foreachBatch(lambda frame, batch_id: None)


def noop(writer: DataStreamWriter, place: Place) -> DataStreamWriter:
    def write(frame: DataFrame, batch_id: int) -> None:
        frame.write.format("noop").mode("overwrite").save()

    return writer.foreachBatch(write)


def empty_task(writer: DataStreamWriter, place: Place) -> DataStreamWriter:
    def write(frame: DataFrame, batch_id: int) -> None:
        frame.coalesce(1).mapInArrow(count_rows, "rows bigint").collect()

    return writer.foreachBatch(write)


def lance_sink(mode: str) -> Attach:
    def attach(writer: DataStreamWriter, place: Place) -> DataStreamWriter:
        sink = LanceSink(
            place.table,
            ledger=place.ledger,
            pipeline="bench",
            sink="rows",
            mode=mode,
            vectors={"vector": DIMENSION},
        )
        return writer.foreachBatch(sink)

    return attach


def native(writer: DataStreamWriter, place: Place) -> DataStreamWriter:
    options = {
        "path": place.table,
        "ledger": place.ledger,
        "pipeline": "bench",
        "sink": "rows",
        "vector.arrow.fixed-size-list.size": str(DIMENSION),
    }
    return writer.format("lance").options(**options)


SINKS: dict[str, Attach] = {
    "nothing": nothing,
    "noop": noop,
    "empty task": empty_task,
    "append": lance_sink("append"),
    "update": lance_sink("update"),
    "native": native,
}


def write_files(folder: Path, batches: int, rows: int) -> None:
    """One file a batch: upserts of random keys, a tenth of them deletes."""
    folder.mkdir()
    chooser = np.random.default_rng(0)
    for batch in range(batches):
        numbers = chooser.choice(KEYS, rows, replace=False).tolist()
        vectors = chooser.random((rows, DIMENSION), np.float32)
        data = pa.table(
            {
                "key": [key_of(number) for number in numbers],
                "record_version": [f"P{batch:06d}"] * rows,
                "is_deleted": [place < rows // 10 for place in range(rows)],
                "text": [text_of(number, batch) for number in numbers],
                "section": [f"section {batch}"] * rows,
                "vector": pa.array(list(vectors), pa.list_(pa.float32())),
            }
        )
        pq.write_table(data, folder / f"{batch:06d}.parquet")


def run(spark: SparkSession, files: Path, attach: Attach, place: Place) -> Sequence[Any]:
    """Streams all files; Spark's progress, an entry a batch."""
    schema = spark.read.parquet(str(files)).schema
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(files))
    writer = stream.writeStream.option("checkpointLocation", str(place.folder / "checkpoint"))
    query = attach(writer.trigger(availableNow=True), place).start()
    query.awaitTermination()
    return query.recentProgress


def measure(
    spark: SparkSession, files: Path, folder: Path, options: argparse.Namespace
) -> dict[str, Taken]:
    taken = {name: Taken() for name in SINKS}
    for round_number in range(options.rounds + 1):
        for name in list(taken):
            show_progress(f"round {round_number}: {name}")
            place = Place(folder / f"{round_number}-{name}")
            try:
                progress = run(spark, files, SINKS[name], place)
            except AnalysisException as error:
                print(f"{name}: left out, {str(error).splitlines()[0]}")
                del taken[name]
                continue
            ledger = Ledger(place.ledger).rows("bench", "rows")
            check(name, place, options.batches * options.batch_rows)
            if round_number > 0:
                taken[name].add(progress, ledger)
    return taken


def check(name: str, place: Place, rows: int) -> None:
    """A sink that lost rows would be fast for nothing."""
    if name in {"append", "native"}:
        assert LanceTable.open(place.table).count() == rows


def show(taken: dict[str, Taken]) -> None:
    heads = ("trigger", "- noop", "- empty task", "addBatch", "- noop", "- empty task")
    _line("median ms of a batch", [*heads, "ledger: total", "write", "commit"])
    for name, times in taken.items():
        values = [
            *_over_floors([median(other.trigger) for other in taken.values()], times.trigger),
            *_over_floors([median(other.add_batch) for other in taken.values()], times.add_batch),
            *(median(part) for part in (times.total, times.write, times.commit) if part),
        ]
        _line(name, [f"{value:.1f}" for value in values])
    print(
        "trigger: all of a batch; addBatch: the sink's part of it, with the tasks that read the "
        "file.\nledger: total from the sink's first step to its ledger row, write of the slowest "
        "task's data files,\ncommit of the table. The native sink's first step comes after its "
        "tasks, whose write counts their wait for rows"
    )


def _over_floors(medians: Sequence[float], values: Sequence[float]) -> list[float]:
    """The median, and what it is above the two floors."""
    _, noop_ms, empty_task_ms, *_ = medians
    return [median(values), median(values) - noop_ms, median(values) - empty_task_ms]


def _line(label: str, values: Sequence[str]) -> None:
    print(f"{label:<22}" + "".join(f"{value:>14}" for value in values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--batch-rows", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*fork.*")
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)  # executors import `instant_rows`
    print(machine())
    print(
        f"{options.batch_rows:,} rows x {DIMENSION} a batch, a tenth of them deletes for update; "
        f"medians of {options.rounds} x {options.batches - FIRST_BATCHES} batches"
    )
    with scratch_folder() as folder:
        spark = start_session(SparkSettings(), name="bench", log_file=folder / "spark.log")
        freshet.register(spark)
        write_files(folder / "files", options.batches, options.batch_rows)
        taken = measure(spark, folder / "files", folder, options)
        spark.stop()
    show_progress("")
    show(taken)


if __name__ == "__main__":
    main()
