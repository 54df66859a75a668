"""`backup`: checkpoints and small tables in one dated, checksummed copy.

Guarantee: a folder with a manifest is a whole and consistent copy, made while the pipeline runs or
not: every finished batch of a copied checkpoint was planned in it, and the copied tables have all
that it needs, since they are copied after it and only grow. A crash may leave a folder without a
manifest; it is no backup, and a later one removes it.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from freshet.errors import StoreError, TableMissingError
from freshet.events import emit
from freshet.layout import INDEX, INGEST, Home
from freshet.recovery.facts import IndexTable, NumberedTable, small_tables
from freshet.recovery.manifest import (
    MANIFEST,
    NAMES,
    Backup,
    CopiedQuery,
    CopiedTable,
    Manifest,
    TableVersion,
    backups_in,
)
from freshet.stores import checkpoints, copies, delta_snapshots, delta_tables
from freshet.stores.copies import Content

CHECKPOINTS: Final = "checkpoints"
TABLES: Final = "tables"
_ABANDONED_AFTER: Final = timedelta(days=1)
_TRIES: Final = 3


def backup(home: Home, place: str, *, keep: int, clock: Callable[[], datetime]) -> Backup:
    """Makes a backup in a folder and removes the oldest ones; safe while a run is active."""
    if not checkpoints.read(home.checkpoint(INGEST)).is_there:
        raise TableMissingError("checkpoint", home.checkpoint(INGEST))
    now = clock()
    uri = copies.free_place(f"{place.rstrip('/')}/{now:{NAMES}}")
    try:
        made = _copy(home, uri, now)
    except BaseException:
        copies.delete_folder(uri)
        raise
    emit("recovery", "backup_made", backup=uri, files=len(made.manifest.files), bytes=made.bytes)
    _remove_old(place, home.name, keep, now)
    return made


def _copy(home: Home, uri: str, now: datetime) -> Backup:
    # Checkpoints before tables: what a checkpoint names is then in the tables, which only grow.
    files: dict[str, Content] = {}
    queries = {
        query: _copy_checkpoint(home.checkpoint(query), f"{uri}/{CHECKPOINTS}/{query}", files)
        for query in (INDEX, INGEST)
    }
    tables = _copy_tables(home, uri, files)
    index = IndexTable.of(home.index)
    manifest = Manifest(
        pipeline=home.name,
        made_at=now,
        queries=queries,
        tables=tables,
        bronze=_bronze(NumberedTable.of(home.bronze)),
        index=None if index is None else TableVersion(index.table_id, index.version),
        files=files,
    )
    copies.write(f"{uri}/{MANIFEST}", manifest.to_bytes())
    return Backup(uri, manifest)


def _copy_checkpoint(source: str, target: str, files: dict[str, Content]) -> CopiedQuery:
    """Copies until no batch began meanwhile that would have spoilt the copy."""
    for _ in range(_TRIES):
        copied = _copy_once(source, target)
        found = checkpoints.read(target)
        if not found.problems:
            prefix = f"{CHECKPOINTS}/{target.rpartition('/')[2]}"
            files.update({f"{prefix}/{name}": content for name, content in copied.items()})
            return CopiedQuery(found.query_id, found.newest_commit, found.end(found.newest))
        copies.delete_folder(target)
    raise StoreError("back up the checkpoint", source, found.problems[0])


def _copy_once(source: str, target: str) -> Mapping[str, Content]:
    copied: dict[str, Content] = {}
    # Commits before the rest: every batch that is copied as finished is then copied as planned.
    for is_commit in (True, False):
        for name in copies.files_below(source):
            if _is_hidden(name) or name.startswith(f"{checkpoints.COMMITS}/") != is_commit:
                continue
            with suppress(FileNotFoundError):  # Spark removes old batches
                copied[name] = copies.copy(f"{source}/{name}", f"{target}/{name}")
    return copied


def _is_hidden(name: str) -> bool:
    """Hadoop's checksums and files that are being written; neither is part of a checkpoint."""
    return any(part.startswith(".") for part in name.split("/"))


def _copy_tables(home: Home, uri: str, files: dict[str, Content]) -> dict[str, CopiedTable]:
    copied = {}
    for name, table in small_tables(home).items():
        if not delta_tables.exists(table):
            continue
        target = f"{TABLES}/{name}.parquet"
        made = _export(table, f"{uri}/{target}")
        files[target] = copies.content_of(f"{uri}/{target}")
        copied[name] = CopiedTable(made.rows, made.version, made.configuration)
    return copied


def _export(table: str, target: str) -> delta_snapshots.Exported:
    """Tries again, since the upkeep of a running pipeline may have removed what was to be read."""
    for _ in range(1, _TRIES):
        try:
            return delta_snapshots.export(table, target)
        except StoreError as error:
            emit("recovery", "table_read_again", table=table, error=error)
    return delta_snapshots.export(table, target)


def _bronze(found: NumberedTable) -> TableVersion | None:
    if found.table_id is None:
        return None
    return TableVersion(found.table_id, found.version, found.end)


def _remove_old(place: str, pipeline: str, keep: int, now: datetime) -> None:
    """Removes all but the newest ones, each with its manifest first, and abandoned copies."""
    for old in backups_in(place, pipeline)[:-keep]:
        copies.delete_folder(old.uri, first=MANIFEST)
        emit("recovery", "backup_removed", backup=old.uri)
    for name in copies.folders_in(place):
        uri = f"{place.rstrip('/')}/{name}"
        begun = _time_of(name)
        is_old = begun is not None and now - begun > _ABANDONED_AFTER
        if is_old and not copies.is_there(f"{uri}/{MANIFEST}"):
            copies.delete_folder(uri)


def _time_of(name: str) -> datetime | None:
    try:
        return datetime.strptime(name.partition("-")[0], NAMES).replace(tzinfo=UTC)
    except ValueError:
        return None
