"""E3: what it costs, after a crash, to find out whether the last batch has landed.

Two tables grow by commits of one row, without Spark. One is looked through as #399 and #564 do it,
for a batch that is not there: the newest version is opened, then each of the last L ones. The other
is written by Freshet's own commit protocol, with its ledger; a crash between the commit and the
ledger's row is made, and the batch is run again by a new driver: the time is all that this driver
does, with its lease, up to the missing row. Every trial begins with empty caches of Lance, as a new
process does.

A look-back depends on the versions; opening one version depends on the fragments that it lists, of
which these tables have one a commit. `recover-compacted` is of a copy whose fragments were folded,
as an optimizer does it, and whose versions are all there: so it tells the two apart.

Our table grows by a hundred batches a second. A ledger keeps what its log was in the last two
minutes, which no trigger fills so fast; so the log's files get the times that they would have with
a batch a second, and the ledger's own upkeep then does what it always does.
"""

import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import lance
import pyarrow as pa

from append_growth import Ours
from field_rivals import FRESHET, PULL_399, SCHEMA
from field_samples import Sample
from field_sizes import Size
from field_turns import Measured, Tell
from freshet.sink import Step
from freshet.sink.ledger import RECOVERED
from freshet.stores import lance_tables
from measuring import Stopwatch
from rival_protocols import ScanningCommits

NO_EPOCH = 1 << 60
"""Of a batch that no version is of."""
UPKEEP_EVERY = 64
"""Of so many commits of a ledger, one at least removes what is old in its log."""
TRIGGER_S = 1.0


class Crash(BaseException):
    """What a kill looks like from inside: nobody catches it, and nothing is put on record."""


class Crashing(Stopwatch):
    """A probe that ends a batch after its commit, before its row in the ledger."""

    def __call__(self, step: Step, when: str, batch_id: int) -> None:
        """Told before and after each step."""
        if (step, when) == (Step.RECORD, "before"):
            raise Crash


def recovery(folder: Path, size: Size, tell: Tell) -> Measured:
    """E3."""
    measured = Measured()
    theirs, ours = str(folder / "theirs.lance"), folder / "ours"
    ours.mkdir()
    lance.write_dataset(SCHEMA.empty_table(), theirs)
    for versions in size.versions:
        tell(f"E3, {versions:,} versions: looking back")
        _grow(theirs, versions)
        measured.samples += _look_backs(theirs, versions, size)
        tell(f"E3, {versions:,} versions: recovering")
        batch = _grow_ours(ours, versions)
        tables = {"recover": ours, "recover-compacted": _compacted(ours)}
        for run, place in tables.items():
            for trial in range(size.trials):
                measured.samples += _recovered(run, place, batch + trial, trial, versions)
        shutil.rmtree(tables["recover-compacted"])
    return measured


def row_of(number: int) -> pa.Table:
    return pa.table({"id": [number], "value": [str(number)]}, schema=SCHEMA)


def _sample(run_label: str, took_ms: float, *, visited: int, version: int) -> Sample:
    now_ms = round(1_000 * time.time())
    return Sample("E3", run_label, visited, now_ms, 0, round(took_ms), lance_version=version)


# --- theirs --------------------------------------------------------------------------------------


def _grow(uri: str, versions: int) -> None:
    table = lance.dataset(uri)
    while table.version < versions:
        table = lance.write_dataset(row_of(table.version), table, mode="append")


def _look_backs(uri: str, versions: int, size: Size) -> list[Sample]:
    found = []
    for look_back in size.look_backs:
        for trial in range(size.trials):
            commits = ScanningCommits(uri, "none", has_watermark=True)
            started = time.perf_counter()
            newest = commits.opened().version
            is_there, visited = commits.look_back(NO_EPOCH, newest, look_back)
            took_ms = (time.perf_counter() - started) * 1_000
            assert not is_there
            assert newest == versions
            run_label = f"lookback={look_back};trial={trial};rival={PULL_399}"
            found.append(_sample(run_label, took_ms, visited=visited, version=newest))
    return found


# --- ours ----------------------------------------------------------------------------------------


def _version(folder: Path) -> int:
    uri = Ours(folder, SCHEMA).uri
    return lance_tables.LanceTable.open(uri).version if Path(uri).exists() else 0


def _grow_ours(folder: Path, versions: int) -> int:
    """Batch by batch, each of one row; the number of the next batch."""
    ours, version = Ours(folder, SCHEMA), _version(folder)
    batch = max(version - 1, 0)  # the first version is the empty table
    while version < versions:
        if versions - version == UPKEEP_EVERY:
            _age(folder / "ledger" / "_delta_log")
        report = ours.land(batch, row_of(batch))
        assert report is not None
        version, batch = report.table_version or 0, batch + 1
    return batch


def _age(log: Path) -> None:
    """As if a trigger had passed between one commit and the next."""
    newest_first = sorted(log.iterdir(), reverse=True)
    for place, path in enumerate(newest_first):
        at = path.stat().st_mtime - TRIGGER_S * place
        os.utime(path, (at, at))


def _compacted(folder: Path) -> Path:
    """A copy with few fragments and as many versions; files are shared, since none is changed."""
    copied = folder.with_name("compacted")
    shutil.copytree(folder, copied, copy_function=os.link)
    lance_tables.LanceTable.open(Ours(copied, SCHEMA).uri).compact()
    return copied


def _recovered(run: str, folder: Path, batch: int, trial: int, versions: int) -> Sequence[Sample]:
    """A crash after the commit, and what a new driver then takes to recover the batch."""
    before = _version(folder)
    try:
        Ours(folder, SCHEMA, Crashing()).land(batch, row_of(batch))
    except Crash:
        pass
    else:
        raise AssertionError("the crash did not strike")
    visited = _version(folder) - before
    assert visited == 1, "the batch has landed"
    lance_tables._session.cache_clear()
    driver = Ours(folder, SCHEMA)
    started = time.perf_counter()
    report = driver.land(batch, row_of(batch))
    took_ms = (time.perf_counter() - started) * 1_000
    assert report is not None
    assert report.status == RECOVERED
    assert _version(folder) == before + 1, "it did not land twice"
    version = versions + trial
    parts = {
        run: took_ms,
        f"{run}-step-1": driver.watch.step_ms(Step.SKIP),
        f"{run}-step-2": driver.watch.step_ms(Step.RECOVER),
    }
    return [
        _sample(f"{part};trial={trial};rival={FRESHET}", ms, visited=visited, version=version)
        for part, ms in parts.items()
    ]
