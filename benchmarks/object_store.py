"""A whole pipeline with landing zone and home on S3: what does a batch cost, in requests and time?

Files of some rows land one after another, each when the one before can be searched; a tenth of the
rows are deletes. Requests are counted at the server, by kind and by table. Then nothing lands for a
while: what does a pipeline cost that has nothing to do? The model is the fake one, the optimizer is
off unless it is asked for: both would hide what is looked for.

    python benchmarks/object_store.py --batches 20 --delay-ms 30
    python benchmarks/object_store.py --batches 60 --optimizer       # does a batch get dearer?
    python benchmarks/object_store.py --trigger-s 15                 # fewer looks, fresher later
"""

import argparse
import json
import os
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

from freshet.pipeline import Pipeline
from freshet.settings import Settings, from_values
from freshet.sink import BatchReport
from measuring import machine, median, scratch_folder, show_progress
from reporting import line, write_csv
from s3_server import Server, s3_server

BUCKET = "bench"
HOME = "home"
ZONE = "in"
KEYS = 20_000
WARM_UP = 3
"""The first batches make the tables, take the lease and start Python workers."""
IDLE_TRIGGERS = 10
BATCH_S = 400
SOME = 10
KINDS = ("LIST", "GET", "HEAD", "PUT", "COPY", "DELETE")
TABLES = {
    f"{ZONE}/": "landing zone",
    f"{HOME}/files": "files",
    f"{HOME}/bronze/": "Bronze",
    f"{HOME}/ledger": "ledger, leases",
    f"{HOME}/index/docs_tombstones.lance/": "tombstones",
    f"{HOME}/index/": "index",
    f"{HOME}/checkpoints/": "checkpoints",
    f"{HOME}/locks/": "locks",
    f"{HOME}/optimizer": "optimizer, health",
    f"{HOME}/health": "optimizer, health",
    f"{HOME}/schema": "schema",
    f"{HOME}/vectors/": "cache of vectors",
}
Counts = Counter[tuple[str, str]]


@dataclass
class Batch:
    """What one batch cost, from its file's landing until it could be searched."""

    seconds: float
    report: BatchReport
    requests: Counts


@dataclass
class Feed:
    """Lands files one after another; `arrived` is told of every batch that can be searched."""

    server: Server
    options: argparse.Namespace
    batches: list[Batch] = field(default_factory=list)
    idle: Counts = field(default_factory=Counter)
    stop: Event = field(default_factory=Event)
    failure: BaseException | None = None
    _landed: Event = field(default_factory=Event)
    _last: BatchReport | None = None

    def arrived(self, report: BatchReport) -> None:
        """A batch has ended."""
        self._last = report
        self._landed.set()

    def run(self) -> None:
        """All batches, a while of nothing, and the end."""
        try:
            for number in range(WARM_UP + self.options.batches):
                show_progress(f"batch {number + 1} of {WARM_UP + self.options.batches}")
                taken = self._one(number)
                if number >= WARM_UP:
                    self.batches.append(taken)
            show_progress("nothing lands")
            time.sleep(2 * self.options.trigger_s)
            before = counted(self.server)
            time.sleep(IDLE_TRIGGERS * self.options.trigger_s)
            self.idle = counted(self.server) - before
        except BaseException as error:  # noqa: BLE001 - raised again by `measure`
            self.failure = error
        finally:
            self.stop.set()

    def _one(self, number: int) -> Batch:
        before, started = counted(self.server), time.perf_counter()
        self._landed.clear()
        rows = rows_of(number, self.options.batch_rows)
        data = "".join(json.dumps(row) + "\n" for row in rows)
        self.server.put(BUCKET, f"{ZONE}/{number:06d}.json", data.encode())
        before["PUT", "landing zone"] += 1  # its own, and none of the pipeline's
        if not self._landed.wait(BATCH_S) or self._last is None:
            raise TimeoutError(f"batch {number} never came")
        seconds = time.perf_counter() - started
        # What follows a batch belongs to it: its checkpoint, and the upkeep of small tables.
        time.sleep(self.options.trigger_s / 2)
        return Batch(seconds, self._last, counted(self.server) - before)


def rows_of(number: int, rows: int) -> Iterator[Mapping[str, Any]]:
    chooser = Random(number)
    for key in chooser.sample(range(KEYS), rows):
        text = f"record {key} of batch {number}, on {chooser.choice(('boats', 'cats', 'dogs'))}"
        yield {
            "id": f"key-{key}",
            "record_version": number,
            "is_deleted": key % 10 == 0,
            "title": text,
            "section": f"section {key % 7}",
        }


def counted(server: Server) -> Counts:
    """All requests so far, by kind and table."""
    counts: Counts = Counter()
    for asked in server.asked():
        place = next((name for at, name in TABLES.items() if asked.key.startswith(at)), "other")
        kind = "PUT" if asked.kind in {"PART", "UPLOAD"} else asked.kind
        counts[kind, place] += asked.number
    return counts


