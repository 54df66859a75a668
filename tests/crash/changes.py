"""Change files for crash tests, and a recount of them that uses neither Spark nor Freshet."""

import json
import os
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
from deltalake import DeltaTable

Event = dict[str, Any]
Contents = Counter[tuple[Any, ...]]

COLUMNS = {
    "update": ("key", "record_version", "section", "note"),
    "append": ("key", "record_version", "is_deleted", "section", "note"),
    "complete": ("section", "count"),
}
LANDED = ("committed", "recovered", "replayed")
_HELD_BACK = 200


@dataclass
class Feed:
    """Makes change files: versions out of order, deletes, and events that are delivered again."""

    folder: Path
    seed: int
    keys: int = 150
    events_per_file: int = 60
    files: int = 0
    _versions: Counter[str] = field(default_factory=Counter)
    _waiting: list[Event] = field(default_factory=list)
    _sent: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chooser = random.Random(self.seed)
        self.folder.mkdir(parents=True, exist_ok=True)

    def land(self, files: int = 1) -> None:
        """Adds files, whole from the first moment, with times in the order of their numbers."""
        for _ in range(files):
            path = self.folder / f"{self.files:06d}.json"
            hidden = path.with_name(f".{path.name}")
            lines = (json.dumps(self._next()) for _ in range(self.events_per_file))
            hidden.write_text("".join(f"{line}\n" for line in lines))
            os.utime(hidden, (1_700_000_000 + self.files,) * 2)
            hidden.rename(path)
            self.files += 1

    def _next(self) -> Event:
        if self._sent and self._chooser.random() < 0.05:
            return self._chooser.choice(self._sent)
        while len(self._waiting) < _HELD_BACK:
            self._waiting.append(self._made())
        event = self._waiting.pop(self._chooser.randrange(_HELD_BACK))
        self._sent = [*self._sent[-500:], event]
        return event

    def _made(self) -> Event:
        key = f"k{self._chooser.randrange(self.keys)}"
        self._versions[key] += 1
        version = self._versions[key]
        return {
            "key": key,
            "record_version": f"{version:08d}",
            "is_deleted": self._chooser.random() < 0.15,
            "section": f"s{self._chooser.randrange(7)}",
            "note": f"{key} edited {version} times",
        }


def recount(mode: str, folder: Path, files: int | None = None) -> Contents:
    """What the table must hold after the first files, counted from the files alone."""
    events = [
        json.loads(line)
        for file in sorted(folder.glob("[0-9]*.json"))[:files]
        for line in file.read_text().splitlines()
    ]
    if mode == "complete":
        return Counter(Counter(event["section"] for event in events).items())
    if mode == "update":
        events = _survivors(events)
    return Counter(tuple(event[column] for column in COLUMNS[mode]) for event in events)


def _survivors(events: Iterable[Event]) -> list[Event]:
    newest: dict[str, Event] = {}
    for event in events:
        held = newest.get(event["key"])
        if held is None or event["record_version"] > held["record_version"]:
            newest[event["key"]] = event
    return [event for event in newest.values() if not event["is_deleted"]]


def contents(mode: str, table: Path, address: str = "") -> Contents:
    """What the table holds, each row with how often it is there; nothing if there is no table.

    With an address it is the table `rows` of a database.
    """
    columns = list(COLUMNS[mode])
    if address:
        return _in_database(address, columns)
    if (table / "_delta_log").exists():
        rows = DeltaTable(table).to_pyarrow_table(columns=columns)
    elif (table / "_versions").exists():
        rows = lance.dataset(str(table)).to_table(columns=columns)
    else:
        return Counter()
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def _in_database(address: str, columns: list[str]) -> Contents:
    import psycopg

    chosen = ", ".join(f'"{column}"' for column in columns)
    with psycopg.connect(address) as connection:
        if connection.execute("SELECT to_regclass('rows')").fetchone() == (None,):
            return Counter()
        return Counter(connection.execute(f"SELECT {chosen} FROM rows").fetchall())


def difference(must: Contents, has: Contents) -> str:
    """What is missing and what is too much, in a few words; empty if nothing is."""
    missing, extra = must - has, has - must
    if not missing and not extra:
        return ""
    examples = [*missing][:2], [*extra][:2]
    return f"{missing.total()} missing, {extra.total()} too many, such as {examples}"


def statuses(ledger: Path) -> dict[int, list[str]]:
    """By batch: how it landed, according to the ledger. More than one status means twice."""
    landed: dict[int, list[str]] = {}
    if not (ledger / "_delta_log").exists():
        return landed
    rows = DeltaTable(ledger).to_pyarrow_table(columns=["batch_id", "status", "finished_at"])
    for row in sorted(rows.to_pylist(), key=lambda row: row["finished_at"]):
        if row["status"] in LANDED:
            landed.setdefault(row["batch_id"], []).append(row["status"])
    return landed


def unnamed_files(table: Path) -> int:
    """Data files that no version of the table names."""
    there = {file.name for file in (table / "data").glob("*.lance")}
    if not there:
        return 0
    newest = lance.dataset(str(table))
    for version in newest.versions():
        for fragment in newest.checkout_version(version["version"]).get_fragments():
            there -= {file.path for file in fragment.metadata.files}
    return len(there)
