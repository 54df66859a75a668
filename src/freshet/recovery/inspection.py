"""`inspect`: the live state of a pipeline, or a backup, looked at from all sides. Reads only."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from freshet.errors import StoreError
from freshet.layout import INDEX, INGEST, Home
from freshet.recovery.backup import CHECKPOINTS, TABLES
from freshet.recovery.bronze_files import lacking
from freshet.recovery.decisions import decide
from freshet.recovery.facts import Facts, IndexTable, Landed, NumberedTable, gather
from freshet.recovery.findings import (
    Finding,
    Level,
    about_backup,
    about_backups,
    about_checkpoint,
    in_step,
    is_well,
)
from freshet.recovery.manifest import Backup, TableVersion, backups_in
from freshet.recovery.rebuild import Position
from freshet.stores import checkpoints, copies, delta_snapshots

_LOOKS: Final = 3
_PAUSE_S: Final = 1.0
_FAILED: Final = "failed"


@dataclass(frozen=True)
class Backups:
    """Where backups lie, and how often there should be one."""

    place: str
    interval: timedelta | None = None


def inspect(
    home: Home, backups: Backups, *, position: Position, clock: Callable[[], datetime]
) -> list[Finding]:
    """The live state. What does not hold is looked at again: a running pipeline moves meanwhile."""
    for _ in range(1, _LOOKS):
        found = _inspect(home, backups, position, clock())
        if is_well(found):
            return found
        time.sleep(_PAUSE_S)
    return _inspect(home, backups, position, clock())


def _inspect(home: Home, backups: Backups, position: Position, now: datetime) -> list[Finding]:
    try:
        facts = gather(home, thoroughly=True)
        missing = lacking(home, facts.bronze.end) if decide(facts).files else 0
        found: list[Finding] = []
        for query, checkpoint in ((INGEST, facts.ingest), (INDEX, facts.index)):
            bytes_ = sum(copies.files_below(home.checkpoint(query)).values())
            found += about_checkpoint(query, checkpoint, bytes_, now)
        found += in_step(facts, position(), missing)
        known = backups_in(backups.place, home.name)
        return [*found, about_backups(known, backups.interval, now)]
    except StoreError as error:
        return [_unreadable(error)]


def inspect_backup(backup: Backup, home: Home, *, clock: Callable[[], datetime]) -> list[Finding]:
    """A backup: whether it is whole, in step with itself, and belongs to this home."""
    try:
        copied, landed = _copied_facts(backup), _copied_landed(backup)
        return list(about_backup(backup, copied, gather(home), landed, clock()))
    except StoreError as error:
        damage = [Finding("backup", Level.ERROR, phrase, None) for phrase in backup.damage()]
        return [*damage, _unreadable(error)]


def _copied_facts(backup: Backup) -> Facts:
    manifest, folder = backup.manifest, f"{backup.uri}/{CHECKPOINTS}"
    numbers = [row["seq"] for row in _rows_of(backup, "files", ["seq"])]
    bronze = manifest.bronze or TableVersion("", -1)
    index = manifest.index
    return Facts(
        ingest=checkpoints.read(f"{folder}/{INGEST}", thoroughly=True),
        index=checkpoints.read(f"{folder}/{INDEX}", thoroughly=True),
        bronze=NumberedTable(bronze.table_id, bronze.version, end=bronze.end or 0),
        files=NumberedTable("", 0, len(numbers), end=max(numbers, default=-1) + 1),
        index_table=None if index is None else IndexTable(index.table_id, index.version),
    )


def _copied_landed(backup: Backup) -> Landed | None:
    columns = ["pipeline", "sink", "query_id", "batch_id", "table_version", "status", "finished_at"]
    own = [
        row
        for row in _rows_of(backup, "ledger", columns)
        if (row["pipeline"], row["sink"]) == (backup.manifest.pipeline, INDEX)
        and row["status"] != _FAILED
    ]
    if not own:
        return None
    query = max(own, key=lambda row: row["finished_at"])["query_id"]
    last = max(row["batch_id"] for row in own if row["query_id"] == query)
    return Landed(query, last, table_version=max(row["table_version"] for row in own))


def _rows_of(backup: Backup, name: str, columns: list[str]) -> list[dict[str, Any]]:
    if name not in backup.manifest.tables:
        return []
    return delta_snapshots.read_export(f"{backup.uri}/{TABLES}/{name}.parquet", columns)


def _unreadable(error: StoreError) -> Finding:
    remedy = "put a backup back with `freshet checkpoint restore`"
    return Finding("tables", Level.ERROR, str(error), remedy)
