"""A 1,000-row update batch into ever larger tables: Freshet's sink against LanceDB's own calls.

Both get the same rows with their vectors, in memory, in turn, on two copies of one table: 900
upserts, a tenth of them of new keys, and 100 deletes. No Spark and no model runs: the sink's own
code is called in this process, with every step of its commit protocol. The rival is `merge_insert`
and a `delete`: two commits that know nothing of versions, tombstones or a ledger. So beside the
whole sink stands the part of it that does what the rival does. Where two things happen at once,
the rows that leave being found while keys are buried, the time counts as that part's. At the end
both tables must hold the same keys in the same versions.

Medians are of batches as most are. Means contain the upkeep, too: every 16th batch the sink adds
new keys to the key's index, and every 32nd it folds small files of its side tables. The rival does
no upkeep.
"""

import argparse
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import lance
import lancedb
import numpy as np
import pyarrow as pa

from freshet.sink import Ledger, Step
from freshet.sink.columns import PlainRows
from freshet.sink.commit_protocol import CommitProtocol
from freshet.sink.parts_executor import PARTS, Part
from freshet.sink.prepare_executor import Preparation
from freshet.sink.prepared import Prepared
from freshet.sink.preparing import joined
from freshet.sink.stamps import Batch
from freshet.sink.target import Target
from freshet.sink.tombstones import Tombstones
from freshet.stores.lance_commits import Removal
from freshet.stores.lance_tables import LanceTable
from instant_rows import DIMENSION
from measuring import Stopwatch, machine, median, scratch_folder, show_progress, timed_ms
from sink_vs_merge_insert import ROWS, index_rows, key_of

UPSERTED, NEW, DELETED = 900, 90, 100
WARM_UP = 3
MOST_GROWTH = 2.5
LEAST_GAIN, GAIN_AT_ROWS = 3.0, 300_000
ROWS_AT_ONCE = 100_000

SAME_WORK = "look-up, write, remove, commit"
LINES = {
    "sink": "freshet sink, steps 1-7",
    "open": "  open the table, look for twins",
    "look_up": "  3 look up versions and tombstones, judge",
    "write": "  3 write data files",
    "bury": "  4 bury deleted keys",
    "removal": "    meanwhile: find the rows that leave",
    "commit": "  5 commit",
    "record": "  6 record in the ledger",
    "same_work": f"  of the sink: {SAME_WORK}",
    "rest": "  of the sink: tombstones, ledger, lease",
    "rival": "LanceDB merge_insert + delete",
    "merge": "  merge_insert",
    "delete": "  delete",
}
"""What is measured of each batch, in the order in which it is printed."""


class WatchedTable(LanceTable):
    """A table that notes how long it takes to find the rows that leave."""

    removal_ms = 0.0

    def removal(self, *which: Any) -> Removal | None:
        """As it is, and timed."""
        started = time.perf_counter()
        removal = super().removal(*which)
        self.removal_ms = (time.perf_counter() - started) * 1_000
        return removal


@dataclass
class Driver:
    """The sink without Spark: its protocol, and its task for a small batch called in place."""

    folder: Path
    watch: Stopwatch = field(default_factory=Stopwatch)

    def __post_init__(self) -> None:
        """As `LanceSink` puts it together."""
        self.uri = str(self.folder / "ours.lance")
        self.tombstones = Tombstones.beside(self.uri)
        self.table = self._opened()
        self.protocol = CommitProtocol(
            Target(self.uri, "bench", "index"),
            create_table=self._opened,
            ledger=Ledger(str(self.folder / "ledger")),
            tombstones=self.tombstones,
            clock=lambda: datetime.now(UTC),
            probe=self.watch,
        )

    def _opened(self) -> WatchedTable:
        self.table = WatchedTable.create(self.uri, ROWS.schema, key="key")
        return self.table

    def write(self, batch_id: int, events: pa.Table) -> dict[str, float]:
        """One batch; what it took, in ms."""
        batch = Batch("bench", "index", "query", batch_id)
        started = time.perf_counter()
        report = self.protocol.write(batch, lambda table, at: self._prepare(table, at, events))
        sink_ms = (time.perf_counter() - started) * 1_000
        assert report is not None
        return self._parts(sink_ms, report.write_s * 1_000)

    def _prepare(self, table: LanceTable, at: datetime, events: pa.Table) -> Prepared:
        preparation = Preparation(
            uri=table.uri,
            version=table.version,
            tombstones_uri=self.tombstones.uri,
            key="key",
            record_version="record_version",
            deleted="is_deleted",
            builder=PlainRows(ROWS.schema),
            at=at,
            is_alone=True,
        )
        made = preparation(iter(events.to_batches()))
        return joined(Part.all_of(pa.Table.from_batches(made, PARTS)))

    def _parts(self, sink_ms: float, write_ms: float) -> dict[str, float]:
        watch, removal_ms = self.watch, self.table.removal_ms
        opened = watch.between_ms((Step.SKIP, "after"), (Step.PREPARE, "before"))
        prepared, buried = watch.step_ms(Step.PREPARE), watch.step_ms(Step.BURY)
        committed, recorded = watch.step_ms(Step.COMMIT), watch.step_ms(Step.RECORD)
        same_work = opened + prepared + min(buried, removal_ms) + committed
        return {
            "sink": sink_ms,
            "open": opened,
            "look_up": prepared - write_ms,
            "write": write_ms,
            "bury": buried,
            "removal": removal_ms,
            "commit": committed,
            "record": recorded,
            "same_work": same_work,
            "rest": sink_ms - same_work,
        }


