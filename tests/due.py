"""Indexes on which each kind of action is due, one after the other."""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from freshet import schemas
from freshet.optimizer import Kind, Plan
from freshet.stores.delta_tables import create
from optimized import OptimizedIndex, keys

AT_ONCE = "0 seconds"


@dataclass(frozen=True)
class Due:
    """A kind of action, and how an index is brought to where it is due."""

    kind: Kind
    targets: tuple[str, ...]
    bring: Callable[[OptimizedIndex, int], None]
    """Told about how many rows there should be."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """With which it is due at last; before, they would be in the way."""

    def __str__(self) -> str:
        return str(self.kind)

    def at(self, folder: Path, rows: int = 2_000) -> OptimizedIndex:
        """An index on which this is due."""
        before = folder / "before"
        index = OptimizedIndex.at(before)
        self.bring(index, rows)
        ready = index.copied(folder, **self.settings)
        shutil.rmtree(before)
        found = due_on(ready)
        assert {(self.kind, target) for target in self.targets} <= targets_of(found), found
        return ready


def due_on(index: OptimizedIndex) -> Plan:
    return index.optimizing().optimizer().plan()


def targets_of(plan: Plan) -> set[tuple[Kind, str]]:
    """A compaction's target only says how many fragments it folds."""
    return {
        (action.kind, "" if action.kind is Kind.COMPACT else action.target)
        for action in plan.actions
    }


def tend(index: OptimizedIndex) -> None:
    """Does all that is due."""
    report = index.optimizing().run()
    assert not report.is_failed, report


def _filled(index: OptimizedIndex, rows: int) -> None:
    index.fill(rows, batch_rows=min(rows // 4, 1_500))


def _with_new_rows(index: OptimizedIndex, rows: int) -> None:
    _filled(index, rows)
    tend(index)
    index.fill(rows // 4)


def _with_parts(index: OptimizedIndex, rows: int) -> None:
    _filled(index, rows)
    tend(index)
    for _ in range(3):
        index.fill(rows // 8)
        tend(index)
    index.fill(rows // 8)


def _updated(index: OptimizedIndex, rows: int) -> None:
    _filled(index, rows)
    tend(index)
    for start in range(0, rows, 1_000):
        index.put(*keys(min(1_000, rows - start), start))


def _in_fragments(index: OptimizedIndex, rows: int) -> None:
    """Small ones, with deleted rows in them."""
    _filled(index, rows)
    tend(index)
    before: list[str] = []
    for start in range(rows, 2 * rows, rows // 6):
        new = keys(rows // 6, start)
        index.write([*new, *before[:20]], before[20:40])
        before = new


def _with_old_versions(index: OptimizedIndex, rows: int) -> None:
    _with_new_rows(index, rows)
    tend(index)
    index.write((), ())


def _with_strays(index: OptimizedIndex, rows: int) -> None:
    """What a killed writer, a killed compaction and a killed training leave behind."""
    _filled(index, rows)
    tend(index)
    index.drop(*keys(10))
    strays(index)


def strays(index: OptimizedIndex) -> set[str]:
    """Adds files that no version names, and returns their paths."""
    number = uuid4()
    paths = {
        f"data/{number.hex}.lance",
        "data/.tmp" + number.hex[:6],
        f"_deletions/0-1-{number.int % 2**63}.arrow",
        f"_transactions/1-{number}.txn",
        f"_versions/{number.int % 2**63}.manifest#1",
        f"_indices/{number}/index.idx",
    }
    for path in paths:
        file = Path(index.uri) / path
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"half of something")
    return paths


def _with_many_small_files(index: OptimizedIndex, rows: int) -> None:
    """Bronze as many short batches leave it."""
    _filled(index, rows)
    tend(index)
    create(index.settings.home.bronze, schemas.BRONZE)
    bronze, event = DeltaTable(index.settings.home.bronze), pa.table({"key": ["a"]})
    for _ in range(66):
        write_deltalake(bronze, event, mode="append", schema_mode="merge")


def age(index: OptimizedIndex, paths: set[str], seconds: float) -> None:
    """Makes files older than they are."""
    for path in paths:
        file = Path(index.uri) / path
        then = file.stat().st_mtime - seconds
        os.utime(file, (then, then))


VECTOR, TEXT, KEY = "vector_idx", "text_idx", "key_idx"
DUE = (
    Due(Kind.BUILD, (VECTOR, TEXT), _filled),
    Due(Kind.EXTEND, (VECTOR, TEXT), _with_new_rows),
    Due(Kind.MERGE, (VECTOR, TEXT), _with_parts, {"index_parts": 4}),
    Due(Kind.RETRAIN, (VECTOR,), _updated),
    Due(Kind.COMPACT, ("",), _in_fragments),
    Due(Kind.CLEAN, ("versions",), _with_old_versions, {"retention": AT_ONCE}),
    Due(Kind.SWEEP, ("files",), _with_strays, {"orphan_age": AT_ONCE}),
    Due(Kind.TIDY, ("bronze",), _with_many_small_files),
)
