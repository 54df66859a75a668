"""Indexes on which each kind of action is due, one after the other."""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from deltalake import write_deltalake

from freshet import schemas
from freshet.optimizer import Kind, Plan
from freshet.stores.delta_tables import SmallTable
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
    index.fill(rows, batch_rows=rows // 4)


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
    """Of new rows, updated ones among them, that the indexes cover."""
    _filled(index, rows)
    tend(index)
    for number in range(6):
        index.put(*keys(rows // 8, number * rows // 16))


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
    table = Path(index.uri)
    added = set()
    for folder, ending in (("data", "lance"), ("_deletions", "arrow"), ("_transactions", "txn")):
        like = next(path for path in sorted((table / folder).iterdir()) if path.is_file())
        stray = like.with_name(_named_like(like.name, ending))
        shutil.copyfile(like, stray)
        added.add(str(stray.relative_to(table)))
    training = table / "_indices" / str(uuid4())
    training.mkdir()
    (training / "index.idx").write_bytes(b"half an index")
    added.add(str((training / "index.idx").relative_to(table)))
    return added


def _named_like(name: str, ending: str) -> str:
    number = uuid4()
    if ending == "lance":
        return f"{number.hex}.lance"
    if ending == "txn":
        return f"1-{number}.txn"
    fragment, version, _ = name.split("-", 2)
    return f"{fragment}-{version}-{number.int % 2**63}.{ending}"


def _with_many_small_files(index: OptimizedIndex, rows: int) -> None:
    """As of writers that are started again and again: none of them lives to fold anything."""
    _filled(index, rows)
    tend(index)
    uri = index.settings.home.ledger
    table = SmallTable(uri, schemas.LEDGER)
    row = table.read()[0] | {"sink": "another"}
    for _ in range(70):
        write_deltalake(uri, _one(row), mode="append")


def _one(row: dict[str, Any]) -> Any:
    import pyarrow as pa

    return pa.Table.from_pylist([row], schema=schemas.LEDGER)


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
    Due(Kind.MERGE, (VECTOR, TEXT), _with_parts),
    Due(Kind.RETRAIN, (VECTOR,), _updated),
    Due(Kind.COMPACT, ("",), _in_fragments),
    Due(Kind.CLEAN, ("versions",), _with_old_versions, {"retention": AT_ONCE}),
    Due(Kind.SWEEP, ("files",), _with_strays, {"orphan_age": AT_ONCE}),
    Due(Kind.TIDY, ("ledger",), _with_many_small_files),
)
