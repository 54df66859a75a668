"""Debezium's events into Bronze: `changes.normalise` beside `from_json` with a schema made by hand.

The same events of 1 kB go, in batches of the same size, into Delta tables with the same columns:

- `by hand`: what one would write for this one table: `from_json` with the schema of the event,
  the version from `source.sequence`, the image as JSON; it knows no other form and no errors;
- `debezium`, `auto`: ours, told the envelope or not.

All run in one session, interleaved, in several rounds of which the first is left out. Ratios are of
rounds that ran side by side; the median of them is shown. Where the time goes is found by running
the beginnings of the plan into Spark's `noop` sink. Then `gold.latest` of ever more events, in
the same session of little memory: the rate should stay, and the heap should not fill.
"""

import argparse
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from freshet import bronze, changes, gold, schemas, variants
from freshet.changes import versions
from freshet.settings import SparkSettings
from freshet.spark import start_session
from measuring import machine, median, scratch_folder, show_progress, timed_ms

EVENT_BYTES = 1_000
MEMORY = "1g"
BY_HAND = "by hand"
EVENT = """
    op string, ts_ms bigint,
    before struct<id: bigint, title: string, body: string, price: string, section: string>,
    after struct<id: bigint, title: string, body: string, price: string, section: string>,
    source struct<sequence: string, lsn: bigint, ts_ms: bigint, schema: string, table: string>,
    transaction struct<id: string, total_order: bigint>
"""
Plan = Callable[[DataFrame], DataFrame]


def by_hand(lines: DataFrame) -> DataFrame:
    """The columns of `schemas.CHANGES`, for this table and this connector alone."""
    event = lines.select("*", F.from_json("record", EVENT).alias("e"))
    lsns = F.split(F.translate("e.source.sequence", '[]"', ""), ",")
    image = F.when(F.col("e.op") == "d", F.col("e.before")).otherwise(F.col("e.after"))
    opened = event.select("*", image.alias("image"), lsns.alias("lsns"))
    version = versions.composed(
        versions.whole(F.col("lsns")[0]),
        versions.whole(F.col("lsns")[1]),
        versions.whole(F.col("e.transaction.total_order")),
        versions.whole(F.col("seq")),
        versions.whole(F.col("row")),
    )
    columns = {
        "key": F.col("image.id"),
        "record_version": version,
        "is_deleted": F.col("e.op") == "d",
        "op": F.col("e.op"),
        "record": F.to_json("image"),
        "changed_at": F.timestamp_millis("e.source.ts_ms"),
        "raw": F.col("record"),
        "envelope": F.lit("debezium"),
    } | {name: F.lit(None) for name in ("error", "old_key", "unavailable")}
    return opened.select(
        *(
            columns.get(name, F.col(name)).cast(schemas.spark_type(kind)).alias(name)
            for name, kind in zip(schemas.CHANGES.names, schemas.CHANGES.types, strict=True)
        )
    )


def ours(envelope: str) -> Plan:
    return lambda lines: changes.normalise(lines, envelope=envelope, key=["id"])


PLANS: dict[str, Plan] = {
    BY_HAND: by_hand,
    "debezium": ours("debezium"),
    "auto": ours("auto"),
}


def event(number: int, chooser: random.Random) -> str:
    """One event as Debezium's JSON converter writes it without schemas, 1 kB long."""
    op = "cuuuuuuuud"[number % 10]
    lsn = 40_000_000 + 128 * number
    image = {
        "id": number // 4,
        "title": f"article {number}",
        "body": f"{chooser.getrandbits(64):x} " * 14,
        "price": "AS0=",
        "section": chooser.choice(["news", "sport", "local"]),
    }
    source = {
        "version": "3.4.0.Final", "connector": "postgresql", "name": "shop",
        "ts_ms": 1_794_729_109_775 + number, "snapshot": "false", "db": "shop",
        "sequence": json.dumps([str(lsn - 64), str(lsn)], separators=(",", ":")),
        "ts_us": 1_794_729_109_775_647 + number, "ts_ns": 1_794_729_109_775_647_000 + number,
        "schema": "public", "table": "articles", "txId": number, "lsn": lsn, "xmin": None,
    }  # fmt: skip
    whole: dict[str, Any] = {
        "before": image if op == "d" else None,
        "after": None if op == "d" else image,
        "source": source,
        "transaction": {"id": f"{number}:{lsn}", "total_order": 1, "data_collection_order": 1},
        "op": op,
        "ts_ms": 1_794_729_110_508 + number,
    }
    missing = EVENT_BYTES - 1 - len(json.dumps(whole, separators=(",", ":")))
    image["body"] += "x" * missing
    return json.dumps(whole, separators=(",", ":"))


def write_events(folder: Path, files: int, rows: int) -> None:
    chooser = random.Random(5)
    folder.mkdir(parents=True)
    for number in range(files):
        with (folder / f"{number:05d}.json").open("w") as stream:
            for row in range(rows):
                stream.write(event(number * rows + row, chooser) + "\n")


def read(spark: SparkSession, folder: Path) -> DataFrame:
    """The lines with the columns of the landing source."""
    return spark.read.text(str(folder)).select(
        F.col("value").alias("record"),
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.file_block_start").alias("row"),
        F.lit(0).cast("bigint").alias("seq"),
    )


