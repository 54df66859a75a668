"""What a rebuild makes beside the live index: which settings it is of, how far it is, its end."""

import hashlib
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from freshet import bronze
from freshet.clock import utc_now
from freshet.errors import TableMissingError
from freshet.events import emit
from freshet.gold import Watch, Watched
from freshet.layout import REBUILD, Home
from freshet.monitor import RebuildStatus
from freshet.pipeline import rebuild_mark
from freshet.pipeline.rebuild_mark import Keeper, Mark
from freshet.settings import Settings
from freshet.sink import Ledger
from freshet.sink.ledger import FAILED
from freshet.sink.tombstones import Tombstones, buried
from freshet.stores import copies, file_systems
from freshet.stores.lance_tables import TABLE_ID, LanceTable

REBUILT_AS: Final = "freshet.rebuild"
"""Where an index's metadata, and the commit that made it, say which rebuild made it."""
_KEYS_AT_ONCE: Final = 8_192


def fingerprint(settings: Settings) -> str:
    """Tells settings apart that make other rows of the same Bronze."""
    parts = {
        "gold": settings.gold.model_dump(mode="json"),
        "embedding": settings.embedding.model_dump(mode="json"),
        "metric": settings.index.metric,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def rebuilt_as(home: Home) -> str | None:
    """Which rebuild made the live index; None if none did."""
    try:
        return LanceTable.open(home.index).metadata.get(REBUILT_AS)
    except TableMissingError:
        return None


def is_switched(home: Home, mark: Mark) -> bool:
    """Whether the rebuild of a mark is the live index already."""
    return bool(mark.rebuild_id) and rebuilt_as(home) == mark.rebuild_id


def events_read(home: Home, ledger: Ledger) -> int:
    """Events of Bronze that are in the table beside; 0 if there is none."""
    try:
        table_id = LanceTable.open(home.rebuilt).metadata.get(TABLE_ID)
    except TableMissingError:
        return 0
    rows = ledger.rows(home.name, REBUILD)
    own = (row for row in rows if row["table_id"] == table_id and row["status"] != FAILED)
    return sum(row["rows_in"] for row in own)


def status(home: Home) -> RebuildStatus | None:
    """How far a rebuild is; None if there is none."""
    mark = rebuild_mark.read(home)
    if mark is None:
        return None
    counts = bronze.count(home.bronze)
    of_events = counts.rows - counts.errors
    read = min(events_read(home, Ledger(home.ledger)), of_events)
    return RebuildStatus(read, of_events, mark.is_active(utc_now()))


def bury_all(home: Home, at: datetime) -> None:
    """Tombstones of the table beside go to those of the live index, if they are news there."""
    live = Tombstones.beside(home.index)
    floor = Tombstones.beside(home.rebuilt).floor()
    if floor > live.floor():
        live.bury({}, at, floor)
    for graves in _graves(Tombstones.beside(home.rebuilt).uri):
        known = buried(live.uri, list(graves))
        live.bury({key: v for key, v in graves.items() if v > known.get(str(key), "")}, at)


def watch_all(home: Home, at: datetime) -> None:
    """Keys that the table beside watches are watched by the live index, too."""
    live, made = Watched(home.index), Watched(home.rebuilt)
    live.add(set(_watches(made.uri)) - set(_watches(live.uri)), at)


def _watches(uri: str) -> Iterator[Watch]:
    if not LanceTable.exists(uri):
        return
    table = LanceTable.open(uri)
    for batch in table.read(Watch._fields, table.fragment_ids):
        yield from (Watch(**row) for row in batch.to_pylist())


def _graves(uri: str) -> Iterator[dict[str | int, str]]:
    """Keys with the versions that deleted them, some thousands at a time."""
    if not LanceTable.exists(uri):
        return
    table, some = LanceTable.open(uri), dict[str | int, str]()
    for batch in table.read(("key", "record_version"), table.fragment_ids):
        for row in batch.to_pylist():
            if row["key"] is not None:  # a floor, for all keys
                some[row["key"]] = max(row["record_version"], some.get(row["key"], ""))
        if len(some) >= _KEYS_AT_ONCE:
            yield some
            some = {}
    if some:
        yield some


def drop(home: Home) -> None:
    """Removes the table beside and all that goes with it.

    A kill on the way leaves some of it, so the mark must not ask anybody to go on with it then.
    """
    copies.delete_folder(home.checkpoint(REBUILD))
    copies.delete_folder(home.rebuilt)
    copies.delete_folder(Tombstones.beside(home.rebuilt).uri)
    copies.delete_folder(Watched(home.rebuilt).uri)


def forget(home: Home) -> bool:
    """Drops a rebuild that did not come to its end, whatever is left of it; false if none was."""
    if rebuild_mark.read(home) is None:
        return False
    with Keeper(home, utc_now) as keeper:
        keeper.become(Mark("", "", utc_now()))
        drop(home)
        keeper.remove()
    return True


def tidy(home: Home, now: datetime) -> None:
    """Removes what a rebuild left that was killed after its switch; a look at one file if none."""
    mark = rebuild_mark.read(home)
    if mark is None or mark.is_active(now) or not is_switched(home, mark):
        return
    emit("pipeline", "rebuild_cleared", rebuild=mark.rebuild_id)
    drop(home)
    file_systems.delete_file(rebuild_mark.place_of(home))
