"""What `freshet checkpoint verify` says: one sentence a fact, and what to do if it is not well."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from freshet.layout import INDEX, INGEST
from freshet.recovery.decisions import decide
from freshet.recovery.facts import Facts, Landed
from freshet.recovery.manifest import Backup
from freshet.stores.checkpoints import Checkpoint

_RUN = "start `freshet run`: it is made anew from what the tables know"
_RUN_OR_RESTORE = f"{_RUN}; or put a backup back with `freshet checkpoint restore`"


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True)
class Finding:
    """One fact."""

    what: str
    level: Level
    found: str
    next: str | None = None
    """What to do; None where there is nothing to do."""

    def as_dict(self) -> dict[str, Any]:
        """All of it, plainly."""
        return asdict(self)


def is_well(findings: Sequence[Finding]) -> bool:
    """Whether none is an error."""
    return all(finding.level is not Level.ERROR for finding in findings)


# --- checkpoints ---------------------------------------------------------------------------------


def about_checkpoint(
    query: str, checkpoint: Checkpoint, bytes_: int, now: datetime
) -> Iterator[Finding]:
    """Whether Spark can go on from it, and how old it is."""
    what = f"{query} checkpoint"
    for problem in checkpoint.problems:
        yield Finding(what, Level.ERROR, problem, _RUN_OR_RESTORE)
    for flaw in checkpoint.flaws:
        yield Finding(what, Level.WARNING, f"{flaw}; Spark does not look at batches that old")
    if not checkpoint.is_there:
        yield Finding(what, Level.OK, "there is none")
    elif not checkpoint.problems:
        yield Finding(what, Level.OK, f"{_extent(checkpoint, now)}, {bytes_:,} bytes")


def _extent(checkpoint: Checkpoint, now: datetime) -> str:
    newest, plan = checkpoint.newest, checkpoint.newest_plan
    if newest is None or plan is None:
        return "readable; no batch has been planned yet"
    state = "finished" if checkpoint.newest_commit == newest else "not finished yet"
    return (
        f"readable; batches {checkpoint.planned[0]} to {newest}, the newest {state}, "
        f"begun {_age(now - plan.at)} ago"
    )


# --- in step -------------------------------------------------------------------------------------


def in_step(facts: Facts, landed: Landed | None, lacking: int) -> Iterator[Finding]:
    """Whether checkpoints, files table, Bronze, ledger and index are of one time.

    `lacking` is the number of files that Bronze has and the files table has not.
    """
    plan, bronze = decide(facts), facts.bronze
    if lacking:
        sentence = f"{lacking} files that Bronze has are not in the files table"
        yield Finding("files table", Level.ERROR, sentence, _RUN_OR_RESTORE)
    else:
        yield Finding("files table", Level.OK, f"{facts.files.rows:,} files, none missing")
    yield from _verdict("ingest and Bronze", plan.ingest, facts.ingest, _of_ingest(facts))
    place = facts.place
    if place is not None and bronze.table_id != place.table_id and facts.index_table is not None:
        yield Finding(
            "index and Bronze",
            Level.ERROR,
            "the checkpoint of the index has been reading another Bronze than the one that is here",
            "put Bronze back; or, if this one is right, move checkpoints/index away, so that it is "
            "read from its beginning",
        )
    else:
        done = f"Bronze is at version {bronze.version}"
        where = done if place is None else f"{done}, the index reads on at {place.version}"
        yield from _verdict("index and Bronze", plan.index, facts.index, where)
    yield _of_ledger(facts, landed)


def _verdict(
    what: str, reasons: Sequence[str], checkpoint: Checkpoint, well: str
) -> Iterator[Finding]:
    if checkpoint.problems:
        return  # told already
    for reason in reasons:
        yield Finding(what, Level.ERROR, reason, _RUN)
    if not reasons:
        yield Finding(what, Level.OK, well)


def _of_ingest(facts: Facts) -> str:
    end = facts.read_up_to
    return f"Bronze has files below {facts.bronze.end}, the checkpoint ends at {end or 0}"


def _of_ledger(facts: Facts, landed: Landed | None) -> Finding:
    what, finished = "index and ledger", facts.index.newest_commit
    if finished is None:
        return Finding(what, Level.OK, "no batch is finished yet")
    if landed is None or landed.query_id != facts.index.query_id:
        return Finding(
            what,
            Level.WARNING,
            "neither ledger nor index have a batch of the checkpoint's query",
            "the first batch after a start tells whether that is well; `freshet verify` compares "
            "the index with Bronze",
        )
    if landed.batch_id < finished:
        return Finding(
            what,
            Level.ERROR,
            f"the checkpoint has finished batch {finished}, ledger and index end with "
            f"{landed.batch_id}",
            "put ledger and index of the checkpoint's time back, or move checkpoints/index away: "
            "it is made anew where they end",
        )
    version = None if facts.index_table is None else facts.index_table.version
    if version is not None and landed.table_version is not None and version < landed.table_version:
        return Finding(
            what,
            Level.ERROR,
            f"the index was set back to version {version}; {landed.table_version} is on record",
            "put it forward again, or move index and checkpoints/index away to build it anew",
        )
    return Finding(what, Level.OK, f"batch {landed.batch_id} has landed, {finished} is finished")


# --- backups -------------------------------------------------------------------------------------


def about_backups(backups: Sequence[Backup], interval: timedelta | None, now: datetime) -> Finding:
    """Whether there is one, how old the newest is, and whether that is too old."""
    if not backups:
        return Finding("backup", Level.WARNING, "there is none", "`freshet checkpoint backup`")
    newest = backups[-1]
    age = now - newest.manifest.made_at
    sentence = f"{len(backups)}, the newest {_age(age)} old, {newest.bytes:,} bytes"
    if interval is not None and age > 2 * interval:
        return Finding(
            "backup",
            Level.WARNING,
            f"{sentence}: more than twice checkpoint.backup_interval",
            "is a run active, and does its log say backup_failed?",
        )
    return Finding("backup", Level.OK, sentence)


def about_backup(
    backup: Backup, facts: Facts, live: Facts, landed: Landed | None, now: datetime
) -> Iterator[Finding]:
    """Whether a backup is whole, and belongs to the tables that are here. `facts` are its own."""
    damage = backup.damage()
    for phrase in damage:
        yield Finding("backup", Level.ERROR, phrase, "use another one: `freshet checkpoint list`")
    if not damage:
        files, age = len(backup.manifest.files), now - backup.manifest.made_at
        sentence = f"{files} files, {backup.bytes:,} bytes, all as written {_age(age)} ago"
        yield Finding("backup", Level.OK, sentence)
    for query, checkpoint in ((INGEST, facts.ingest), (INDEX, facts.index)):
        prefix = f"checkpoints/{query}/"
        names = backup.manifest.files.items()
        bytes_ = sum(content.bytes for name, content in names if name.startswith(prefix))
        yield from about_checkpoint(query, checkpoint, bytes_, now)
    yield from _copied_in_step(facts, landed)
    yield from _belongs(backup, live)


def _copied_in_step(facts: Facts, landed: Landed | None) -> Iterator[Finding]:
    end = facts.read_up_to
    if end is not None and end > facts.files.end:
        sentence = f"its files table ends at {facts.files.end}, its ingest checkpoint at {end}"
        yield Finding("files table", Level.ERROR, sentence, "use another one")
    else:
        yield Finding("files table", Level.OK, f"{facts.files.rows:,} files")
    if facts.place is not None and not facts.place.is_in(facts.bronze):
        yield Finding(
            "index and Bronze",
            Level.ERROR,
            "its index checkpoint is ahead of Bronze",
            "use another",
        )
    yield _of_ledger(facts, landed)


def _belongs(backup: Backup, live: Facts) -> Iterator[Finding]:
    bronze, index = backup.manifest.bronze, backup.manifest.index
    pairs = [("Bronze", bronze, live.bronze.table_id, live.bronze.version)]
    if live.index_table is not None:
        pairs.append(("index", index, live.index_table.table_id, live.index_table.version))
    for what, then, table_id, version in pairs:
        if then is None or table_id is None:
            continue
        if then.table_id != table_id:
            sentence = f"the {what} here is another table than the one that was backed up"
            yield Finding(what, Level.WARNING, sentence, "`restore` says what it leaves out")
        elif version < then.version:
            sentence = f"the {what} here is at version {version}, older than the backup's"
            yield Finding(what, Level.WARNING, f"{sentence} {then.version}", None)
        else:
            yield Finding(what, Level.OK, f"version {then.version} then, {version} now")


def _age(age: timedelta) -> str:
    seconds = max(0, int(age.total_seconds()))
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} seconds"
