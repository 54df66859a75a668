"""A thousand small appends and no optimizer: how much dearer do the last ones get?

Two tables grow in turn, batch by batch, with the same rows, without Spark. One is written by
Freshet's own commit protocol in `append` mode: one commit that carries the stamp, and one row in
the ledger. The other is written by the protocol of lance-spark's pull request #399, rebuilt from
its description (`rival_protocols`): read the watermark, look through up to 100 versions for the
batch, append with two properties, open the table again and set the watermark in a second commit.
Both write one fragment a batch, look at the table through one shared cache, and land each batch
exactly once; a replay of the last batch shows that at the end. The rows are few and small on
purpose, so that what grows is what is seen.
"""

import argparse
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
from lance.fragment import write_fragments

from freshet.sink import Ledger, Step
from freshet.sink.commit_protocol import CommitProtocol
from freshet.sink.ledger import BatchReport
from freshet.sink.prepared import Prepared
from freshet.sink.stamps import Batch, Counts
from freshet.sink.target import Mode, Target
from freshet.sink.tombstones import Tombstones
from freshet.stores.lance_tables import LanceTable
from measuring import Stopwatch, machine, median, scratch_folder, show_progress
from rival_protocols import ScanningCommits

DIMENSION = 16
SCHEMA = pa.schema([("id", pa.int64()), ("vector", pa.list_(pa.float32(), DIMENSION))])
QUERY = "query"
MOST_GROWTH = 3.0


@dataclass
class Ours:
    """Freshet's sink in append mode, without Spark."""

    folder: Path
    schema: pa.Schema = SCHEMA
    watch: Stopwatch = field(default_factory=Stopwatch)

    def __post_init__(self) -> None:
        """As `LanceSink` puts it together."""
        self.uri = str(self.folder / "ours.lance")
        self.protocol = CommitProtocol(
            Target(self.uri, "bench", "rows", Mode.APPEND, None),
            create_table=lambda: LanceTable.create(self.uri, self.schema),
            ledger=Ledger(str(self.folder / "ledger")),
            tombstones=Tombstones(str(self.folder / "ours_tombstones.lance")),
            clock=lambda: datetime.now(UTC),
            probe=self.watch,
        )

    def land(self, batch_id: int, rows: pa.Table) -> BatchReport | None:
        """One batch through all steps; None if it had landed before."""

        def prepare(table: LanceTable, at: datetime) -> Prepared:
            counts = Counts(rows_in=rows.num_rows, rows_upserted=rows.num_rows)
            return Prepared(table.write_files(rows.to_reader()), counts=counts)

        return self.protocol.write(Batch("bench", "rows", QUERY, batch_id), prepare)

    def write(self, batch_id: int, rows: pa.Table) -> dict[str, float]:
        """One batch; what it took, in ms."""
        started = time.perf_counter()
        report = self.land(batch_id, rows)
        whole = time.perf_counter() - started
        if report is None:
            return {}
        return {
            "ours_whole": whole * 1_000,
            "ours_commit": report.commit_s * 1_000,
            "ours_ledger": self.watch.step_ms(Step.RECORD),
        }


@dataclass
class Theirs:
    """The protocol of lance-spark's pull request #399."""

    uri: str

    def __post_init__(self) -> None:
        """The table is there before the stream starts."""
        lance.write_dataset(SCHEMA.empty_table(), self.uri)
        self.commits = ScanningCommits(self.uri, QUERY, has_watermark=True)

    def write(self, epoch: int, rows: pa.Table) -> dict[str, float]:
        """One batch; what it took, in ms, with the time of its commit: everything but the files."""
        started = time.perf_counter()
        fragments = write_fragments(rows, self.commits.opened())
        taken = self.commits.commit(epoch, fragments)
        if not taken:
            return {}
        whole = (time.perf_counter() - started) * 1_000
        return {"theirs_whole": whole} | {f"theirs_{part}": ms for part, ms in taken.items()}


LINES = {
    "ours_whole": "freshet, whole batch",
    "ours_commit": "  commit (the ledger's commit_s)",
    "ours_ledger": "  ledger row",
    "theirs_whole": "#399's protocol, whole batch",
    "theirs_commit": "  commit, both of its transactions",
    "theirs_scan": "    look through 100 versions",
    "theirs_append": "    append",
    "theirs_watermark": "    watermark",
}


def rows_of(batch_id: int, count: int) -> pa.Table:
    ids = pa.array(np.arange(batch_id * count, (batch_id + 1) * count))
    values = np.random.default_rng(batch_id).random(count * DIMENSION, np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values), DIMENSION)
    return pa.Table.from_arrays([ids, vectors], schema=SCHEMA)


def measure(folder: Path, batches: int, batch_rows: int) -> dict[str, list[float]]:
    """Milliseconds of each line, one entry a batch."""
    ours, theirs = Ours(folder), Theirs(str(folder / "theirs.lance"))
    taken: dict[str, list[float]] = {name: [] for name in LINES}
    for batch in range(batches):
        show_progress(f"batch {batch + 1}")
        rows = rows_of(batch, batch_rows)
        for name, value in (ours.write(batch, rows) | theirs.write(batch, rows)).items():
            taken[name].append(value)
    last = batches - 1
    assert not ours.write(last, rows_of(last, batch_rows)), "a batch landed twice"
    assert not theirs.write(last, rows_of(last, batch_rows)), "a batch landed twice"
    for uri in (ours.uri, theirs.uri):
        assert lance.dataset(uri).count_rows() == batches * batch_rows
    return taken


def show(taken: dict[str, list[float]], window: int) -> None:
    print(f"{'median ms of a batch':<44}{f'first {window}':>12}{f'last {window}':>12}{'ratio':>8}")
    for name, label in LINES.items():
        first, last = median(taken[name][:window]), median(taken[name][-window:])
        print(f"{label:<44}{first:12.1f}{last:12.1f}{last / first:8.2f}")
    commit, whole, rival = (
        median(taken[name][-window:]) / median(taken[name][:window])
        for name in ("ours_commit", "ours_whole", "theirs_commit")
    )
    print(
        f"growth of the commit: {commit:.2f} (target: at most {MOST_GROWTH}), of the whole batch "
        f"{whole:.2f}; of #399's commit {rival:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batches", type=int, default=1_000)
    parser.add_argument("--batch-rows", type=int, default=200)
    parser.add_argument("--window", type=int, default=100)
    options = parser.parse_args()
    print(machine())
    print(f"{options.batches:,} batches of {options.batch_rows:,} rows x {DIMENSION}, no optimizer")
    with scratch_folder() as folder:
        taken = measure(folder, options.batches, options.batch_rows)
    show_progress("")
    show(taken, min(options.window, options.batches // 2))


if __name__ == "__main__":
    main()
