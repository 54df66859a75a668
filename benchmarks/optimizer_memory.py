"""How much memory the optimizer takes beside a stream of updates into an index of a million rows.

The index has been built before. Batches of 1,000 records, a tenth of them deletes, go through the
sink's commit protocol while the optimizer, a process of its own on the other core, is told by
`optimizer.memory` that one action may take 1 GB. Its memory is asked of the kernel, which keeps the
peak: for each action, and for what happens between them (looking, planning, probing recall), the
most that the process held above what it held when it was idle, right after its start.

What the builds took is told from the optimizer's records of when the table was made: there the peak
is the most that was seen above the start of the action, looked at every 20 ms.

    python benchmarks/optimizer_memory.py --tables /tmp/tables                        # as asked
    python benchmarks/optimizer_memory.py --scale 0.02 --minutes 0.5                  # a trial
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from freshet.clock import utc_now
from live_index import BATCH_ROWS, DIMENSION, copied, made_once, settings_of
from measuring import median, scratch_folder, show_progress
from optimizer_records import show_work, work_of
from optimizer_stream import OPTIMIZER_CORE, WRITER_CORE, write_stream
from reporting import COLOURS, MIB, headline, line, panels, save, verdict, write_csv
from side_processes import LOOKING, Peak, Side, keep_fast

ROWS = 1_000_000
MOST_GIB = 2.0


def show(peaks: Sequence[Peak]) -> None:
    line("memory above idle, MiB", ("times", "most rows", "median", "most"))
    for kind in sorted({peak.kind for peak in peaks}, key=lambda kind: (kind == LOOKING, kind)):
        own = [peak for peak in peaks if peak.kind == kind]
        sizes = [peak.bytes / MIB for peak in own]
        most_rows = max(peak.rows for peak in own)
        values = (f"{len(own):,}", f"{most_rows:,}", f"{median(sizes):,.0f}", f"{max(sizes):,.0f}")
        line(f"  {kind}", values)
    verdict("most of all, GiB", max(peak.bytes for peak in peaks) / (1 << 30), MOST_GIB)


def draw(peaks: Sequence[Peak], path: Path) -> None:
    figure, (one,) = panels("MiB above idle, action by action")
    for place, kind in enumerate(dict.fromkeys(peak.kind for peak in peaks)):
        own = [(at, peak.bytes / MIB) for at, peak in enumerate(peaks) if peak.kind == kind]
        one.scatter(*zip(*own, strict=True), color=COLOURS[place % len(COLOURS)], label=kind, s=8)
    one.set(xlabel="actions")
    one.legend(fontsize=8)
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of the table's size")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--rate", type=float, default=1.0, help="batches a second; 0: no pause")
    parser.add_argument("--memory", default="1 GB", help="what the optimizer is told")
    parser.add_argument("--cadence", default="3 seconds")
    parser.add_argument("--retention", default="30 seconds")
    parser.add_argument("--probe-interval", default="1 minute")
    parser.add_argument("--tables", type=Path, default=Path("build/bench/tables"))
    parser.add_argument("--out", type=Path, default=Path("build/bench/optimizer_memory"))
    options = parser.parse_args()
    rows, since = round(ROWS * options.scale), utc_now()
    print(headline(f"{rows:,} x {DIMENSION}, {options.rate:g} batches of {BATCH_ROWS} a second"))
    print(f"for {options.minutes:g} minutes; optimizer.memory = {options.memory}")
    names = ("memory", "cadence", "retention", "probe_interval")
    upkeep = {name: getattr(options, name) for name in names}
    start = made_once(options.tables, rows)
    with scratch_folder(options.tables) as folder:
        home = copied(start, folder / "home")
        show_progress("streaming")
        optimizer = Side(keep_fast, home, upkeep, core=OPTIMIZER_CORE)
        told = (home, rows, options.minutes, options.rate)
        samples = Side(write_stream, *told, core=WRITER_CORE).result()
        peaks = optimizer.stop()
        work, builds = work_of(settings_of(home), since), work_of(settings_of(start))
    show_progress("")
    write_csv(options.out / "peaks.csv", [asdict(peak) for peak in peaks])
    write_csv(options.out / "actions.csv", builds + work)
    print(f"{len(samples):,} batches, median {median([s['batch_ms'] for s in samples]):.0f} ms")
    show(peaks)
    show_work(work)
    if builds:
        print("when the table was made:")
        show_work(builds)
    draw(peaks, options.out / "peaks.png")


if __name__ == "__main__":
    main()
