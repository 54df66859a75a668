"""JSON lines into Bronze: `format("landing")` beside Spark's own `readStream.text`.

The same files go through the same parsing (`changes.normalise`, envelope `plain`) into the same
kind of Delta table, in batches of the same number of files; only the source differs:

- `text`: Spark's own file source. It tells no row numbers, so the rows get their block's;
- `landing`: ours, with the given number of files that lie in the zone and were known before.

All run in one session, interleaved, in several rounds of which the first is left out. A round's
rate is its bytes over the time of its triggers (Spark's own figure), without the first batch of
each query. Ratios are of rounds that ran side by side; the median of them is shown.
"""

import argparse
import json
import os
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import freshet
from freshet import bronze, changes
from freshet.landing import LandingOptions
from freshet.landing.source import LandingReader
from freshet.settings import SparkSettings
from freshet.spark import start_session
from measuring import machine, median, scratch_folder, show_progress

EVENT_BYTES = 1_000
FILES_A_BATCH = 8
Source = Callable[[SparkSession, Path, Path], DataFrame]


def text(spark: SparkSession, zone: Path, state: Path) -> DataFrame:
    """Spark's own source, given the columns of ours."""
    lines = spark.readStream.option("maxFilesPerTrigger", FILES_A_BATCH).text(str(zone / "new"))
    return lines.select(
        F.col("value").alias("record"),
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.file_block_start").alias("row"),
        F.lit(0).cast("bigint").alias("seq"),
    )


def landing(spark: SparkSession, zone: Path, state: Path) -> DataFrame:
    options = {"path": str(zone), "state": str(state), "max_files_per_trigger": FILES_A_BATCH}
    return spark.readStream.format("landing").options(**options).load()


def run(spark: SparkSession, source: Source, zone: Path, place: Path) -> StreamingQuery:
    """One query over all new files, into a new table."""
    table = str(place / "bronze")
    bronze.create(table)
    rows = changes.normalise(
        source(spark, zone, place / "files"), envelope="plain", key=["id"], version="record_version"
    )
    writer = bronze.write_stream(
        bronze.rows_to_append(rows, "bench"), checkpoint=str(place / "checkpoint"),
        max_rows_per_batch=400_000,
    )  # fmt: skip
    query = writer.trigger(availableNow=True).start(table)
    query.awaitTermination()
    return query


def rate(query: StreamingQuery, batch_bytes: int) -> float:
    """MB/s over all batches but the first."""
    batches = [one for one in query.recentProgress if "addBatch" in one.durationMs][1:]
    took_ms = sum(one.durationMs["triggerExecution"] for one in batches)
    return len(batches) * batch_bytes / took_ms / 1_000


def write_events(folder: Path, files: int, file_bytes: int) -> None:
    chooser = random.Random(5)
    folder.mkdir(parents=True)
    for number in range(files):
        with (folder / f"{number:05d}.json").open("w") as stream:
            for row in range(file_bytes // EVENT_BYTES):
                event = {
                    "id": f"{number}-{row}",
                    "record_version": row,
                    "is_deleted": False,
                    "title": f"article {row}",
                    "body": f"{chooser.getrandbits(64):x} " * 50,
                }
                stream.write(json.dumps(event).ljust(EVENT_BYTES - 1) + "\n")


def known_files(zone: Path, count: int) -> None:
    """Files that were read long ago and still lie there."""
    for number in range(count):
        folder = zone / "known" / f"{number // 10_000:03d}"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{number:07d}.json"
        file.write_text("{}\n")
        os.utime(file, (1_600_000_000, 1_600_000_000))


def remember(zone: Path, state: Path) -> None:
    """Makes the files of `known/` known, as an earlier run would have."""
    options = LandingOptions(
        path=str(zone), state=str(state), include=("known/",), include_existing=False
    )
    LandingReader(options).initialOffset()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--files", type=int, default=48)
    parser.add_argument("--file-mb", type=int, default=4)
    parser.add_argument("--known", type=int, nargs="+", default=[100, 100_000])
    parser.add_argument("--rounds", type=int, default=3, help="besides the first")
    told = parser.parse_args()
    print(f"{machine()}; {told.files} files of {told.file_mb} MB, {FILES_A_BATCH} a batch")
    with scratch_folder() as folder:
        spark = start_session(
            SparkSettings(master="local[2]"), name="bench", log_file=folder / "spark.log"
        )
        freshet.register(spark)
        write_events(folder / "events", told.files, told.file_mb * 10**6)
        rates = measure(spark, folder, told.file_mb * 10**6, told.known, told.rounds)
        show(rates)


def measure(
    spark: SparkSession, folder: Path, size: int, known: Sequence[int], rounds: int
) -> dict[str, list[float]]:
    zones = {}
    for count in known:
        zone = zones[count] = folder / f"zone-{count}"
        known_files(zone, count)
        (zone / "new").mkdir()
        for file in (folder / "events").iterdir():
            os.link(file, zone / "new" / file.name)
    rates: dict[str, list[float]] = {}
    for round_ in range(rounds + 1):
        runs: list[tuple[str, Source, Path]] = [("text", text, zones[known[0]])]
        runs += [(f"landing, {count:,} known", landing, zone) for count, zone in zones.items()]
        for name, source, zone in runs:
            show_progress(f"round {round_}: {name}")
            place = folder / "run"
            if source is landing:
                remember(zone, place / "files")
            found = rate(run(spark, source, zone, place), FILES_A_BATCH * size)
            shutil.rmtree(place)
            if round_:
                rates.setdefault(name, []).append(found)
    return rates


def show(rates: dict[str, list[float]]) -> None:
    print(f"\n{'source':<26}{'MB/s':>8}{'of text':>10}")
    for name, values in rates.items():
        ratios = [mine / other for mine, other in zip(values, rates["text"], strict=True)]
        print(f"{name:<26}{median(values):>8.1f}{median(ratios):>10.2f}")


if __name__ == "__main__":
    main()