def settings_of(options: argparse.Namespace) -> Settings:
    return from_values(
        {
            "pipeline": {
                "name": "docs",
                "home": f"s3://{BUCKET}/{HOME}",
                "trigger": f"{options.trigger_s} seconds",
            },
            "landing": {"path": f"s3://{BUCKET}/{ZONE}"},
            "changes": {
                "envelope": "plain",
                "key": ["id"],
                "version": "record_version",
                "deleted": "is_deleted",
            },
            "gold": {"text": ["title"], "attributes": ["section"]},
            "embedding": {"provider": "fake"},
            "optimizer": {"in_run": options.optimizer, "cadence": "10 seconds"},
            "spark": {"conf": dict(one.split("=", 1) for one in options.conf)},
        }
    )


def measure(server: Server, options: argparse.Namespace) -> Feed:
    os.environ.update(server.access)
    server.make_bucket(BUCKET)
    server.put(BUCKET, f"{ZONE}/_nothing", b"")  # so that there is a folder to look at
    feed = Feed(server, options)
    feeding = Thread(target=feed.run, daemon=True)
    pipeline = Pipeline(settings_of(options), on_batch=feed.arrived)
    server.delay(options.delay_ms)
    feeding.start()
    pipeline.run(stop=feed.stop)
    feeding.join()
    if feed.failure is not None:
        raise feed.failure
    return feed


def show(feed: Feed) -> None:
    count, total = len(feed.batches), sum((batch.requests for batch in feed.batches), Counter())
    line("requests a batch", [*KINDS, "all"], width=20)
    places = [
        name
        for name in (*dict.fromkeys(TABLES.values()), "other")
        if any(at == name for _, at in total)
    ]
    for place in places:
        _row(place, [total[kind, place] / count for kind in KINDS])
    _row("all", [sum(total[kind, place] for place in places) / count for kind in KINDS])
    per_trigger = [
        sum(n for (one, _), n in feed.idle.items() if one == kind) / IDLE_TRIGGERS for kind in KINDS
    ]
    _row("nothing to do", per_trigger)
    reports = [batch.report for batch in feed.batches]
    landed_s = median([batch.seconds for batch in feed.batches])
    for label, some in (("first", feed.batches[:SOME]), ("last", feed.batches[-SOME:])):
        asked = sum(sum(batch.requests.values()) for batch in some) / len(some)
        took_s = median([batch.report.total_s for batch in some])
        print(f"{label} {len(some)} batches: {asked:.0f} requests, {took_s:.2f} s the index batch")
    print(
        f"median of {count} batches: {landed_s:.2f} s from landing to search, of it "
        f"{median([one.total_s for one in reports]):.2f} s the index batch, "
        f"{median([one.commit_s for one in reports]):.2f} s its commit"
    )


def _row(label: str, values: Sequence[float]) -> None:
    line(label, [f"{value:.1f}" for value in (*values, sum(values))], width=20)


def rows_of_csv(feed: Feed, options: argparse.Namespace) -> list[dict[str, Any]]:
    """One row a batch and table; `batch` is -1 for a trigger with nothing to do."""
    rows = []
    for number, batch in enumerate(feed.batches):
        for place in sorted({at for _, at in batch.requests}):
            counts = {kind: batch.requests[kind, place] for kind in KINDS}
            times = {"landed_to_search_s": batch.seconds, "batch_s": batch.report.total_s}
            rows.append(_csv_row(options, number, place, counts, times))
    for place in sorted({at for _, at in feed.idle}):
        counts = {kind: feed.idle[kind, place] / IDLE_TRIGGERS for kind in KINDS}
        nothing = {"landed_to_search_s": None, "batch_s": None}
        rows.append(_csv_row(options, -1, place, counts, nothing))
    return rows


def _csv_row(
    options: argparse.Namespace,
    number: int,
    place: str,
    counts: Mapping[str, float],
    times: Mapping[str, float | None],
) -> dict[str, Any]:
    return {"delay_ms": options.delay_ms, "batch": number, "table": place, **counts, **times}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--batch-rows", type=int, default=1_000)
    parser.add_argument("--delay-ms", type=float, default=30, help="before every answer")
    parser.add_argument("--trigger-s", type=int, default=2)
    parser.add_argument("--optimizer", action="store_true", help="let it work beside the run")
    parser.add_argument("--conf", action="append", default=[], help="of Spark: NAME=VALUE")
    parser.add_argument("--csv", type=Path, help="a row for each batch and table")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*fork.*")
    print(machine())
    print(
        f"{options.batch_rows:,} rows a batch, {options.delay_ms:g} ms before every answer, "
        f"a trigger every {options.trigger_s} s"
    )
    with scratch_folder() as folder, s3_server() as server:
        os.environ["TMPDIR"] = str(folder)
        feed = measure(server, options)
    show_progress("")
    show(feed)
    if options.csv:
        write_csv(options.csv, rows_of_csv(feed, options))


if __name__ == "__main__":
    main()
