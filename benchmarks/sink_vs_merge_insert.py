"""A 1,000-row update batch into a 100,000-row index: Freshet's sink against LanceDB's own calls.

Both get the same rows, in the same run, in turn, on two copies of one table. No model runs: either
only an attribute changes, so that the sink keeps the vectors that the table has, or the texts
change and vectors are made up at once. The rival is `merge_insert` and a `delete`: two commits that
know nothing of versions, tombstones or a ledger. It is given its rows in the driver's memory, with
their vectors, and needs no Spark; so two comparisons are fair, and both are printed:

- the sink without what Spark takes to run an empty task on the same DataFrame, against the rival;
- the whole sink, against the rival and the `toArrow` that fetches its rows from that DataFrame.
"""

import argparse
import os
import random
import shutil
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import lancedb
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from freshet.embedding import ProviderSpec
from freshet.embedding.chunking import Chunking
from freshet.embedding.rows_executor import content_hash
from freshet.settings import SparkSettings
from freshet.sink import LanceSink
from freshet.sink.columns import conformed
from freshet.spark import start_session
from freshet.stores.lance_tables import LanceTable
from instant_rows import DIMENSION, InstantRows, count_rows
from measuring import machine, median, scratch_folder, show_progress, timed_ms

NOW = datetime(2026, 1, 1, tzinfo=UTC)


ROWS = InstantRows(ProviderSpec("fake"), Chunking(10_000, 0), {"section": "string"})


def key_of(number: int) -> str:
    return f"doc-{number:09d}"


def text_of(number: int, version: int) -> str:
    return f"the body of document {number}, as written in version {version}, " * 6


def index_rows(numbers: Sequence[int], version: int, text_version: int) -> pa.Table:
    texts = [text_of(number, text_version) for number in numbers]
    values = np.random.default_rng(version).random(len(numbers) * DIMENSION, np.float32)
    columns = {
        "key": [key_of(number) for number in numbers],
        "chunk": pa.array([0] * len(numbers), pa.int32()),
        "text": texts,
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(values), DIMENSION),
        "section": [f"section {version}"] * len(numbers),
        "record_version": [f"P{version:06d}"] * len(numbers),
        "content_hash": [content_hash(text) for text in texts],
        "updated_at": [NOW] * len(numbers),
    }
    return conformed(pa.table(columns), ROWS.schema)


def build(uri: str, rows: int) -> None:
    for start in range(0, rows, 50_000):
        table = LanceTable.create(uri, ROWS.schema, key="key")
        data = index_rows(range(start, min(start + 50_000, rows)), 1, 1)
        table.commit(None, table.write_files(data.to_reader()), {})
    LanceTable.open(uri).index_new_keys("key")


def events(upserts: Sequence[int], deletes: Sequence[int], version: int, texts: int) -> pa.Table:
    numbers = [*upserts, *deletes]
    return pa.table(
        {
            "key": [key_of(number) for number in numbers],
            "record_version": [f"P{version:06d}"] * len(numbers),
            "is_deleted": [False] * len(upserts) + [True] * len(deletes),
            "text": [text_of(number, texts) for number in numbers],
            "section": [f"section {version}"] * len(numbers),
        }
    )


@dataclass
class Timings:
    """Milliseconds, one entry a batch."""

    sink: list[float]
    floor: list[float]
    commit: list[float]
    collect: list[float]
    merge: list[float]
    delete: list[float]


