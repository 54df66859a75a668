"""1,000 keys merged into a Delta table of 1,000,000 rows: `DeltaSink` against a plain MERGE.

Keys grow with time, so each of the table's files has a range of them. A batch changes either recent
keys, of the newest 2 % of the range, or keys of all of it. Three write it, in turn:

- `prune`: `DeltaSink` as it is by default, which tells Delta the range of the batch's keys;
- `no prune`: the same with `prune=False`;
- `plain MERGE`: a statement by hand, for keys that are unique in the batch. It knows nothing of
  versions, deleted keys that come back, a batch that comes twice, or a ledger.

Every batch has a table of its own, a copy of the first one; each writer has put one new row into it
before, so that its log is known and the sink's lease is taken. The first round is left out.
"""

import argparse
import os
import random
import shutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from freshet import DeltaSink
from freshet.settings import SparkSettings
from freshet.spark import start_session
from measuring import machine, median, scratch_folder, show_progress, timed_ms
from sink_vs_merge_insert import key_of

FILES = 16
RECENT = 0.02
OLD, NEW = "P000001", "P000002"
Write = Callable[[DataFrame], object]


def build(spark: SparkSession, table: Path, rows: int, *, has_deletion_vectors: bool) -> None:
    """One file for each range of keys."""
    number = F.col("id").cast("string")
    told = {
        "key": F.concat(F.lit("doc-"), F.lpad(number, 9, "0")),
        "record_version": F.lit(OLD),
        "title": F.md5(number),
        "text": F.repeat(F.md5(F.concat(number, F.lit("text"))), 6),
        "section": F.concat(F.lit("section "), F.col("id") % 50),
        "price": F.col("id") * 0.25,
        "stock": F.col("id") % 1_000,
        "updated_at": F.timestamp_seconds(F.col("id") + 1_700_000_000),
    }
    frame = spark.range(0, rows, 1, FILES).select(
        *(what.alias(name) for name, what in told.items())
    )
    writer = frame.write.format("delta")
    vectors = str(has_deletion_vectors).lower()
    writer.option("delta.enableDeletionVectors", vectors).save(str(table))


def events(spark: SparkSession, numbers: Sequence[int], deletes: int) -> DataFrame:
    """A new version of each, the first ones deleted; held by Spark."""
    rows = len(numbers)
    data = {
        "key": [key_of(number) for number in numbers],
        "record_version": [NEW] * rows,
        "is_deleted": [place < deletes for place in range(rows)],
        "title": [f"the new title of document {number}" for number in numbers],
        "text": [f"what document {number} says from now on, " * 5 for number in numbers],
        "section": ["section 7"] * rows,
        "price": [number * 0.5 for number in numbers],
        "stock": list(numbers),
        "updated_at": pa.array([1_800_000_000_000_000] * rows, pa.timestamp("us", "UTC")),
    }
    frame = spark.createDataFrame(pa.table(data)).cache()
    frame.count()
    return frame


def sink_into(table: Path, *, is_pruned: bool) -> Write:
    sink = DeltaSink(
        str(table), ledger=str(table.parent / "ledger"), pipeline="bench", prune=is_pruned
    )
    batches = iter(range(100))

    def write(rows: DataFrame) -> object:
        return sink.write(rows, query_id="bench", batch_id=next(batches))

    return write


def plain_merge_into(table: Path) -> Write:
    def write(rows: DataFrame) -> object:
        rows.createOrReplaceTempView("bench_events")
        columns = [name for name in rows.columns if name != "is_deleted"]
        changes = ", ".join(f"t.{name} = s.{name}" for name in columns)
        return rows.sparkSession.sql(
            f"MERGE INTO delta.`{table}` t USING bench_events s ON t.key = s.key "
            f"WHEN MATCHED AND s.is_deleted THEN DELETE WHEN MATCHED THEN UPDATE SET {changes} "
            f"WHEN NOT MATCHED AND NOT s.is_deleted THEN INSERT ({', '.join(columns)}) "
            f"VALUES ({', '.join(f's.{name}' for name in columns)})"
        )

    return write


