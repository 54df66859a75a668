"""The embedding inside Spark beside the model alone, and the pipeline beside the embedding alone.

- `stage`: texts of about 30, 100 and 200 tokens, made into data files of an index by Spark's tasks
  as in every batch (look up, cut, deal out, embed, write), beside the model run on the same texts
  in as many plain processes as there are cores;
- `pipeline`: 20,000 records of about 100 tokens, from change files to the committed index, beside
  the model alone on the same texts, once, after a small run that starts everything;
- `mixed`: texts of 10 to 2,000 tokens and one of 200,000 beside what their tokens would cost the
  model alone if they were spread evenly.

All run in one session, interleaved, in several rounds of which the first is left out. Ratios are of
rounds that ran side by side; the median of them is shown.
"""

import argparse
import json
import os
import random
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from embedding_texts import texts_of, words
from embedding_workers import MODEL, embed
from freshet import Pipeline
from freshet.embedding import IndexRows
from freshet.embedding.chunking import Chunking
from freshet.settings import SparkSettings, from_values
from freshet.sink.parts_executor import Sweep
from freshet.sink.prepare_executor import Preparation
from freshet.sink.preparing import Preparing
from freshet.spark import start_session
from freshet.stores.lance_tables import LanceTable
from measuring import machine, median, scratch_folder, show_progress, timed_ms

CORES = os.cpu_count() or 1
WINDOW = MODEL.describe().window_tokens
ROWS = IndexRows(MODEL, Chunking(WINDOW, 32))


def frame(spark: SparkSession, texts: Sequence[str], folder: Path) -> DataFrame:
    """The texts as records, in a file."""
    rows = [(f"k{at}", "1", text) for at, text in enumerate(texts)]
    made = spark.createDataFrame(rows, "key string, record_version string, text string")
    made.write.mode("overwrite").parquet(str(folder / "texts"))
    return spark.read.parquet(str(folder / "texts"))


def in_spark(records: DataFrame, folder: Path) -> Callable[[], object]:
    """Step 3 of the commit protocol, for an index that is empty: everything but the commit."""
    table = LanceTable.create(str(folder / "index.lance"), ROWS.schema, key="key")
    task = Preparation(
        uri=table.uri,
        version=table.version,
        tombstones_uri=f"{table.uri}_tombstones",
        key="key",
        record_version="record_version",
        deleted=None,
        builder=ROWS,
        at=datetime.now(UTC),
    )
    preparing, sweep = Preparing("key"), Sweep(table.uri, table.version, ROWS.schema)

    def prepare() -> None:
        prepared = preparing.run(records, task, sweep)
        assert prepared.counts.rows_in == prepared.counts.rows_upserted > 0

    return prepare


def alone(processes: ProcessPoolExecutor, texts: Sequence[str]) -> Callable[[], object]:
    parts = [list(texts[core::CORES]) for core in range(CORES)]
    return lambda: list(processes.map(embed, parts))


def side_by_side(
    rounds: int, ours: Callable[[], object], rival: Callable[[], object]
) -> tuple[list[float], list[float]]:
    """Milliseconds of both, the first round left out."""
    took: tuple[list[float], list[float]] = ([], [])
    for round_ in range(rounds + 1):
        show_progress(f"round {round_}")
        found = timed_ms(rival), timed_ms(ours)
        if round_:
            took[0].append(found[1])
            took[1].append(found[0])
    return took


def show_stage(
    spark: SparkSession, processes: ProcessPoolExecutor, folder: Path, rounds: int, scale: float
) -> None:
    chooser, source = random.Random(7), words()
    print(f"\n{'tokens':>8}{'texts':>8}{'model alone':>14}{'in Spark':>10}{'ratio':>8}   texts/s")
    for tokens, count in ((30, 8_000), (100, 4_000), (200, 2_000)):
        texts = texts_of(tokens, int(count * scale), chooser, source)
        ours, rival = side_by_side(
            rounds, in_spark(frame(spark, texts, folder), folder), alone(processes, texts)
        )
        ratios = [theirs / mine for mine, theirs in zip(ours, rival, strict=True)]
        rates = [1_000 * len(texts) / median(took) for took in (rival, ours)]
        print(f"{tokens:>8}{len(texts):>8,}{rates[0]:>14,.0f}{rates[1]:>10,.0f}"
              f"{median(ratios):>8.2f}")  # fmt: skip


