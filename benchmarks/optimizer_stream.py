"""A stream of updates for minutes, with the optimizer and without: does anything grow?

Batches of 1,000 records, a tenth of them deletes, of random keys, go through the sink's commit
protocol with its ledger into an index of 100,000 rows that has all its indexes. The writer has one
core, and the optimizer, a process of its own, has the other. The same stream runs once more without
it. Batches come at a rate, as from a trigger; one that takes longer delays the next. At the end the
table must hold exactly what was written.

Fifths of the run are compared by their medians: at first files of the start are still around.

    python benchmarks/optimizer_stream.py --tables /tmp/tables                        # as asked
    python benchmarks/optimizer_stream.py --scale 0.2 --minutes 0.5                   # a trial
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from freshet.clock import utc_now
from live_index import (
    BATCH_ROWS,
    DIMENSION,
    Changes,
    Sizes,
    Writer,
    bytes_below,
    copied,
    made_once,
    settings_of,
)
from measuring import median, scratch_folder, show_progress
from optimizer_records import show_work, work_of
from reporting import COLOURS, MIB, headline, line, panels, save, verdict, write_csv
from side_processes import Side, keep_fast, log_beside

ROWS = 100_000
WITH, WITHOUT = "with", "without"
WRITER_CORE, OPTIMIZER_CORE = 0, 1
FIFTHS = 5
MOST_GROWTH = 1.3
SHAPE_EVERY_S = 1.0
SHOWN = {
    "batch_ms": ("batch, ms", 1),
    "fragments": ("fragments", 1),
    "versions": ("versions", 1),
    "bytes": ("table, MiB", MIB),
    "home_bytes": ("all tables of the home, MiB", MIB),
    "manifest_bytes": ("newest manifest, KiB", 1_024),
    "unindexed_rows": ("rows without vector index", 1),
    "index_parts": ("parts of the vector index", 1),
}
JUDGED = ("batch_ms", "fragments", "versions", "bytes", "home_bytes")

Sample = dict[str, Any]


def write_stream(stop: Event, home: Path, rows: int, minutes: float, rate: float) -> list[Sample]:
    """Writes batches until the time is over or it is told to stop; one sample a batch."""
    log_beside(home, "writer")
    settings = settings_of(home)
    writer, changes, samples = Writer(settings), Changes(rows), list[Sample]()
    sizes, looked_at = dict[str, int](), float("-inf")
    started = time.perf_counter()
    while (at := time.perf_counter() - started) < 60 * minutes and not stop.is_set():
        batch, events = len(samples), changes.next()
        begun = time.perf_counter()
        writer.write(batch, events)
        batch_ms = (time.perf_counter() - begun) * 1_000
        if time.perf_counter() - looked_at > SHAPE_EVERY_S:
            sizes, looked_at = _sizes(writer.uri, home), time.perf_counter()
        samples.append({"batch": batch, "at_s": at, "batch_ms": batch_ms} | sizes)
        if rate:
            time.sleep(max(0.0, started + len(samples) / rate - time.perf_counter()))
    changes.check(writer.uri)
    return samples


def _sizes(uri: str, home: Path) -> dict[str, int]:
    return asdict(Sizes.of(uri)) | {"home_bytes": bytes_below(home)}


def run(start: Path, home: Path, rows: int, options: argparse.Namespace, side: str) -> list[Sample]:
    copied(start, home)
    upkeep = {"cadence": options.cadence, "retention": options.retention}
    told = (home, rows, options.minutes, options.rate)
    optimizer = Side(keep_fast, home, upkeep, core=OPTIMIZER_CORE) if side == WITH else None
    samples = Side(write_stream, *told, core=WRITER_CORE).result()
    if optimizer is not None:
        optimizer.stop()
    return [{"side": side} | sample for sample in samples]


def by_fifths(samples: Sequence[Sample], name: str) -> list[float]:
    end = samples[-1]["at_s"]
    fifths: list[list[float]] = [[] for _ in range(FIFTHS)]
    for sample in samples:
        fifths[min(int(sample["at_s"] / end * FIFTHS), FIFTHS - 1)].append(sample[name])
    return [median(values) for values in fifths]


def show(samples: Sequence[Sample]) -> None:
    for side in dict.fromkeys(sample["side"] for sample in samples):
        own = [sample for sample in samples if sample["side"] == side]
        print(f"\n{side} the optimizer: {len(own):,} batches in {own[-1]['at_s']:.0f} s")
        line("medians of fifths of the time", [*map(str, range(1, FIFTHS + 1)), "5th / 2nd"])
        for name, (label, unit) in SHOWN.items():
            fifths = by_fifths(own, name)
            growth = fifths[-1] / fifths[1] if fifths[1] else float("nan")
            line(f"  {label}", [*(f"{value / unit:,.1f}" for value in fifths), f"{growth:.2f}"])
    print()
    own = [sample for sample in samples if sample["side"] == WITH]
    for name in JUDGED if own else ():
        fifths = by_fifths(own, name)
        verdict(f"{SHOWN[name][0]}, last fifth / second", fifths[-1] / fifths[1], MOST_GROWTH)


def draw(samples: Sequence[Sample], path: Path) -> None:
    names = ("batch_ms", "fragments", "versions", "bytes")
    figure, axes = panels(*(SHOWN[name][0] for name in names))
    for place, side in enumerate(dict.fromkeys(sample["side"] for sample in samples)):
        own = [sample for sample in samples if sample["side"] == side]
        at = [sample["at_s"] / 60 for sample in own]
        for name, one in zip(names, axes, strict=True):
            values = [sample[name] / SHOWN[name][1] for sample in own]
            one.plot(at, values, color=COLOURS[place], label=side, lw=0.7)
            one.set(xlabel="minutes", yscale="log")
    axes[0].legend(fontsize=8)
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of the table's size")
    parser.add_argument("--minutes", type=float, default=15.0, help="of each of the two runs")
    parser.add_argument("--rate", type=float, default=0.5, help="batches a second; 0: no pause")
    parser.add_argument("--sides", nargs="+", choices=(WITH, WITHOUT), default=[WITH, WITHOUT])
    parser.add_argument("--cadence", default="3 seconds")
    parser.add_argument("--retention", default="30 seconds")
    parser.add_argument("--tables", type=Path, default=Path("build/bench/tables"))
    parser.add_argument("--out", type=Path, default=Path("build/bench/optimizer_stream"))
    options = parser.parse_args()
    rows = round(ROWS * options.scale)
    print(headline(f"{BATCH_ROWS} records a batch, {options.rate:g} batches a second, into"))
    print(f"{rows:,} x {DIMENSION}, for {options.minutes:g} minutes; the optimizer looks every "
          f"{options.cadence}, and versions are kept for {options.retention}")  # fmt: skip
    start = made_once(options.tables, rows)
    samples, since = list[Sample](), utc_now()
    with scratch_folder(options.tables) as folder:
        for side in options.sides:
            show_progress(side)
            samples += run(start, folder / side, rows, options, side)
        work = work_of(settings_of(folder / options.sides[0]), since)
    show_progress("")
    write_csv(options.out / "batches.csv", samples)
    write_csv(options.out / "actions.csv", work)
    show(samples)
    show_work(work)
    draw(samples, options.out / "batches.png")


if __name__ == "__main__":
    main()
