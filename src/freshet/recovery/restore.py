"""`restore`: a backup put back, in the same home or another, and reconciled with what is there.

Guarantee: what was there is moved aside and never deleted, and nothing is touched before every file
of the backup has passed its checksum. A crash leaves some of it aside and some of it restored: both
another `restore` and a mere `run` make it whole, since both reconcile with Bronze.
"""

import os
import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import pyarrow.compute as pc

from freshet import schemas
from freshet.errors import StoreError
from freshet.events import emit
from freshet.layout import INDEX, INGEST, Home
from freshet.recovery.backup import CHECKPOINTS, TABLES
from freshet.recovery.bronze_files import first_disagreement
from freshet.recovery.facts import IndexTable, NumberedTable, small_tables
from freshet.recovery.manifest import NAMES, Backup
from freshet.recovery.rebuild import Position, Rebuilt, put_in_place, reconcile
from freshet.stores import checkpoints, copies, delta_snapshots
from freshet.stores.delta_tables import SmallTable

_RECENT: Final = timedelta(seconds=30)


@dataclass(frozen=True)
class Restored:
    """What a restore did."""

    backup: Backup
    aside: str | None
    """Where that lies which was there before; None if nothing was."""
    tables: Mapping[str, int]
    """Rows of each table."""
    notes: tuple[str, ...]
    """What of the backup was left out, and what that means."""
    rebuilt: tuple[Rebuilt, ...]
    """What Bronze and index know better."""


def restore(
    backup: Backup,
    home: Home,
    *,
    position: Position,
    clock: Callable[[], datetime],
    force: bool = False,
    pause_s: float = 1.0,
) -> Restored:
    """Puts a backup back; raises `StoreError` before it touches anything if it must not."""
    _check(backup, home)
    activity = None if force else running(home, clock())
    if activity is not None:
        raise StoreError("restore", home.root, f"{activity}. End it, or say --force")
    end = _agreed_end(backup, home)
    aside = _move_aside(home, clock())
    tables = {
        name: _load(backup, name, uri, end if name == "files" else None)
        for name, uri in small_tables(home).items()
        if name in backup.manifest.tables
    }
    notes = tuple(_restore_checkpoints(backup, home, clock()))
    rebuilt = reconcile(home, position=position, clock=clock, pause_s=pause_s)
    emit("recovery", "backup_restored", backup=backup.uri, home=home.root, aside=aside)
    return Restored(backup, aside, tables, notes, tuple(rebuilt))


def _check(backup: Backup, home: Home) -> None:
    if backup.manifest.pipeline != home.name:
        problem = f"it is of the pipeline {backup.manifest.pipeline}, not of {home.name}"
        raise StoreError("restore", backup.uri, problem)
    damage = backup.damage()
    if damage:
        raise StoreError("restore", backup.uri, f"it is damaged: {'; '.join(damage[:5])}")


def running(home: Home, now: datetime) -> str | None:
    """Why a run seems to be active; None if nothing speaks for it."""
    for query in (INGEST, INDEX):
        newest = checkpoints.read(home.checkpoint(query)).newest_plan
        if newest is not None and newest.is_by_spark and now - newest.at < _RECENT:
            age = max(0, int((now - newest.at).total_seconds()))
            return f'a run seems to be active: the query "{query}" began a batch {age} s ago'
    leases = SmallTable(small_tables(home)["ledger_leases"], schemas.LEASES)
    claims = leases.read(["host", "epoch", "taken_at"])
    last = max(claims, key=lambda claim: claim["taken_at"], default=None)
    if last is not None and _is_alive(last["host"]):
        return f"a run seems to be active: {last['host']} holds the lease and is alive"
    return None


def _is_alive(host: str) -> bool:
    """Whether the driver that wrote this of itself is another process of this machine, and runs."""
    found = re.fullmatch(r"process (\d+) on (.*)", host)
    if found is None or found.group(2) != platform.node():
        return False
    number = int(found.group(1))
    if number == os.getpid():
        return False
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _move_aside(home: Home, now: datetime) -> str | None:
    root = home.root.rstrip("/")
    aside = copies.free_place(f"{root}/replaced-{now:{NAMES}}")
    places = [home.checkpoint(INGEST), home.checkpoint(INDEX), *small_tables(home).values()]
    there = [place for place in places if copies.is_there(place)]
    for place in there:
        first = checkpoints.METADATA if place.startswith(home.checkpoint("")) else None
        copies.move_folder(place, f"{aside}/{place[len(root) + 1 :]}", first=first)
    return aside if there else None


def _agreed_end(backup: Backup, home: Home) -> int | None:
    """The first file number of the backup that Bronze has given to another file since, if any."""
    if "files" not in backup.manifest.tables:
        return None
    # What was in Bronze then has kept its numbers.
    start = (backup.manifest.bronze and backup.manifest.bronze.end) or 0
    rows = delta_snapshots.read_export(f"{backup.uri}/{TABLES}/files.parquet", ["seq", "path"])
    return first_disagreement(home, {r["seq"]: r["path"] for r in rows if r["seq"] >= start})


def _load(backup: Backup, name: str, uri: str, end: int | None) -> int:
    copies.delete_folder(uri)  # an empty folder may be there
    source = f"{backup.uri}/{TABLES}/{name}.parquet"
    where = None if end is None else pc.field("seq") < end
    return delta_snapshots.load(source, uri, backup.manifest.tables[name].configuration, where)


def _restore_checkpoints(backup: Backup, home: Home, now: datetime) -> list[str]:
    """Puts back the checkpoints whose tables are there; says what becomes of the others."""
    bronze, index = NumberedTable.of(home.bronze), IndexTable.of(home.index)
    copied = backup.manifest.bronze
    if bronze.end == 0:
        return [
            "there is no Bronze here yet, so no checkpoint was put back: the next run reads every "
            "file of the landing zone again"
        ]
    _put_back(backup, INGEST, home, now)
    if copied is None or bronze.table_id != copied.table_id:
        return [
            "Bronze is another table than the one that was backed up, so the checkpoint of the "
            "index was not put back: the next run reads Bronze from its beginning"
        ]
    if index is None:
        return ["there is no index here yet: the next run makes it anew from Bronze"]
    _put_back(backup, INDEX, home, now)
    return []


def _put_back(backup: Backup, query: str, home: Home, now: datetime) -> None:
    prefix = f"{CHECKPOINTS}/{query}/"
    names = [name for name in backup.manifest.files if name.startswith(prefix)]
    ordered = sorted(names, key=lambda name: name.endswith(f"/{checkpoints.METADATA}"))
    files = {name[len(prefix) :]: copies.read(f"{backup.uri}/{name}") for name in ordered}
    if files:
        put_in_place(home.checkpoint(query), files, now)