class Keys:
    """Which keys the tables hold, and what changes next; the same at every run."""

    def __init__(self, rows: int) -> None:
        self._alive = np.ones(rows, bool)
        self._random = np.random.default_rng(0)

    def next_change(self) -> tuple[list[int], list[int]]:
        """Keys to upsert and keys to delete."""
        known = np.flatnonzero(self._alive)
        chosen = self._random.choice(known, UPSERTED - NEW + DELETED, replace=False)
        fresh = np.arange(len(self._alive), len(self._alive) + NEW)
        self._alive = np.append(self._alive, np.ones(NEW, bool))
        self._alive[chosen[:DELETED]] = False
        return [*chosen[DELETED:].tolist(), *fresh.tolist()], chosen[:DELETED].tolist()

    @property
    def count(self) -> int:
        """How many there are."""
        return int(self._alive.sum())


def build(folder: Path, rows: int) -> None:
    """The table and its copy; data files never change, so the copy shares them."""
    uri = str(folder / "ours.lance")
    for start in range(0, rows, ROWS_AT_ONCE):
        show_progress(f"{rows:,} rows: writing row {start:,}")
        table = LanceTable.create(uri, ROWS.schema, key="key")
        data = index_rows(range(start, min(start + ROWS_AT_ONCE, rows)), 1, 1)
        table.commit(None, table.write_files(data.to_reader()), {})
    LanceTable.open(uri).index_new_keys("key")
    shutil.copytree(uri, folder / "theirs.lance", copy_function=_linked_or_copied)


def _linked_or_copied(source: str, target: str) -> None:
    copy: Callable[[str, str], object] = os.link if source.endswith(".lance") else shutil.copy2
    copy(source, target)


def theirs(rival: lancedb.table.Table, rows: pa.Table, gone: Sequence[str]) -> dict[str, float]:
    merge = rival.merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
    merge_ms = timed_ms(lambda: merge.execute(rows))
    among = ",".join(f"'{key}'" for key in gone)
    delete_ms = timed_ms(lambda: rival.delete(f"key IN ({among})"))
    return {"rival": merge_ms + delete_ms, "merge": merge_ms, "delete": delete_ms}


def measure(folder: Path, rows: int, batches: int) -> dict[str, list[float]]:
    """Milliseconds of each line, one entry a batch after the first few."""
    build(folder, rows)
    driver, keys = Driver(folder), Keys(rows)
    rival = lancedb.connect(folder).open_table("theirs")
    taken: dict[str, list[float]] = {name: [] for name in LINES}
    for batch in range(WARM_UP + batches):
        show_progress(f"{rows:,} rows: batch {batch + 1}")
        upserts, deletes = keys.next_change()
        changed = index_rows([*upserts, *deletes], batch + 2, batch + 2)
        is_deleted = pa.array([False] * len(upserts) + [True] * len(deletes))
        times = driver.write(batch, changed.append_column("is_deleted", is_deleted))
        gone = [key_of(number) for number in deletes]
        times |= theirs(rival, changed.slice(0, len(upserts)), gone)
        if batch >= WARM_UP:
            for name, value in times.items():
                taken[name].append(value)
    assert contents(folder / "ours.lance") == contents(folder / "theirs.lance")
    assert LanceTable.open(driver.uri).count() == keys.count
    return taken


def contents(uri: Path) -> pa.Table:
    found = lance.dataset(uri).to_table(columns=["key", "record_version", "section"])
    return found.sort_by("key")


def show(results: dict[int, dict[str, list[float]]], batches: int) -> None:
    _line("median ms of a batch into a table of", [f"{rows:,}" for rows in results])
    for name, label in LINES.items():
        _line(label, [f"{median(taken[name]):.1f}" for taken in results.values()])
    _line(f"mean of {batches} batches: freshet sink", _means(results, "sink"))
    _line(f"mean of {batches} batches: LanceDB", _means(results, "rival"))
    _line("LanceDB / sink", [f"{gain(taken, 'sink'):.2f}" for taken in results.values()])
    _line(
        f"LanceDB / {SAME_WORK}", [f"{gain(taken, 'same_work'):.2f}" for taken in results.values()]
    )
    show_targets(results)


def show_targets(results: dict[int, dict[str, list[float]]]) -> None:
    least, most = min(results), max(results)
    growth = median(results[most]["sink"]) / median(results[least]["sink"])
    print(
        f"growth of the sink from {least:,} to {most:,} rows: {growth:.2f} "
        f"(target: at most {MOST_GROWTH})"
    )
    if GAIN_AT_ROWS in results:
        whole, part = (gain(results[GAIN_AT_ROWS], name) for name in ("sink", "same_work"))
        print(
            f"LanceDB / sink at {GAIN_AT_ROWS:,} rows: {whole:.2f}, for the same work {part:.2f} "
            f"(target: at least {LEAST_GAIN})"
        )


def gain(taken: dict[str, list[float]], name: str) -> float:
    return median(taken["rival"]) / median(taken[name])


def _means(results: dict[int, dict[str, list[float]]], name: str) -> list[str]:
    return [f"{fmean(taken[name]):.1f}" for taken in results.values()]


def _line(label: str, values: Sequence[str]) -> None:
    print(f"{label:<44}" + "".join(f"{value:>11}" for value in values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--batches", type=int, default=32)
    options = parser.parse_args()
    print(machine())
    print(
        f"{UPSERTED} upserts ({NEW} of new keys) and {DELETED} deletes a batch, x {DIMENSION}; "
        f"{options.batches} batches after {WARM_UP}"
    )
    results = {}
    for rows in sorted(options.sizes):
        with scratch_folder() as folder:
            results[rows] = measure(folder, rows, options.batches)
    show_progress("")
    show(results, options.batches)


if __name__ == "__main__":
    main()