WRITERS: dict[str, Callable[[Path], Write]] = {
    "prune": lambda table: sink_into(table, is_pruned=True),
    "no prune": lambda table: sink_into(table, is_pruned=False),
    "plain MERGE": plain_merge_into,
}


@dataclass(frozen=True)
class Bench:
    """A table to begin with, and what is written to its copies."""

    spark: SparkSession
    folder: Path
    table: Path
    table_rows: int
    batch_rows: int
    deletes: int

    def keys(self, case: str, seed: int) -> list[int]:
        """Which keys a batch changes."""
        first = int(self.table_rows * (1 - RECENT)) if case == "recent" else 0
        return random.Random(seed).sample(range(first, self.table_rows), self.batch_rows)

    def taken_ms(self, writer: str, rows: DataFrame) -> float:
        """One batch into a new copy of the table, at a place that Spark does not know yet."""
        with scratch_folder(self.folder) as place:
            # Data files and commits are never changed, so a copy may share them.
            shutil.copytree(self.table, place / "table", copy_function=os.link)
            write = WRITERS[writer](place / "table")
            write(events(self.spark, [self.table_rows], 0))
            taken = timed_ms(lambda: write(rows))
            self._check(place / "table")
        return taken

    def _check(self, table: Path) -> None:
        found = self.spark.read.format("delta").load(str(table))
        changed = found.where(F.col("record_version") == NEW).count()
        assert found.count() == self.table_rows + 1 - self.deletes
        assert changed == self.batch_rows + 1 - self.deletes


def measure(bench: Bench, rounds: int) -> dict[tuple[str, str], list[float]]:
    taken: dict[tuple[str, str], list[float]] = {
        pair: [] for pair in product(("recent", "spread"), WRITERS)
    }
    for number in range(rounds + 1):
        for (case, writer), values in taken.items():
            show_progress(f"round {number}: {case}, {writer}")
            rows = events(bench.spark, bench.keys(case, number), bench.deletes)
            found = bench.taken_ms(writer, rows)
            bench.spark.catalog.clearCache()
            if number > 0:
                values.append(found)
    return taken


def show(taken: dict[tuple[str, str], list[float]]) -> None:
    print(f"{'median ms of a batch':<24}{'recent keys':>14}{'spread keys':>14}")
    for writer in WRITERS:
        values = [median(taken[case, writer]) for case in ("recent", "spread")]
        print(f"{writer:<24}" + "".join(f"{value:14.0f}" for value in values))
    for writer in ("prune", "no prune"):
        ratios = [
            median(taken[case, writer]) / median(taken[case, "plain MERGE"])
            for case in ("recent", "spread")
        ]
        print(f"{writer + ' / plain MERGE':<24}" + "".join(f"{value:14.2f}" for value in ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--table-rows", type=int, default=1_000_000)
    parser.add_argument("--batch-rows", type=int, default=1_000)
    parser.add_argument("--deletes", type=int, default=0, help="how many of them delete")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--deletion-vectors", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*fork.*")
    print(machine())
    print(
        f"{options.batch_rows:,} keys, {options.deletes:,} of them deletes, into "
        f"{options.table_rows:,} rows in {FILES} files, "
        f"{'with' if options.deletion_vectors else 'without'} deletion vectors; "
        f"medians of {options.rounds} rounds"
    )
    with scratch_folder() as folder:
        spark = start_session(SparkSettings(), name="bench", log_file=folder / "spark.log")
        table = folder / "first"
        build(spark, table, options.table_rows, has_deletion_vectors=options.deletion_vectors)
        sizes = (options.table_rows, options.batch_rows, options.deletes)
        taken = measure(Bench(spark, folder, table, *sizes), options.rounds)
        spark.stop()
    show_progress("")
    show(taken)


if __name__ == "__main__":
    main()
