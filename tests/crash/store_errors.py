"""Store calls that fail, in the driver and in tasks: the query stops or goes on, and the next run
puts everything right. One Spark session for all of them, since nothing is killed but workers."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

from changes import Feed, statuses
from kills import Cell, Left, judge_end, look_at
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from freshet.sink import Probe
from freshet.sink.steps import no_probe
from freshet.testing import FailAt, Kind, Moment, StoreFault, on_executors
from freshet.testing.program import Workplace, stream

ERRORS = (Kind.ERROR, Kind.FULL_DISK, Kind.NO_PERMISSION)


@dataclass(frozen=True)
class Broken:
    """A store call that is broken, in the driver or in a task."""

    method: str
    table: str = "rows.lance"
    in_task: bool = False
    after_failure: bool = False
    """Whether the call is made only when a batch fails before its commit."""
    lasts: bool = False


def broken_calls(mode: str) -> list[Broken]:
    """All calls that a batch of this mode makes."""
    commit = "LanceTable.overwrite" if mode == "complete" else "LanceTable.commit"
    calls = [
        Broken("LanceTable.create"),
        Broken("SmallTable.append", "ledger_leases"),
        Broken("SmallTable.version", "ledger_leases"),
        Broken("SmallTable.scan", "ledger"),
        Broken("LanceTable.open"),
        Broken("LanceTable.history"),
        Broken("LanceTable.open", in_task=True),
        Broken("LanceTable.write_files", in_task=True),
        Broken(commit),
        Broken(commit, lasts=True),
        Broken("LanceTable.discard", after_failure=True),
        Broken("SmallTable.append", "ledger"),
        Broken("SmallTable.append", "ledger", lasts=True),
    ]
    if mode == "update":
        calls += [
            Broken("LanceTable.lookup", in_task=True),
            Broken("LanceTable.removal"),
            Broken("LanceTable.commit", "rows_tombstones.lance"),
            Broken("Tombstones.bury", "rows_tombstones.lance"),
        ]
    return calls


@dataclass
class Errors:
    """Runs the broken calls of one mode in one folder, one file and one batch each."""

    spark: SparkSession
    mode: str
    folder: Path
    report: Callable[[Cell], None]

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.place = Workplace(self.folder)
        self.feed = Feed(self.place.input, seed=2)

    def run(self, calls: Sequence[Broken]) -> list[Cell]:
        """Each call before and after it took effect, with all kinds of errors in turn."""
        kinds = cycle(ERRORS)
        cells = [
            self._cell(call, when, next(kinds)) for call in calls for when in ("before", "after")
        ]
        cells += [
            self._cell(call, when, Kind.KILLED)
            for call in calls
            for when in ("before", "after")
            if call.in_task
        ]
        return cells

    def _cell(self, call: Broken, when: str, kind: Kind) -> Cell:
        self.feed.land()
        fault = StoreFault(
            call.method, when, kind, table=call.table, lasts=call.lasts, marker=self.place.marker
        )
        where = " in a task" if call.in_task else " always" if call.lasts else ""
        cell = Cell(self.mode, f"{fault}{where}", self.feed.files - 1)
        failing = FailAt(Moment.parse(f"before:commit:{cell.batch}"))
        with _entered(fault, in_task=call.in_task):
            is_stopped = self._stops(failing if call.after_failure else no_probe)
        if not fault.struck:
            cell.problems.append("the fault did not strike")
        self.place.marker.unlink(missing_ok=True)
        look_at(self.place, self.mode, cell)
        if not is_stopped and cell.left is not Left.RECORDED:
            cell.problems.append("the query hid the error")
        if self._stops(no_probe):
            cell.problems.append("the query does not run any more")
        self._conclude(cell)
        return cell

    def _conclude(self, cell: Cell) -> None:
        was, unnamed = cell.left, cell.unnamed
        look_at(self.place, self.mode, cell)
        if cell.left is not Left.RECORDED:
            cell.problems.append(f"in the end it is {cell.left}")
        cell.left, cell.unnamed = was, unnamed
        judge_end(cell, was, statuses(self.place.ledger))
        self.report(cell)

    def _stops(self, probe: Probe) -> bool:
        """Whether the query ends with an error."""
        try:
            stream(self.spark, self.place, self.mode, probe=probe).awaitTermination()
        except StreamingQueryException:
            return True
        return False


def _entered(fault: StoreFault, *, in_task: bool) -> AbstractContextManager[Any]:
    return on_executors(fault) if in_task else fault
