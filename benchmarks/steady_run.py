"""Hours at a steady rate: what of memory, disk and tables grows, and what does not?

A real pipeline (`freshet run` with its optimizer, a process of its own) on local disk, without a
model, beside a feed that changes a fixed set of keys: so the index keeps its size, and whatever
grows, grows by age alone. Bronze keeps every event for ever, which is what it is for; it is told
apart from all else. Now and then everything is counted: memory of the processes (each page once),
bytes and files below every folder of the home, fragments and versions of the index, and how late
the newest change was found. At the end `freshet verify` must agree.

The verdict compares medians of the second and of the last fifth of the time.

    python benchmarks/steady_run.py --minutes 120            # as long as you have
"""

import argparse
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance

from freshet.testing import Driver
from live_index import bytes_below
from live_pipeline import (
    INSTANT,
    READY_S,
    Feed,
    Watch,
    command,
    into_folder,
    memory_of,
    running,
    settings_text,
)
from measuring import machine, median, scratch_folder, show_progress
from reporting import COLOURS, MIB, line, panels, save, verdict, write_csv

MOST_GROWTH = 1.3
FOLDERS = ("bronze", "index", "ledger", "files", "checkpoints", "optimizer", "health", "vectors")
COUNTED = ("checkpoints", "ledger", "files")
FLAT = (
    "memory_driver",
    "memory_java",
    "memory_workers",
    "bytes_index",
    "fragments",
    "versions",
    "manifest_bytes",
    "files_of_ledger",
    "files_of_files",
    "files_of_checkpoints",
    "delay_s",
)
"""What must not grow; Bronze and the rows of ledger and files table do, by design."""
LANDING = {"after_read": "delete", "retention": "1 minute", "settle": "0 seconds"}
"""Files that were read leave the landing zone, so that it keeps its size."""
Sample = dict[str, Any]


def sample_of(driver: Driver, watch: Watch, feed: Feed) -> Sample:
    """Everything, now."""
    home = driver.folder / "home"
    taken: Sample = {f"memory_{kind}": size for kind, size in memory_of(driver).items()}
    for name in FOLDERS:
        taken[f"bytes_{name}"] = bytes_below(home / name) if (home / name).exists() else 0
    for name in COUNTED:
        taken[f"files_of_{name}"] = sum(path.is_file() for path in (home / name).rglob("*"))
    dataset = lance.dataset(watch.uri)
    manifests = sorted((Path(watch.uri) / "_versions").glob("*.manifest"))
    taken["fragments"] = len(dataset.get_fragments())
    taken["versions"] = len(manifests)
    taken["manifest_bytes"] = manifests[0].stat().st_size if manifests else 0
    taken["rows"] = dataset.count_rows()
    taken["events"] = round(len(feed.landed_at) * feed.rows_per_s * feed.interval_s)
    delays = watch.delays(feed.landed_at)
    taken["delay_s"] = median([delays[file] for file in sorted(delays)[-10:]])
    return taken


def measure(folder: Path, options: argparse.Namespace) -> tuple[list[Sample], bool]:
    """All samples of one run, written as they are taken, and whether `verify` agrees."""
    feed = Feed(into_folder(folder / "landing"), options.rate, keys=options.keys)
    watch = Watch(str(folder / "home" / "index" / "docs.lance"), poll_s=0.1)
    upkeep = {"retention": options.retention}
    text = settings_text(INSTANT, options.trigger, optimizer=upkeep, landing=LANDING)
    samples: list[Sample] = []
    with running(folder, text) as driver, watch.running():
        feed.land(1_000)
        assert watch.wait_for(0, READY_S), (folder / "output.log").read_text()[-4_000:]
        started = time.monotonic()
        with feed.running():
            while (passed := time.monotonic() - started) < 60 * options.minutes:
                time.sleep(min(options.every, 60 * options.minutes - passed) + 0.01)
                if not driver.is_alive:
                    break
                at = time.monotonic() - started
                samples.append({"at_s": at} | sample_of(driver, watch, feed))
                write_csv(options.out / "samples.csv", samples)
                show_progress(f"{at / 60:.1f} minutes, {samples[-1]['events']:,} events")
        watch.wait_for(len(feed.landed_at) - 1, READY_S)
        show_progress("")
    verified = subprocess.run(command("verify"), cwd=folder, check=False)
    return samples, verified.returncode == 0


def show(samples: Sequence[Sample]) -> None:
    fifth = max(1, len(samples) // 5)
    early, late = samples[fifth : 2 * fifth] or samples[:1], samples[-fifth:]
    line("", ("second fifth", "last fifth", "ratio"))
    for name in samples[0]:
        before, after = (median([one[name] for one in part]) for part in (early, late))
        is_size = name.startswith(("bytes", "memory")) or name.endswith("bytes")
        told = [
            f"{value / MIB:,.1f} MiB" if is_size else f"{value:,.1f}" for value in (before, after)
        ]
        line(name, [*told, f"{after / before:.2f}" if before else ""])
    for name in FLAT:
        before, after = (median([one[name] for one in part]) for part in (early, late))
        if before:
            verdict(name, after / before, MOST_GROWTH)


def draw(samples: Sequence[Sample], path: Path) -> None:
    minutes = [one["at_s"] / 60 for one in samples]
    groups = {
        "memory, MiB": [name for name in samples[0] if name.startswith("memory_")],
        "disk without Bronze, MiB": [f"bytes_{name}" for name in FOLDERS if name != "bronze"],
        "fragments, versions, files": [
            "fragments",
            "versions",
            *(f"files_of_{name}" for name in COUNTED),
        ],
        "seconds to be found": ["delay_s"],
    }
    figure, axes = panels(*groups)
    for names, one in zip(groups.values(), axes, strict=True):
        for place, name in enumerate(names):
            scale = MIB if name.startswith(("bytes", "memory")) else 1
            values = [sample[name] / scale for sample in samples]
            one.plot(
                minutes,
                values,
                label=name,
                color=COLOURS[place % len(COLOURS)],
                linestyle="-" if place < len(COLOURS) else "--",
            )
        one.set(xlabel="minutes", ylim=(0, None))
        one.legend(fontsize=7)
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--rate", type=float, default=500.0, help="changes a second")
    parser.add_argument("--keys", type=int, default=50_000)
    parser.add_argument("--trigger", default="2 seconds")
    parser.add_argument("--retention", default="1 minute", help="of old versions")
    parser.add_argument("--every", type=float, default=20.0, help="seconds between two samples")
    parser.add_argument("--out", type=Path, default=Path("build/bench/steady_run"))
    options = parser.parse_args()
    print(machine())
    print(
        f"{options.rate:g} changes a second of {options.keys:,} keys, {options.minutes:g} minutes"
    )
    with scratch_folder() as folder:
        samples, is_verified = measure(folder, options)
    show(samples)
    draw(samples, options.out / "steady-run.png")
    assert is_verified, "the index does not equal its source"


if __name__ == "__main__":
    main()