def run(spark: SparkSession, options: argparse.Namespace, folder: Path, change: str) -> Timings:
    build(str(folder / "ours.lance"), options.table_rows)
    shutil.copytree(folder / "ours.lance", folder / "theirs.lance")
    sink = LanceSink(
        str(folder / "ours.lance"), ledger=str(folder / "ledger"), pipeline="bench", rows=ROWS
    )
    rival = lancedb.connect(folder).open_table("theirs")
    alive = set(range(options.table_rows))
    chooser = random.Random(0)
    timings = Timings([], [], [], [], [], [])
    for batch in range(options.warm_up + options.batches):
        chosen = chooser.sample(sorted(alive), options.batch_rows)
        deletes, upserts = chosen[: options.batch_rows // 10], chosen[options.batch_rows // 10 :]
        version, texts = batch + 2, batch + 2 if change == "text" else 1
        alive.difference_update(deletes)
        frame = spark.createDataFrame(events(upserts, deletes, version, texts)).cache()
        frame.count()
        ours(sink, frame, batch, timings)
        timings.floor.append(timed_ms(lambda frame=frame: empty_task(frame)))
        theirs(rival, frame, index_rows(upserts, version, texts), deletes, timings)
        frame.unpersist()
        show_progress(f"{change}: batch {batch + 1}")
    assert LanceTable.open(str(folder / "ours.lance")).count() == rival.count_rows() == len(alive)
    return timings


def empty_task(frame: DataFrame) -> None:
    """What Spark takes by itself: the rows to one Python task, and one small value back."""
    frame.coalesce(1).mapInArrow(count_rows, "rows bigint").collect()


def ours(sink: LanceSink, frame: DataFrame, batch: int, timings: Timings) -> None:
    started = time.perf_counter()
    report = sink.write(frame, query_id="bench", batch_id=batch)
    assert report is not None
    timings.sink.append((time.perf_counter() - started - report.embed_s) * 1_000)
    timings.commit.append(report.commit_s * 1_000)


def theirs(
    rival: lancedb.table.Table,
    frame: DataFrame,
    rows: pa.Table,
    deletes: Sequence[int],
    timings: Timings,
) -> None:
    timings.collect.append(timed_ms(frame.toArrow))
    merge = rival.merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
    timings.merge.append(timed_ms(lambda: merge.execute(rows)))
    gone = ",".join(f"'{key_of(number)}'" for number in deletes)
    timings.delete.append(timed_ms(lambda: rival.delete(f"key IN ({gone})")))


def show(change: str, timings: Timings, warm_up: int) -> None:
    def settled(values: list[float]) -> float:
        return median(values[warm_up:])

    memory = settled([m + d for m, d in zip(timings.merge, timings.delete, strict=True)])
    frame = memory + settled(timings.collect)
    sink, floor = settled(timings.sink), settled(timings.floor)
    print(f"\n{change} changed:")
    print(f"  freshet sink, steps 1-7 without embedding      {sink:7.1f} ms")
    print(f"    of which Spark's floor, an empty task        {floor:7.1f}")
    print(f"    of which the commit (step 5)                 {settled(timings.commit):7.1f}")
    print(f"  LanceDB merge_insert + delete, rows in memory  {memory:7.1f}")
    print(f"    merge_insert                                 {settled(timings.merge):7.1f}")
    print(f"    delete                                       {settled(timings.delete):7.1f}")
    print(f"  the same, rows fetched from the DataFrame      {frame:7.1f}")
    print(f"  sink without Spark's floor / rows in memory    {(sink - floor) / memory:7.2f}")
    print(f"  whole sink / rows fetched from the DataFrame   {sink / frame:7.2f}")


def warm_up(spark: SparkSession, folder: Path) -> None:
    """A stream runs for long: let the JVM compile what it will run, on a table of its own."""
    (folder / "warm-up").mkdir()
    small = argparse.Namespace(table_rows=5_000, batch_rows=200, batches=60, warm_up=0)
    run(spark, small, folder / "warm-up", "text")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--table-rows", type=int, default=100_000)
    parser.add_argument("--batch-rows", type=int, default=1_000)
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--warm-up", type=int, default=5)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*fork.*")
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)  # executors import `instant_rows`
    print(machine())
    print(
        f"{options.batch_rows:,} rows, a tenth of them deletes, into {options.table_rows:,} x "
        f"{DIMENSION}; medians of {options.batches} batches after {options.warm_up}"
    )
    with scratch_folder() as folder:
        spark = start_session(SparkSettings(), name="bench", log_file=folder / "spark.log")
        warm_up(spark, folder)
        for change in ("attribute", "text"):
            (folder / change).mkdir()
            show(change, run(spark, options, folder / change, change), options.warm_up)


if __name__ == "__main__":
    main()
