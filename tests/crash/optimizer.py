"""What an optimizer does to a table while a sink writes it: folds, indexes, configures, cleans."""

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import lance
from changes import LANDED
from deltalake import DeltaTable

from freshet.errors import CommitConflictError, TableMissingError
from freshet.stores.lance_tables import LanceTable
from freshet.testing.program import Workplace


@dataclass
class Optimizer:
    """A thread that works on a table until it is stopped; counts what it did.

    Losing against the sink's commit is part of the work; every other error is a problem.
    """

    place: Workplace
    mode: str
    seed: int
    pause_s: float = 0.4
    done: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chooser = random.Random(self.seed)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="optimizer")

    def __enter__(self) -> "Optimizer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        works: list[Callable[[], None]] = [self._compact, self._configure, self._clean]
        if self.mode == "update":
            works.append(self._index)
        while not self._stopped.wait(self._chooser.uniform(0, 2 * self.pause_s)):
            work = self._chooser.choice(works)
            name = work.__name__.strip("_")
            try:
                work()
                self.done[name] += 1
            except TableMissingError:
                continue
            except CommitConflictError:
                self.done[f"{name} lost"] += 1
            except Exception as error:  # noqa: BLE001 - a thread has nobody to raise to
                self._note(name, error)

    def _note(self, name: str, error: Exception) -> None:
        if "conflict" in str(error).lower():
            self.done[f"{name} lost"] += 1
        else:
            self.problems.append(f"{name}: {type(error).__name__}: {error}"[:300])

    def _compact(self) -> None:
        LanceTable.open(str(self.place.table)).compact()

    def _index(self) -> None:
        LanceTable.open(str(self.place.table)).index_new_keys("key")

    def _configure(self) -> None:
        LanceTable.open(str(self.place.table))
        lance.dataset(str(self.place.table)).update_config({"seen": str(self.done.total())})

    def _clean(self) -> None:
        """Only versions before the newest one on record: the sink may still ask for later ones."""
        recorded = self._newest_on_record()
        LanceTable.open(str(self.place.table))
        table = lance.dataset(str(self.place.table))
        old = [v["version"] for v in table.versions() if v["version"] < recorded]
        if old:
            table.cleanup_old_versions(versions=old)

    def _newest_on_record(self) -> int:
        if not (self.place.ledger / "_delta_log").exists():
            return 0
        rows = DeltaTable(self.place.ledger).to_pyarrow_table(columns=["status", "table_version"])
        landed = (row for row in rows.to_pylist() if row["status"] in LANDED)
        return max((row["table_version"] for row in landed), default=0)
