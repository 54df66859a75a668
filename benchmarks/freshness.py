"""E7: how long after its file landed a change can be found, at some rates of change.

A real pipeline (`freshet run`, a process of its own with its own Spark), local disk, one file a
second, keys of a fixed set. Without a model (vectors that cost nothing, as wide as the default
model's) and with the default one. The delay of a file is from the rename that lands it to the first
look at the index that finds its last record; looks come every 20 ms.

A rate is held if the last third of the files is not found later than the first third. What is not
held is told with the share of the changes that came through in the time.

With `--s3-delay-ms` landing zone and home lie on an S3 server of this machine, which waits so long
before every answer; looks come every 250 ms then, since each of them is a request.

    python benchmarks/freshness.py                                     # 10 minutes
    python benchmarks/freshness.py --s3-delay-ms 30 --trigger 5 --models off
    python benchmarks/freshness.py --rates 1000 --models off --seconds 30
"""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from freshet.stores.s3_access import let_in
from live_pipeline import (
    INSTANT,
    MINILM,
    READY_S,
    Feed,
    Land,
    Watch,
    into_folder,
    running,
    settings_text,
)
from measuring import machine, median, scratch_folder, show_progress
from reporting import line, panels, save, write_csv
from s3_server import s3_server

BUCKET = "bench"
MODELS = {"off": INSTANT, "on": MINILM}
WARM_UP_FILES = 8
HELD_WITHIN = 1.5


@dataclass(frozen=True)
class Found:
    """What one rate gave."""

    model: str
    rows_per_s: int
    trigger_s: float
    files: int
    came_through: int
    p50_s: float
    p95_s: float
    p99_s: float
    is_held: bool


@dataclass(frozen=True)
class Where:
    """Where files land and tables lie, and the folder of settings and output."""

    folder: Path
    landing: str
    home: str
    land: Land
    poll_s: float = 0.02
    """Between two looks at the index."""


@contextmanager
def on_disk() -> Iterator[Where]:
    """All of it in one folder."""
    with scratch_folder() as folder:
        land = into_folder(folder / "landing")
        yield Where(folder, "./landing", str(folder / "home"), land)


@contextmanager
def on_s3(delay_ms: float) -> Iterator[Where]:
    """Files and tables in a bucket."""
    with scratch_folder() as folder, s3_server() as server:
        os.environ.update(server.access)
        server.make_bucket(BUCKET)
        server.delay(delay_ms)

        def land(name: str, text: str) -> None:
            server.put(BUCKET, f"in/{name}", text.encode())

        home = f"s3://{BUCKET}/home"
        let_in([home])
        yield Where(folder, f"s3://{BUCKET}/in", home, land, poll_s=0.25)


def measure(where: Where, model: str, rate: int, seconds: float, trigger_s: float) -> Found:
    """One pipeline at one rate; the first files, which load everything, are left out."""
    feed = Feed(where.land, rate)
    trigger = f"{round(trigger_s * 1_000)} milliseconds"
    text = settings_text(
        MODELS[model],
        trigger,
        pipeline={"home": where.home},
        landing={"path": where.landing, "settle": "0 seconds"},
    )
    watch = Watch(f"{where.home}/index/docs.lance", where.poll_s)
    with running(where.folder, text), watch.running():
        feed.land(10)
        assert watch.wait_for(0, READY_S), (where.folder / "output.log").read_text()[-4_000:]
        feed.land(rate)
        assert watch.wait_for(1, READY_S), "the first batch did not come through"
        with feed.running():
            watch.wait_for(10**9, seconds)
        watch.wait_for(len(feed.landed_at) - 1, max(10.0, 4 * trigger_s))
    return found_of(model, rate, trigger_s, feed, watch)


def found_of(model: str, rate: int, trigger_s: float, feed: Feed, watch: Watch) -> Found:
    delays = watch.delays(feed.landed_at)
    counted = [delays[file] for file in sorted(delays) if file >= WARM_UP_FILES]
    third = max(1, len(counted) // 3)
    is_all = len(delays) == len(feed.landed_at)
    grows = median(counted[-third:]) / median(counted[:third]) if counted else float("inf")
    p50, p95, p99 = (
        (float(np.percentile(counted, share)) if counted else float("nan"))
        for share in (50, 95, 99)
    )
    return Found(
        model,
        rate,
        trigger_s,
        len(feed.landed_at),
        len(delays),
        p50,
        p95,
        p99,
        is_all and grows < HELD_WITHIN,
    )


def show(found: list[Found]) -> None:
    line("model, rows/s", ("p50 s", "p95 s", "p99 s", "p50/trigger", "p95/trigger", "held"), 24)
    for one in found:
        held = "yes" if one.is_held else f"{one.came_through / one.files:.0%} through"
        times = [f"{value:.2f}" for value in (one.p50_s, one.p95_s, one.p99_s)]
        ratios = [f"{value / one.trigger_s:.2f}" for value in (one.p50_s, one.p95_s)]
        line(f"{one.model}, {one.rows_per_s:,}", [*times, *ratios, held], 24)


def draw(found: list[Found], path: Path) -> None:
    figure, axes = panels("seconds from landing to searchable")
    held = [one for one in found if one.is_held]
    labels = [f"{one.rows_per_s:,}/s\nmodel {one.model}" for one in held]
    for place, (name, values) in enumerate(
        (("p50", [one.p50_s for one in held]), ("p95", [one.p95_s for one in held]))
    ):
        axes[0].bar([at + 0.4 * place for at in range(len(held))], values, 0.4, label=name)
    axes[0].set_xticks([at + 0.2 for at in range(len(held))], labels, fontsize=8)
    axes[0].legend()
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rates", type=int, nargs="+", default=[100, 1_000, 5_000])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--seconds", type=float, default=60.0, help="of each rate")
    parser.add_argument("--trigger", type=float, default=1.0, help="seconds")
    parser.add_argument("--s3-delay-ms", type=float, help="on S3, with such a delay")
    parser.add_argument("--out", type=Path, default=Path("build/bench/freshness"))
    options = parser.parse_args()
    print(machine())
    if options.s3_delay_ms is not None:
        print(f"on S3 of this machine, {options.s3_delay_ms:g} ms before every answer")
    found = []
    for model in options.models:
        for rate in options.rates:
            show_progress(f"model {model}, {rate:,} rows a second")
            there = on_disk() if options.s3_delay_ms is None else on_s3(options.s3_delay_ms)
            with there as where:
                one = measure(where, model, rate, options.seconds, options.trigger)
            found.append(one)
    show_progress("")
    show(found)
    write_csv(options.out / "freshness.csv", [asdict(one) for one in found])
    draw(found, options.out / "freshness.png")


if __name__ == "__main__":
    main()