def show_pipeline(
    spark: SparkSession, processes: ProcessPoolExecutor, folder: Path, rounds: int, records: int
) -> None:
    texts = texts_of(100, records, random.Random(8), words())
    shares, ours, rival = "", [], []
    for round_ in range(rounds + 1):
        show_progress(f"round {round_}")
        # What is left out only has to start everything once.
        some = texts if round_ else texts[: max(records // 20, 100)]
        home = folder / f"round{round_}"
        land(home / "landing", some)
        model_ms = timed_ms(alone(processes, some))
        started = time.perf_counter()
        shares = run_pipeline(spark, home)
        elapsed_ms = (time.perf_counter() - started) * 1_000
        shutil.rmtree(home)
        if round_:
            rival.append(model_ms)
            ours.append(elapsed_ms)
    ratios = [mine / theirs for mine, theirs in zip(ours, rival, strict=True)]
    print(f"\n{records:,} records of about 100 tokens, from files to the committed index: "
          f"{median(ours) / 1e3:.1f} s ({shares}); the model alone: {median(rival) / 1e3:.1f} s; "
          f"{median(ratios):.2f} x")  # fmt: skip


def run_pipeline(spark: SparkSession, home: Path) -> str:
    """Reads all files into Bronze and the index; tells where the index query's time went."""
    settings = from_values(
        {
            "pipeline": {"name": "docs", "home": str(home)},
            "landing": {"path": str(home / "landing"), "settle": "0 seconds"},
            "changes": {"envelope": "plain", "key": "id", "version": "version"},
            "gold": {"text": ["body"]},
        }
    )
    pipeline = Pipeline(settings, spark=spark)
    pipeline.run(once=True)
    batches = pipeline.ledger()
    sums = {name: sum(batch[name] for batch in batches) for name in ("embed_s", "total_s")}
    return (
        f"{len(batches)} batches, {sums['total_s']:.1f} s, of which {sums['embed_s']:.1f} s "
        "embedding"
    )


def land(folder: Path, texts: Sequence[str]) -> None:
    folder.mkdir(parents=True)
    for number in range(0, len(texts), 1_000):
        with (folder / f"{number:06d}.json").open("w") as stream:
            for at, text in enumerate(texts[number : number + 1_000], number):
                stream.write(json.dumps({"id": f"k{at}", "version": 1, "body": text}) + "\n")


def show_mixed(
    spark: SparkSession, processes: ProcessPoolExecutor, folder: Path, rounds: int, scale: float
) -> None:
    chooser, source = random.Random(9), words()
    lengths = [int(10 * 200 ** chooser.random()) for _ in range(int(800 * scale))]
    texts = [texts_of(length, 1, chooser, source)[0] for length in lengths]
    longest = int(200_000 * scale)
    texts += texts_of(longest, 1, chooser, source * 20)
    texts = [f"{at} {text}" for at, text in enumerate(texts)]
    pieces = sorted(ROWS.cut(texts).texts, key=len)
    ours, rival = side_by_side(
        rounds, in_spark(frame(spark, texts, folder), folder), alone(processes, pieces)
    )
    ratios = [mine / theirs for mine, theirs in zip(ours, rival, strict=True)]
    print(f"\n{len(texts):,} texts of 10 to 2,000 tokens and one of {longest:,}: "
          f"{median(ours) / 1e3:.1f} s; their {len(pieces):,} pieces spread evenly: "
          f"{median(rival) / 1e3:.1f} s; {median(ratios):.2f} x")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--parts", nargs="+", default=["stage", "pipeline", "mixed"])
    parser.add_argument("--rounds", type=int, default=3, help="besides the first")
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of texts")
    parser.add_argument("--records", type=int, default=20_000, help="of `pipeline`")
    told = parser.parse_args()
    print(f"{machine()}; {MODEL.describe().model_id}")
    with (
        scratch_folder() as folder,
        ProcessPoolExecutor(CORES, mp_context=get_context("spawn")) as processes,
    ):
        settings = SparkSettings(master=f"local[{CORES}]")
        spark = start_session(settings, name="bench", log_file=folder / "spark.log")
        if "stage" in told.parts:
            show_stage(spark, processes, folder, told.rounds, told.scale)
        if "pipeline" in told.parts:
            show_pipeline(spark, processes, folder, 1, told.records)
        if "mixed" in told.parts:
            show_mixed(spark, processes, folder, told.rounds, told.scale)


if __name__ == "__main__":
    main()
