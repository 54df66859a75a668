"""Chains of kills: every process goes on where the one before was killed, and is killed in turn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from changes import Feed, contents, difference, recount, statuses, unnamed_files

from freshet.sink import Step
from freshet.testing import Kind, Moment, NotKilledError, StoreFault, program
from freshet.testing.program import Workplace


class Left(StrEnum):
    """Where the batch is that a fault struck."""

    NOWHERE = "not in the table"
    LANDED = "in the table, not in the ledger"
    RECORDED = "in table and ledger"


HEALED_AS = {Left.NOWHERE: "committed", Left.LANDED: "recovered", Left.RECORDED: "skipped"}


@dataclass
class Cell:
    """One fault and what came of it; every problem makes it a failed one."""

    mode: str
    """And the sink, if that is not Lance."""
    fault: str
    batch: int = -1
    left: Left | None = None
    unnamed: int = 0
    healed: str = "not reached"
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        left = f"{self.left or 'unknown'}, {self.unnamed} unnamed files"
        verdict = "; ".join(self.problems) if self.problems else "ok"
        return f"{self.mode:8} {self.fault:66} left: {left:49} then: {self.healed:9} {verdict}"


@dataclass(frozen=True)
class Kill:
    """Where a process is killed, and where that must leave the batch; None: where it was."""

    when: str
    place: str
    """A step of the protocol, or a store call."""
    leaves: Left | None
    table: str | None = "rows.lance"
    in_task: bool = False
    """Whether the call is made by a task, which then takes the driver with it."""

    @property
    def is_store_call(self) -> bool:
        return "." in self.place

    def option(self, batch: int) -> tuple[str, ...]:
        """How the program is told."""
        if self.is_store_call:
            fault = str(StoreFault(self.place, self.when, Kind.KILLED, table=self.table))
            return ("--fault", fault, *(["--in-task"] if self.in_task else []))
        return "--kill-at", str(Moment(self.when, Step(self.place), batch))


def step_kills() -> list[Kill]:
    """Before and after every step; what is left when a step is looked at twice says the chain."""
    nowhere = [
        Kill(when, step, Left.NOWHERE)
        for step in (Step.SKIP, Step.PREPARE, Step.BURY)
        for when in ("before", "after")
    ]
    return [
        *nowhere,
        Kill("before", Step.COMMIT, Left.NOWHERE),
        Kill("after", Step.COMMIT, Left.LANDED),
        # Only the first batch after a start gets there, so this is the batch of the last kill.
        Kill("before", Step.RECOVER, None),
        Kill("after", Step.RECOVER, None),
        Kill("before", Step.RECORD, Left.LANDED),
        Kill("after", Step.RECORD, Left.RECORDED),
    ]


def book_kills() -> tuple[list[Kill], list[Kill]]:
    """Around what every sink puts on record: that it begins, and that a batch has landed."""
    begun = [Kill(when, "SmallTable.append", None, "ledger_leases") for when in ("before", "after")]
    ended = [
        Kill("before", "SmallTable.append", Left.LANDED, "ledger"),
        Kill("after", "SmallTable.append", Left.RECORDED, "ledger"),
    ]
    return begun, ended


def store_kills(mode: str) -> list[Kill]:
    """Inside the steps: between one store call and the next."""
    commit = "LanceTable.overwrite" if mode == "complete" else "LanceTable.commit"
    begun, ended = book_kills()
    kills = [
        *begun,
        Kill("before", commit, Left.NOWHERE),
        Kill("after", commit, Left.LANDED),
        *ended,
    ]
    if mode == "update":
        kills += [
            Kill("after", "LanceTable.removal", Left.NOWHERE),
            Kill("after", "LanceTable.commit", Left.NOWHERE, "rows_tombstones.lance"),
            Kill("after", "Tombstones.bury", Left.NOWHERE, "rows_tombstones.lance"),
        ]
    return kills


def transaction_kills(sink: str, mode: str) -> list[Kill]:
    """Inside the commit of a store that has transactions: begun, and not ended."""
    if sink == "delta":
        buried = Kill("after", "SmallTable.append", Left.NOWHERE, "rows_tombstones")
        return [buried] if mode == "update" else []
    return [
        Kill(when, "PostgresMerge.run", Left.NOWHERE, None, in_task=sink == "postgres")
        for when in ("before", "after")
    ]


def all_kills(mode: str, sink: str = "lance") -> list[Kill]:
    """The whole chain of a mode; the first one finds no table yet."""
    if sink == "lance":
        made = Kill("after", "LanceTable.create", Left.NOWHERE)
        return [made, *step_kills(), *store_kills(mode)]
    made = Kill("after", Step.PREPARE, Left.NOWHERE)
    steps = [kill for kill in step_kills() if kill.place != Step.BURY]
    begun, ended = book_kills()
    return [made, *steps, *begun, *transaction_kills(sink, mode), *ended]


@dataclass
class Chain:
    """Runs kills of one mode in one folder, recounting after each; `report` gets every cell."""

    mode: str
    folder: Path
    kills: Sequence[Kill]
    report: Callable[[Cell], None]
    seed: int = 1
    sink: str = "lance"
    address: str = ""
    """Of the database, if the sink writes to one; there must be no table yet."""
    cells: list[Cell] = field(default_factory=list)
    _open: list[Cell] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.place = Workplace(self.folder, self.sink, self.address)
        self.label = self.mode if self.sink == "lance" else f"{self.sink} {self.mode}"
        self.feed = Feed(self.place.input, self.seed)
        self.feed.land(len(self.kills) + 3)

    def run(self) -> list[Cell]:
        """All cells, the failed ones among them."""
        self.cells = [Cell(self.label, f"{kill.when}:{kill.place}:killed") for kill in self.kills]
        for kill, cell in zip(self.kills, self.cells, strict=True):
            try:
                self._kill(kill, cell)
            except NotKilledError as error:
                sentence = str(error).split("\n", 1)[0]
                cell.problems.append(f"{sentence} {self.folder}/output.log")
                break
        self._finish()
        return self.cells

    def _kill(self, kill: Kill, cell: Cell) -> None:
        before = self.place.steps.moments()
        last = self.cells[self.cells.index(cell) - 1] if before else None
        is_first_batch = kill.place == Step.RECOVER
        target = last.batch + (0 if is_first_batch else 1) if last else 0
        option = kill.option(target)
        program.start(self.place, self.mode, *option).killed()
        after = self.place.steps.moments()
        self._prove(option, grew=len(after) > len(before), cell=cell)
        cell.fault, cell.batch = f"{option[1]}", after[-1].batch_id
        self._heal(before_batch=cell.batch)
        look_at(self.place, self.mode, cell)
        expected = kill.leaves or (last.left if last else Left.NOWHERE)
        if cell.left is not expected:
            cell.problems.append(f"the batch should be {expected}")
        self._open.append(cell)

    def _prove(self, option: tuple[str, ...], *, grew: bool, cell: Cell) -> None:
        """That the kill was the one that was asked for, and nothing else ended the process."""
        if option[0] == "--fault":
            if not self.place.marker.exists() or option[1] not in self.place.marker.read_text():
                cell.problems.append("the fault did not strike")
            self.place.marker.unlink(missing_ok=True)
        elif not grew or str(self.place.steps.moments()[-1]) != option[1]:
            cell.problems.append("it was killed elsewhere")

    def _heal(self, before_batch: int) -> None:
        """Cells whose batch has been left behind are done: how did it land, and only once?"""
        landed = statuses(self.place.ledger)
        healed = [cell for cell in self._open if cell.batch < before_batch]
        self._open = [cell for cell in self._open if cell not in healed]
        for cell in healed:
            # Of several kills at one batch, the last one says how it came to an end.
            end = next(other for other in reversed(healed) if other.batch == cell.batch)
            judge_end(cell, end.left, landed)
            self.report(cell)

    def _finish(self) -> None:
        """Without a fault, to the end of the input: everything is there, once."""
        code = program.start(self.place, self.mode).finished()
        self._heal(before_batch=self.feed.files)
        closing = Cell(self.label, "run to the end without a fault", self.feed.files - 1)
        if code != 0:
            closing.problems.append(f"the last run ended with {code}: {self.folder}/output.log")
        look_at(self.place, self.mode, closing)
        judge_end(closing, closing.left, statuses(self.place.ledger))
        if closing.left is not Left.RECORDED:
            closing.problems.append("not everything has landed")
        closing.healed = "at rest"
        for cell in (cell for cell in self.cells if cell.healed == "not reached"):
            cell.problems = cell.problems or ["the chain did not come to its end"]
            self.report(cell)
        self.cells.append(closing)
        self.report(closing)


def look_at(place: Workplace, mode: str, cell: Cell) -> None:
    """Reads the table as anybody does, and compares it with a recount of the files."""
    has = contents(mode, place.table, place.address)
    without, with_it = (recount(mode, place.input, cell.batch + more) for more in (0, 1))
    cell.unnamed = unnamed_files(place.table)
    if without == with_it:
        cell.problems.append("this batch changes nothing, so nothing can be told")
    if has == with_it:
        is_recorded = cell.batch in statuses(place.ledger)
        cell.left = Left.RECORDED if is_recorded else Left.LANDED
    elif has == without:
        cell.left = Left.NOWHERE
    else:
        cell.problems.append(f"wrong rows: {difference(with_it, has)}")


def judge_end(cell: Cell, left: Left | None, landed: dict[int, list[str]]) -> None:
    """How the batch of a cell came to its end; every batch so far must have landed once."""
    twice = [batch for batch, how in landed.items() if len(how) > 1]
    gaps = sorted(set(range(cell.batch + 1)) - landed.keys())
    if twice or gaps:
        cell.problems.append(f"batches on record twice: {twice}, never: {gaps}")
    how = landed.get(cell.batch, ["lost"])[-1]
    expected = HEALED_AS.get(left or Left.NOWHERE)
    cell.healed = "skipped" if left is Left.RECORDED and how != "lost" else how
    if cell.healed != expected:
        cell.problems.append(f"it should have been {expected}")
