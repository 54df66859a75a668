"""How long searches take while an index is written and tidied up, beside the same index at rest.

The searcher has a core of its own; the writer and whoever tidies up share the other. Batches of
1,000 records, a tenth of them deletes, come at a rate. Questions are vectors like those of the
index; every one opens the newest version and asks for ten records. Two ways to use the same start:

- Freshet: batches by the sink's commit protocol, the optimizer in a process of its own, questions
  by its `Searcher`;
- LanceDB used plainly: `merge_insert` and `delete`, `table.optimize()` after every 20 batches in
  the writer's process, questions by `table.search`, with the same knobs.

Both are asked four times: as built; at rest, after 40 batches; while they are written; and at rest
again. In the second and the last all rows are indexed, and nobody writes: that is the quiet table.
A table as it was built is faster than any that has lived, whoever writes it: with the first deleted
row Lance begins to look every row of a partition up in a list of those that are left. Recall is
measured in the same run: now and then the index is compared with an exact search of the same
version, between two questions and not timed.

    python benchmarks/optimizer_latency.py --tables /tmp/tables                       # as asked
    python benchmarks/optimizer_latency.py --scale 0.2 --minutes 0.5                  # a trial
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow.compute as pc

from freshet.clock import utc_now
from freshet.pipeline.optimizing import Optimizing
from freshet.search import Searcher
from freshet.search.probe import distances, share_found
from freshet.settings import Settings
from freshet.stores.lance_search import Knobs, SearchableTable
from freshet.stores.lance_tables import ROW_ID
from live_index import (
    BATCH_ROWS,
    DIMENSION,
    MODEL,
    Changes,
    Rows,
    Sizes,
    Writer,
    copied,
    made_once,
    settings_of,
)
from measuring import median, scratch_folder, show_progress
from optimizer_records import show_work, work_of
from reporting import COLOURS, headline, line, panels, save, verdict, write_csv
from side_processes import Side, keep_fast, log_beside

ROWS, K = 100_000, 10
ASKED = ["key", "chunk", "text", "_distance"]
OURS, THEIRS = "freshet", "LanceDB"
NEW, QUIET, BUSY, AFTER = "as built", "at rest", "while written", "at rest again"
PHASES = (NEW, QUIET, BUSY, AFTER)
SEARCH_CORE, WORK_CORE = 0, 1
WARM_UP, CHECK_EVERY_S = 200, 2.0
OPTIMIZE_EVERY, LIVED_BATCHES = 20, 40
MOST_SLOWER, LEAST_RECALL = 1.5, 0.95

Ask = Callable[[Any], object]
Answer = dict[str, Any]


# --- questions -----------------------------------------------------------------------------------


def asks_ours(settings: Settings, knobs: Knobs) -> Ask:
    asked: list[Any] = []
    searcher = Searcher(
        settings.home.index,
        model_id=MODEL,
        embed=lambda _: asked[-1],
        attributes=(),
        metric=settings.index.metric,
        knobs=knobs,
    )

    def ask(vector: Any) -> object:
        asked[:] = [vector]
        return searcher.search("", k=K)

    return ask


def asks_theirs(settings: Settings, knobs: Knobs) -> Ask:
    database = lancedb.connect(settings.home.index_folder, read_consistency_interval=timedelta(0))
    table = database.open_table(settings.home.name)

    def ask(vector: Any) -> object:
        told = knobs.for_rows(2 * K, of=ROWS)
        query = table.search(vector).distance_type(settings.index.metric).nprobes(told["nprobes"])
        query = query.ef(told["ef"]).limit(K).select(ASKED)
        return query.to_list()

    return ask


def recall_of(uri: str, metric: str, vector: Any, knobs: Knobs) -> float:
    """The share of the ten nearest that the index of one version finds."""
    table = SearchableTable.open(uri)
    found = table.nearest(vector, rows=2 * K, metric=metric, knobs=knobs)
    row_ids = found.column(ROW_ID).to_pylist()[:K]
    exact = table.exact_distances(vector[None], k=K, metric=metric)[0]
    return share_found(distances(vector, table.vectors_of(row_ids), metric), exact)


@dataclass(frozen=True)
class Search:
    """What one phase of one side asks."""

    home: Path
    side: str
    phase: str
    seconds: float
    knobs: Knobs

    def __call__(self, _stop: Event) -> list[Answer]:
        """Asks without a pause until the time is over."""
        log_beside(self.home, "searcher")
        settings, questions = settings_of(self.home), Rows(seed=7).vectors(4_096)
        ask = {OURS: asks_ours, THEIRS: asks_theirs}[self.side](settings, self.knobs)
        for vector in questions[:WARM_UP]:
            ask(vector)
        found: list[Answer] = []
        started, checked_at = time.perf_counter(), float("-inf")
        while (at := time.perf_counter() - started) < self.seconds:
            vector = questions[len(found) % len(questions)]
            begun, worked = time.perf_counter(), time.process_time()
            ask(vector)
            ms = (time.perf_counter() - begun) * 1_000
            answer = {"side": self.side, "phase": self.phase, "at_s": at, "ms": ms}
            answer["cpu_ms"] = (time.process_time() - worked) * 1_000
            if time.perf_counter() - checked_at > CHECK_EVERY_S:
                answer |= self._checked(settings, vector)
                checked_at = time.perf_counter()
            found.append(answer)
        return found

    def _checked(self, settings: Settings, vector: Any) -> Answer:
        uri, metric = settings.home.index, settings.index.metric
        sizes = Sizes.of(uri)
        return {
            "recall": recall_of(uri, metric, vector, self.knobs),
            "unindexed_rows": sizes.unindexed_rows,
            "index_parts": sizes.index_parts,
        }


# --- writing -------------------------------------------------------------------------------------


def live(_stop: Event, home: Path, side: str, rows: int) -> None:
    """Makes a table that was only built one that has lived, as fast as that goes."""
    log_beside(home, "writer")
    settings, changes = settings_of(home, retention="30 seconds"), Changes(rows)
    writes = {OURS: writes_ours, THEIRS: writes_theirs}[side](settings)
    for batch in range(LIVED_BATCHES):
        writes(batch, changes.next())
        if side == OURS:
            assert not Optimizing(settings).run().is_failed


def write(stop: Event, home: Path, side: str, rows: int, rate: float) -> int:
    """Goes on writing batches until it is told to stop; how many."""
    log_beside(home, "writer")
    settings, changes, batches = settings_of(home), Changes(rows), 0
    for _ in range(LIVED_BATCHES):
        changes.next()
    writes = {OURS: writes_ours, THEIRS: writes_theirs}[side](settings)
    started = time.perf_counter()
    while not stop.wait(max(0.0, started + batches / rate - time.perf_counter())):
        writes(LIVED_BATCHES + batches, changes.next())
        batches += 1
    changes.check(settings.home.index)
    return batches


def writes_ours(settings: Settings) -> Callable[[int, Any], None]:
    return Writer(settings).write


def writes_theirs(settings: Settings) -> Callable[[int, Any], None]:
    table = lancedb.connect(settings.home.index_folder).open_table(settings.home.name)

    def write(batch: int, events: Any) -> None:
        merge = table.merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
        is_deleted = events.column("is_deleted")
        merge.execute(events.filter(pc.invert(is_deleted)).drop_columns(["is_deleted"]))
        gone = events.filter(is_deleted).column("key").to_pylist()
        table.delete(f"key IN ({','.join(repr(key) for key in gone)})")
        if batch % OPTIMIZE_EVERY == OPTIMIZE_EVERY - 1:
            table.optimize()

    return write


def finish(_stop: Event, home: Path, side: str) -> None:
    """Leaves no row without index."""
    settings = settings_of(home, unindexed_rows=1)
    if side == OURS:
        assert not Optimizing(settings).run().is_failed
    else:
        lancedb.connect(settings.home.index_folder).open_table(settings.home.name).optimize()


def measure(
    home: Path, side: str, rows: int, options: argparse.Namespace
) -> tuple[list[Answer], int]:
    """All phases of one side; how many batches were written."""
    knobs, seconds = Knobs(options.nprobes, options.ef, options.refine), 60 * options.minutes

    def search(phase: str) -> list[Answer]:
        show_progress(f"{side} {phase}")
        return Side(Search(home, side, phase, seconds, knobs), core=SEARCH_CORE).result()

    found = search(NEW)
    show_progress(f"{side}: {LIVED_BATCHES} batches")
    Side(live, home, side, rows).result()
    Side(finish, home, side).result()
    found += search(QUIET)
    workers = [Side(write, home, side, rows, options.rate, core=WORK_CORE)]
    if side == OURS:
        upkeep = {"cadence": options.cadence, "retention": options.retention}
        workers.append(Side(keep_fast, home, upkeep, core=WORK_CORE))
    found += search(BUSY)
    batches, *_ = [worker.stop() for worker in workers]
    Side(finish, home, side).result()
    return found + search(AFTER), batches


# --- what came of it -----------------------------------------------------------------------------


def show(found: Sequence[Answer], batches: dict[str, int]) -> None:
    columns = (
        "questions",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "CPU ms",
        "recall@10",
        "unindexed",
        "parts",
    )
    line("", columns, 28)
    p99 = {}
    for side in batches:
        for phase in PHASES:
            own = [one for one in found if (one["side"], one["phase"]) == (side, phase)]
            times = [np.percentile([one["ms"] for one in own], share) for share in (50, 95, 99)]
            p99[side, phase] = times[-1]
            checked = [one for one in own if "recall" in one]
            recall, unindexed, parts = (
                [one[name] for one in checked]
                for name in ("recall", "unindexed_rows", "index_parts")
            )
            worked = median([one["cpu_ms"] for one in own])
            values = [f"{len(own):,}", *(f"{one:.2f}" for one in (*times, worked))]
            values += [
                f"{np.mean(recall):.3f}",
                f"{median(unindexed):,.0f}",
                f"{median(parts):.0f}",
            ]
            line(f"{side} {phase}", values, 28)
    for side, count in batches.items():
        recall = [one["recall"] for one in found if one["side"] == side and "recall" in one]
        print(f"{side}: {count} batches; recall {np.mean(recall):.3f} (asked: {LEAST_RECALL})")
        for rest in (QUIET, AFTER):
            slower = p99[side, BUSY] / p99[side, rest]
            verdict(f"{side}: p99 {BUSY} / p99 {rest}", slower, MOST_SLOWER)
        print(f"{side}: p99 {BUSY} / p99 {NEW}: {p99[side, BUSY] / p99[side, NEW]:.2f}")


def draw(found: Sequence[Answer], path: Path) -> None:
    sides = list(dict.fromkeys(one["side"] for one in found))
    figure, axes = panels(*(f"{side}: ms of a question" for side in sides))
    for side, one in zip(sides, axes, strict=True):
        for place, phase in enumerate(PHASES):
            own = [o for o in found if (o["side"], o["phase"]) == (side, phase)]
            told = {"color": COLOURS[place], "label": phase, "s": 1, "rasterized": True}
            one.scatter([o["at_s"] for o in own], [o["ms"] for o in own], **told)
        one.set(xlabel="seconds", yscale="log")
        one.legend(fontsize=8)
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of the table's size")
    parser.add_argument("--minutes", type=float, default=2.0, help="of each of the eight phases")
    parser.add_argument("--rate", type=float, default=0.2, help="batches a second")
    parser.add_argument("--nprobes", type=int, default=Knobs().nprobes)
    parser.add_argument("--ef", type=int, default=None)
    parser.add_argument("--refine", type=int, default=Knobs().refine)
    parser.add_argument("--cadence", default="3 seconds")
    parser.add_argument("--retention", default="30 seconds")
    parser.add_argument("--sides", nargs="+", default=[OURS, THEIRS])
    parser.add_argument("--tables", type=Path, default=Path("build/bench/tables"))
    parser.add_argument("--out", type=Path, default=Path("build/bench/optimizer_latency"))
    options = parser.parse_args()
    rows, since = round(ROWS * options.scale), utc_now()
    print(headline(f"{rows:,} x {DIMENSION}, {options.rate:g} batches of {BATCH_ROWS} a second"))
    told = {name: getattr(options, name) for name in ("nprobes", "ef", "refine")}
    print(", ".join(f"{name} {'by default' if n is None else n}" for name, n in told.items()))
    found, batches, work = list[Answer](), dict[str, int](), []
    with scratch_folder(options.tables) as folder:
        for side in options.sides:
            home = copied(made_once(options.tables, rows), folder / side)
            answers, batches[side] = measure(home, side, rows, options)
            found += answers
            work += work_of(settings_of(home), since)
    show_progress("")
    unknown = dict.fromkeys(("recall", "unindexed_rows", "index_parts"))
    write_csv(options.out / "questions.csv", [unknown | one for one in found])
    show(found, batches)
    show_work(work)
    draw(found, options.out / "questions.png")


if __name__ == "__main__":
    main()