def to_bronze(rows: DataFrame, table: Path) -> None:
    kept = bronze.rows_to_append(rows, "bench")
    kept.write.format("delta").mode("append").save(str(table))


def to_nothing(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def measure(spark: SparkSession, folder: Path, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each round, by plan and by what of it was run."""
    lines = read(spark, folder / "events")
    parsed = lines.select("file", variants.parsed(F.col("record")).alias("value"))
    by_schema = lines.select("file", F.from_json("record", EVENT).alias("value"))
    parts = {"read": lines, "parse": parsed, "parse by hand": by_schema}
    # Built once, as a streaming query builds it; each batch plans it again.
    whole = {name: plan(lines) for name, plan in PLANS.items()}
    parts |= {f"understand {name}": rows for name, rows in whole.items()}
    took: dict[str, list[float]] = {}
    for round_ in range(rounds + 1):
        for name, rows in whole.items():
            show_progress(f"round {round_}: {name}")
            table = folder / "bronze"
            bronze.create(str(table))
            found = timed_ms(lambda rows=rows, table=table: to_bronze(rows, table))
            shutil.rmtree(table)
            if round_:
                took.setdefault(name, []).append(found)
        for name, rows in parts.items():
            found = timed_ms(lambda rows=rows: to_nothing(rows))
            if round_:
                took.setdefault(name, []).append(found)
    return took


def show(took: dict[str, list[float]], events: int) -> None:
    print(f"\n{'into Bronze':<14}{'events/s':>10}{'of by hand':>12}")
    for name in PLANS:
        ratios = [other / mine for mine, other in zip(took[name], took[BY_HAND], strict=True)]
        rate = events / median(took[name]) * 1_000
        print(f"{name:<14}{rate:>10,.0f}{median(ratios):>12.2f}")
    read_ms = median(took["read"])
    print(f"\n{'µs an event':<14}{'read':>8}{'parse':>8}{'understand':>12}{'write':>8}{'all':>8}")
    for name in PLANS:
        parse = median(took["parse by hand" if name == BY_HAND else "parse"])
        understand, total = median(took[f"understand {name}"]), median(took[name])
        spent = (read_ms, parse - read_ms, understand - parse, total - understand, total)
        shown = [1_000 * one / events for one in spent]
        print(f"{name:<14}{shown[0]:>8.1f}{shown[1]:>8.1f}{shown[2]:>12.1f}{shown[3]:>8.1f}"
              f"{shown[4]:>8.1f}")  # fmt: skip


def history(spark: SparkSession, events: int) -> DataFrame:
    """Events of a fifth as many keys, in no order, with images of 200 characters."""
    number = F.col("id")
    return spark.range(0, events, 1, 8).select(
        (F.pmod(F.hash(number), F.lit(max(events // 5, 1)))).cast("string").alias("key"),
        versions.whole(number).alias("record_version"),
        (number % 10 == 0).alias("is_deleted"),
        F.repeat(F.md5(number.cast("string")), 6).alias("record"),
    )


def show_latest(spark: SparkSession, sizes: list[int]) -> None:
    print(f"\n{'latest of':>12}{'seconds':>9}{'events/s':>11}{'peak heap MB':>14}")
    to_nothing(gold.latest(history(spark, 10_000)))
    for events in sizes:
        _reset_peaks(spark)
        took_s = (
            timed_ms(lambda events=events: to_nothing(gold.latest(history(spark, events)))) / 1e3
        )
        print(f"{events:>12,}{took_s:>9.1f}{events / took_s:>11,.0f}{_peak_heap_mb(spark):>14,.0f}")


def _heap_pools(spark: SparkSession) -> list[Any]:
    factory = spark._jvm.java.lang.management.ManagementFactory  # type: ignore[union-attr]
    pools = factory.getMemoryPoolMXBeans()
    return [pool for pool in pools if pool.getType().name() == "HEAP"]


def _reset_peaks(spark: SparkSession) -> None:
    spark._jvm.System.gc()  # type: ignore[union-attr]
    for pool in _heap_pools(spark):
        pool.resetPeakUsage()


def _peak_heap_mb(spark: SparkSession) -> float:
    return sum(pool.getPeakUsage().getUsed() for pool in _heap_pools(spark)) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--rows", type=int, default=12_500, help="events a file")
    parser.add_argument("--rounds", type=int, default=5, help="besides the first")
    parser.add_argument("--latest", type=int, nargs="*", default=[100_000, 1_000_000, 5_000_000])
    told = parser.parse_args()
    events = told.files * told.rows
    print(f"{machine()}; {events:,} events of {EVENT_BYTES} bytes; {MEMORY} of driver memory")
    with scratch_folder() as folder:
        settings = SparkSettings(master="local[2]", driver_memory=MEMORY)
        spark = start_session(settings, name="bench", log_file=folder / "spark.log")
        write_events(folder / "events", told.files, told.rows)
        show(measure(spark, folder, told.rounds), events)
        show_latest(spark, told.latest)


if __name__ == "__main__":
    main()
