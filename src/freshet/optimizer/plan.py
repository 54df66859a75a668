"""What should be done to a table, and why. Pure: a plan follows from what is known alone.

Order matters. New rows are indexed first, since people wait for them; compaction comes after, since
Lance never folds fragments together that different parts of an index cover; cleanup comes last,
since it removes what the others replaced.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from freshet import tiers
from freshet.optimizer.actions import Action, Kind, Plan, Refusal
from freshet.optimizer.limits import Limits, Speeds, graph_of, index_bytes, memory_for
from freshet.partitions import partitions_for
from freshet.stores.lance_shape import FragmentShape, IndexShape, TableShape

_SPARE_BYTES: Final = 64 << 20
"""An action leaves so much of the disk free, whatever it writes."""
_FILES_TOO_MANY: Final = 64
"""A table beside the index is folded when it has so many files more than it should."""
_LEAST_SHARE: Final = 8
"""A fragment with deleted rows is rewritten by itself if it has this part of a full one's rows;
smaller ones wait for neighbours."""


@dataclass(frozen=True)
class Wanted:
    """An index that the table should have."""

    name: str
    column: str
    kind: str
    min_rows: int = 1

    @property
    def is_of_vectors(self) -> bool:
        """Whether it answers which vectors are near."""
        return self.kind.startswith("IVF_")


@dataclass(frozen=True)
class SideTable:
    """A table beside the index: how many files it has, and how many it should have."""

    name: str
    files: int
    ideal: int
    bytes: int


@dataclass(frozen=True)
class Situation:
    """All that a plan follows from."""

    shape: TableShape
    now: datetime
    floor: int | None = None
    """A recovery may ask for versions from this one on; None: nothing is on record."""
    recall: float | None = None
    """What the last probe of the vector index found."""
    best_recall: float | None = None
    """The best that an earlier probe has found since the index was trained."""
    speeds: Speeds = field(default_factory=dict)
    """Rows a second, as measured before."""
    lost_rows: int | None = None
    """What the last compaction read, if a writer was faster than it."""
    free_bytes: int | None = None
    """Room on the disk; None where that cannot be known."""
    orphans: Mapping[str, int] = field(default_factory=dict)
    """Files that no version names, old enough to go, with sizes."""
    tables: tuple[SideTable, ...] = ()
    """The tables beside the index."""


def plan(situation: Situation, wanted: Sequence[Wanted], limits: Limits) -> Plan:
    """What is due now, each action with its reasons; what a limit forbids is told, too."""
    due = [
        *_indexes(situation, wanted, limits),
        *_compactions(situation, limits),
        *_cleanups(situation, limits),
        *_tidying(situation),
    ]
    forbidden = [_forbidden(action, situation, limits) for action in due]
    pairs = list(zip(due, forbidden, strict=True))
    return Plan(
        tuple(action for action, why in pairs if why is None),
        tuple(Refusal(action, why) for action, why in pairs if why is not None),
    )


# --- indexes -------------------------------------------------------------------------------------


def _indexes(situation: Situation, wanted: Sequence[Wanted], limits: Limits) -> Iterator[Action]:
    shape, anew = situation.shape, set[str]()
    for one in wanted:
        index = shape.index_on(one.column)
        if index is None:
            if shape.rows >= one.min_rows:
                yield _build(Kind.BUILD, one, shape, f"rows={shape.rows}>={one.min_rows}")
        elif one.is_of_vectors and (reasons := _worn(index, situation, limits, one)):
            yield _build(Kind.RETRAIN, replace(one, name=index.name), shape, *reasons)
            anew.add(index.name)
    # What others have made is kept up, too.
    for index in shape.indexes:
        if index.name not in anew:
            yield from _upkeep(index, situation, limits)


def _build(kind: Kind, one: Wanted, shape: TableShape, *reasons: str) -> Action:
    details: dict[str, Any] = {"column": one.column, "kind": one.kind}
    dimension = shape.dimension if one.is_of_vectors else 0
    if one.is_of_vectors:
        details["partitions"] = partitions_for(shape.rows)
        details["graph"] = dict(graph_of(one.kind))
    return Action(kind, one.name, reasons, shape.rows, index_bytes(shape.rows, dimension), details)


def _worn(
    index: IndexShape, situation: Situation, limits: Limits, wanted: Wanted
) -> tuple[str, ...]:
    """Why a vector index should be made anew; nothing if it need not."""
    rows = situation.shape.rows
    held = sum(part.held for part in index.parts)
    dead = held - sum(part.rows for part in index.parts)
    ideal = partitions_for(rows)
    reasons = []
    if index.kind != wanted.kind:
        reasons.append(f"kind={index.kind}, wanted {wanted.kind}")
    if held and dead > limits.dead_share * held:
        reasons.append(f"dead_share={dead / held:.2f}>{limits.dead_share:.2f}")
    if index.partitions and ideal >= limits.partition_drift * index.partitions:
        reasons.append(f"partitions={index.partitions}, {ideal} would fit {rows} rows")
    if _has_fallen(situation, limits):
        reasons.append(f"recall={situation.recall:.3f}<{limits.least_recall:.3f}")
    return tuple(reasons)


def _has_fallen(situation: Situation, limits: Limits) -> bool:
    """Whether the index finds too little by now; if it never found enough, training is no help."""
    now, best = situation.recall, situation.best_recall
    return now is not None and best is not None and now < limits.least_recall <= best


def _upkeep(index: IndexShape, situation: Situation, limits: Limits) -> Iterator[Action]:
    """A part for new rows, and fewer parts; merging takes new rows along."""
    new, dimension = index.unindexed_rows, situation.shape.dimension if index.is_of_vectors else 0
    reason = _new_rows(index, limits)
    sizes = [part.rows for part in index.parts] + ([new] if reason else [])
    most_rows = limits.rows_to_merge(index.name, dimension, situation.speeds)
    if index.is_merged_whole:
        count = tiers.all_to_merge(sizes, most=limits.parts)
    else:
        count = tiers.newest_to_merge(sizes, most=limits.parts, most_rows=most_rows)
    rows = sum(sizes[-count:]) if count else 0
    if count:
        why = f"parts={len(sizes)}, the newest {count} have {rows} rows together"
        details = {"count": count - 1 if reason else count, "most_rows": most_rows}
        yield Action(Kind.MERGE, index.name, (why,), rows, index_bytes(rows, dimension), details)
    if reason and not 0 < rows <= most_rows:  # or a merge takes them along
        yield Action(Kind.EXTEND, index.name, (reason,), new, index_bytes(new, dimension))


def _new_rows(index: IndexShape, limits: Limits) -> str | None:
    """Why new rows should be indexed now; None if they need not."""
    if index.unindexed_rows >= limits.unindexed_rows:
        return f"unindexed_rows={index.unindexed_rows}>={limits.unindexed_rows}"
    if index.unindexed_rows and index.unindexed_fragments >= limits.fragments:
        return f"unindexed_fragments={index.unindexed_fragments}>={limits.fragments}"
    return None


# --- fragments -----------------------------------------------------------------------------------


def _compactions(situation: Situation, limits: Limits) -> Iterator[Action]:
    """Fragments with many deleted rows by themselves, then runs of small ones."""
    most_rows = limits.rows_to_fold(situation.lost_rows, situation.speeds)
    left: list[FragmentShape | None] = []
    parts: frozenset[str] = frozenset()
    for fragment in situation.shape.fragments:
        if fragment.parts != parts:
            left.append(None)  # Lance folds nothing across this place
            parts = fragment.parts
        is_worn = fragment.deleted > limits.deleted_share * max(fragment.rows, 1)
        is_large = fragment.live * _LEAST_SHARE >= limits.fragment_rows
        if is_worn and is_large and fragment.live <= most_rows:
            share = fragment.deleted / fragment.rows
            yield _fold([fragment], f"deleted_share={share:.2f}>{limits.deleted_share:.2f}")
            left.append(None)
        else:
            left.append(fragment if fragment.live < limits.fragment_rows else None)
    yield from _foldings(left, most_rows, limits)


def _foldings(left: list[FragmentShape | None], most_rows: int, limits: Limits) -> Iterator[Action]:
    small = sum(fragment is not None for fragment in left)
    while small >= limits.fragments:
        sizes = [None if fragment is None else fragment.live for fragment in left]
        found = tiers.window_to_fold(sizes, most_rows=most_rows)
        if found is None:
            return
        chosen = [fragment for fragment in left[slice(*found)] if fragment is not None]
        yield _fold(chosen, f"small_fragments={small}>={limits.fragments}")
        left[slice(*found)] = [None] * len(chosen)
        small -= len(chosen)


def _fold(chosen: Sequence[FragmentShape], reason: str) -> Action:
    rows = sum(fragment.live for fragment in chosen)
    return Action(
        Kind.COMPACT,
        f"{len(chosen)} fragments",
        (reason,),
        rows,
        sum(fragment.bytes for fragment in chosen),
        {"fragments": [fragment.id for fragment in chosen]},
    )


# --- versions and files --------------------------------------------------------------------------


def _cleanups(situation: Situation, limits: Limits) -> Iterator[Action]:
    old = list(_old_versions(situation, limits))
    if old:
        reason = f"{len(old)} versions ended more than {limits.retention} ago"
        yield Action(Kind.CLEAN, "versions", (reason,), details={"versions": old})
    if situation.orphans:
        size = sum(situation.orphans.values())
        reason = f"{len(situation.orphans)} files of {size} bytes that no version names"
        yield Action(Kind.SWEEP, "files", (reason,), details={"files": list(situation.orphans)})


def _old_versions(situation: Situation, limits: Limits) -> Iterator[int]:
    """A version is the answer up to the moment when the next one came; so long it is of use."""
    versions, oldest = situation.shape.versions, situation.now - limits.retention
    for version, following in pairwise(versions):
        is_past = following.committed_at <= oldest
        is_safe = situation.floor is not None and version.number < situation.floor
        if is_past and is_safe and version.number not in situation.shape.tagged:
            yield version.number


def _tidying(situation: Situation) -> Iterator[Action]:
    for table in situation.tables:
        if table.files >= table.ideal + _FILES_TOO_MANY:
            reason = f"files={table.files}, {table.ideal} would do"
            yield Action(Kind.TIDY, table.name, (reason,), bytes=table.bytes)


# --- limits --------------------------------------------------------------------------------------


def _forbidden(action: Action, situation: Situation, limits: Limits) -> str | None:
    """Which limit an action would break; None if it breaks none."""
    free = situation.free_bytes
    if free is not None and action.kind.needs_room and action.bytes + _SPARE_BYTES > free:
        return f"it may write {action.bytes:,} bytes, and the disk has {free:,} left"
    most_rows = action.details.get("most_rows", action.rows)
    if action.rows > most_rows:
        return (
            f"it reads {action.rows:,} rows, and optimizer.action_time and optimizer.memory allow "
            f"{most_rows:,}"
        )
    memory = memory_for(action.rows, situation.shape.dimension)
    if action.kind is Kind.RETRAIN and memory > limits.memory_bytes:
        return (
            f"it may take {memory:,} bytes of memory, and optimizer.memory allows "
            f"{limits.memory_bytes:,}"
        )
    return None
