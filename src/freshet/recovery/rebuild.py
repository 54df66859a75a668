"""Files table and checkpoints made anew from what the tables know.

Guarantee: after `reconcile` a run reads every file into Bronze exactly once and brings the index to
what Bronze says, whatever was lost or is older than the tables; what it replaces is moved aside and
never deleted. A kill on the way leaves things missing or old, and the next `reconcile` mends them.
The preconditions: no run is active, and Bronze is whole.

What leaves no trace in Bronze is read again: files without records, and a retry that somebody had
asked for (its rows then stand twice in Bronze, with the versions that they had).
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import uuid4

from freshet import schemas
from freshet.errors import StoreError
from freshet.events import emit, warn
from freshet.layout import INDEX, INGEST, Home
from freshet.recovery.bronze_files import complete_files
from freshet.recovery.decisions import Plan, decide
from freshet.recovery.facts import BronzePlace, Facts, Landed, gather
from freshet.recovery.manifest import NAMES
from freshet.stores import checkpoints, copies
from freshet.stores.delta_tables import SmallTable

_LOOKS: Final = 10

Row = dict[str, Any]
Position = Callable[[], Landed | None]
"""Asks ledger and index how far the index has come."""


@dataclass(frozen=True)
class Rebuilt:
    """One thing that was made anew."""

    what: str
    """`files`, `ingest` or `index`."""
    found: tuple[str, ...]
    """Why."""
    done: str
    replaced: str | None = None
    """Where the old one lies now."""


def reconcile(
    home: Home,
    *,
    position: Position,
    clock: Callable[[], datetime],
    new_id: Callable[[], str] = lambda: str(uuid4()),
    pause_s: float = 1.0,
) -> list[Rebuilt]:
    """Makes anew what cannot be gone on from; returns what that was.

    Raises `StoreError` if the state does not stand still for `pause_s`: somebody else writes it.
    """
    facts, plan = _standing_still(home, pause_s)
    done = [
        *_files(home, facts, plan),
        *_ingest(home, facts, plan, clock, new_id),
        *_index(home, facts, plan, clock, position),
    ]
    for one in done:
        warn(
            "recovery",
            "files_rebuilt" if one.what == "files" else "checkpoint_rebuilt",
            query=one.what,
            reasons="; ".join(one.found),
            done=one.done,
            replaced=one.replaced or "nothing",
        )
    return done


def _standing_still(home: Home, pause_s: float) -> tuple[Facts, Plan]:
    """The facts, twice the same if a checkpoint is to be replaced: not while a run moves them."""
    facts = gather(home)
    for _ in range(_LOOKS):
        plan = decide(facts)
        if not plan.ingest and not plan.index:
            return facts, plan
        time.sleep(pause_s)
        before, facts = facts, gather(home)
        if (before.ingest, before.index, before.bronze) == (
            facts.ingest,
            facts.index,
            facts.bronze,
        ):
            return facts, plan
    problem = "they change while they are looked at: another run seems to be active"
    raise StoreError("make anew the checkpoints of", home.root, problem)


# --- files table ---------------------------------------------------------------------------------


def _files(home: Home, facts: Facts, plan: Plan) -> list[Rebuilt]:
    if not plan.files:
        return []
    added = complete_files(home, facts.bronze.end)
    if not added:  # numbers of files without records, which Bronze does not know
        return []
    done = f"added {added} files that Bronze has"
    if facts.files.rows == 0 and facts.bronze.first > 0:
        done += (
            f"; it has none below number {facts.bronze.first}, so files that were there at the "
            "very first start, and were not to be read, are taken for new ones"
        )
    return [Rebuilt("files", plan.files, done)]


# --- ingest --------------------------------------------------------------------------------------


def _ingest(
    home: Home,
    facts: Facts,
    plan: Plan,
    clock: Callable[[], datetime],
    new_id: Callable[[], str],
) -> list[Rebuilt]:
    if not plan.ingest:
        return []
    steps = SmallTable(f"{home.files}_history", schemas.FILES_HISTORY).read()
    seq = unread_from(home, facts.bronze.end, _read_up_to(steps))
    _cut_history(home, steps, seq, clock())
    end = {"seq": seq, "batch": _batches(facts, steps)}
    made = dict(checkpoints.contents(new_id(), 0, json.dumps(end), clock()))
    replaced = put_in_place(home.checkpoint(INGEST), made, clock())
    return [Rebuilt(INGEST, plan.ingest, f"a new query goes on with file {seq}", replaced)]


def unread_from(home: Home, bronze_end: int, noted: int) -> int:
    """The first number from which all must be read: Bronze's end, or later.

    Files that are not to be read, and empty files and retries that were `noted` as read, leave no
    number in Bronze; they are not read again if nothing else lies before them.
    """
    # An empty Bronze has read nothing, whatever was noted of an earlier one.
    read = noted if bronze_end else 0
    files = SmallTable(home.files, schemas.FILES)
    passed = files.read(["seq"], f"seq >= {bronze_end} AND (seq < {read} OR how = 'existing')")
    end = max((int(row["seq"]) + 1 for row in passed), default=bronze_end)
    columns = ["seq", "how", "retry_of", "size"]
    between = files.read(columns, f"seq >= {bronze_end} AND seq < {end}")
    unread = (int(row["seq"]) for row in between if not _leaves_no_trace(row, read))
    return min(unread, default=end)


def _leaves_no_trace(row: Row, read: int) -> bool:
    is_read = row["seq"] < read and (row["retry_of"] is not None or row["size"] == 0)
    return is_read or row["how"] == "existing"


def _batches(facts: Facts, steps: Sequence[Row]) -> int:
    """How many batches came before, for the offsets of the source, which count them."""
    ends = [facts.ingest.end(number) for number in facts.ingest.batches]
    told = [int(end.get("batch", 0)) for end in ends if isinstance(end, dict)]
    noted = [int(step["batch"]) + 1 for step in steps if step["batch"] is not None]
    return max([0, *told, *noted])


def _read_up_to(steps: Sequence[Row]) -> int:
    return max(
        (int(step["end_seq"]) for step in steps if step["what"] == schemas.FILE_READ), default=0
    )


def _cut_history(home: Home, steps: Sequence[Row], end: int, now: datetime) -> None:
    """What is about to be read again must not be noted as read: it would be moved away too soon."""
    if _read_up_to(steps) <= end:
        return
    history = f"{home.files}_history"
    copies.move_folder(history, copies.free_place(f"{history}.replaced-{now:{NAMES}}"))
    kept = [
        step | {"end_seq": min(step["end_seq"], end)} if step["what"] == schemas.FILE_READ else step
        for step in steps
        if step["what"] != schemas.FILE_READ or step["first_seq"] < end
    ]
    if kept:
        SmallTable(history, schemas.FILES_HISTORY).append(kept)


# --- index ---------------------------------------------------------------------------------------


def _index(
    home: Home,
    facts: Facts,
    plan: Plan,
    clock: Callable[[], datetime],
    position: Position,
) -> list[Rebuilt]:
    if not plan.index:
        return []
    place, landed = home.checkpoint(INDEX), position()
    known = None if landed is None else BronzePlace.parse(landed.end)
    if landed is None or landed.end is None or known is None or not known.is_in(facts.bronze):
        replaced = put_in_place(place, {}, clock())
        return [Rebuilt(INDEX, plan.index, "Bronze is read from its beginning", replaced)]
    made = dict(checkpoints.contents(landed.query_id, landed.batch_id, landed.end, clock()))
    replaced = put_in_place(place, made, clock())
    done = f"goes on after batch {landed.batch_id}, at version {known.version} of Bronze"
    return [Rebuilt(INDEX, plan.index, done, replaced)]


# --- both ----------------------------------------------------------------------------------------


def put_in_place(checkpoint: str, files: dict[str, bytes], now: datetime) -> str | None:
    """Moves a checkpoint aside and puts another there, whole or not at all, or none.

    Returns where the old one lies. On a disk the new one is made beside it and renamed; on an
    object store its `metadata` goes first and comes last, without which it counts as damaged.
    """
    beside = f"{checkpoint}.new"
    copies.delete_folder(beside)
    is_local = "://" not in checkpoint
    for name, data in files.items() if is_local else ():
        copies.write(f"{beside}/{name}", data)
    replaced = None
    if copies.is_there(checkpoint):
        replaced = copies.free_place(f"{checkpoint}.replaced-{now:{NAMES}}")
        copies.move_folder(checkpoint, replaced, first=checkpoints.METADATA)
    if files and is_local:
        copies.delete_folder(checkpoint)  # an empty folder may be there
        copies.move_folder(beside, checkpoint)
    for name, data in () if is_local else files.items():
        copies.write(f"{checkpoint}/{name}", data)
    emit("recovery", "checkpoint_put_in_place", checkpoint=checkpoint, replaced=replaced)
    return replaced
