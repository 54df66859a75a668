"""A database table that changes at random, as Debezium on Postgres tells of it, and its end."""

import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PLACEHOLDER = "__debezium_unavailable_value"
LARGE = ("body", "notes")
Row = dict[str, Any]


@dataclass
class Source:
    """A table and the events of all that happened to it, in the order in which it happened."""

    seed: int
    keys: int = 300
    rows: dict[str, Row] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chooser = random.Random(self.seed)
        self._lsn = 1_000
        self._commit: int | None = None

    def live(self, events: int, *, with_truncate: bool = True) -> None:
        """A snapshot of some rows, and then everything that can happen to a row."""
        for number in range(0, self.keys, 3):
            self._put(f"k{number}", whole=True, op="r")
        truncate_at = events // 3 if with_truncate else -1
        while len(self.events) < events:
            self._transaction()
            if 0 <= truncate_at <= len(self.events):
                truncate_at = -1
                self._truncate()

    def _transaction(self) -> None:
        order = 0
        for _ in range(self._chooser.choice((1, 1, 1, 2, 5))):
            order += self._anything(order + 1)
        self._commit = self._lsn

    def _anything(self, order: int) -> int:
        """One statement; returns how many events of the transaction it made."""
        key = f"k{self._chooser.randrange(self.keys)}"
        if key not in self.rows:
            self._put(key, whole=True, op="c", order=order)
            return 1
        match self._chooser.choices(
            ("title", "whole", "delete", "move", "reborn", "read"), (8, 2, 2, 1, 1, 1)
        ):
            case ["title"]:
                self._put(key, whole=False, op="u", order=order)
            case ["whole"]:
                self._put(key, whole=True, op="u", order=order)
            case ["delete"]:
                self._delete(key, order)
            case ["move"]:
                return self._move(key, order)
            case ["reborn"]:
                self._delete(key, order)
                self._put(key, whole=True, op="c", order=order + 1)
                return 2
            case _:
                # An incremental snapshot reads the row as it is, at the place of the last event.
                self._tell("r", key, after=self.rows[key], snapshot="incremental", moves_on=False)
                return 0
        return 1

    def _put(self, key: str, *, whole: bool, op: str, order: int | None = None) -> None:
        self._lsn += 8
        row = self.rows.setdefault(key, {})
        row |= {"id": key, "title": f"title {self._lsn}", "views": self._lsn}
        if whole:
            row |= {name: f"{name} of {key} at {self._lsn}" for name in LARGE}
        self._tell(op, key, after=row if whole else left_out(row), order=order)

    def _delete(self, key: str, order: int, headers: Row | None = None) -> None:
        self._lsn += 8
        del self.rows[key]
        before = {"id": key, "title": None, "views": None, "body": None, "notes": None}
        self._tell("d", key, before=before, order=order, headers=headers)
        self.events.append(json.dumps({"key": {"id": key}, "value": None, "headers": []}))

    def _move(self, key: str, order: int) -> int:
        new = next((f"k{n}" for n in range(self.keys, 9_999) if f"k{n}" not in self.rows), "")
        row = self.rows[key]
        self._delete(key, order, {"__debezium.newkey": {"id": new}})
        self.rows[new] = row | {"id": new, "title": f"moved {self._lsn}"}
        after = left_out(self.rows[new])
        headers = {"__debezium.oldkey": {"id": key}}
        self._tell("c", new, after=after, order=order + 1, headers=headers, moves_on=False)
        return 2

    def _truncate(self) -> None:
        self._lsn += 8
        self.rows.clear()
        self._tell("t", None, order=1)
        self._commit = self._lsn

    def _tell(
        self,
        op: str,
        key: str | None,
        *,
        before: Row | None = None,
        after: Row | None = None,
        order: int | None = None,
        headers: Row | None = None,
        snapshot: str = "false",
        moves_on: bool = True,
    ) -> None:
        commit = None if self._commit is None else str(self._commit)
        source = {
            "connector": "postgresql",
            "ts_ms": 1_794_729_109_775 + self._lsn // 64,
            "snapshot": "true" if op == "r" and moves_on else snapshot,
            "sequence": json.dumps([commit, str(self._lsn)]),
            "lsn": self._lsn if snapshot == "false" else None,
            "schema": "public",
            "table": "docs",
        }
        transaction = None if order is None else {"id": str(commit), "total_order": order}
        value = {
            "before": before,
            "after": None if after is None else dict(after),
            "source": source,
            "transaction": transaction,
            "op": op,
        }
        wrapped = [{"key": name, "value": json.dumps(was)} for name, was in (headers or {}).items()]
        record = {"key": key and {"id": key}, "value": value, "headers": wrapped}
        self.events.append(json.dumps(record))

    def land(
        self, folder: Path, *, files: int, order: random.Random | None = None, again: float = 0.0
    ) -> list[list[str]]:
        """Writes the events over some files, shuffled and in part delivered twice if asked to."""
        told = list(self.events)
        if order is not None:
            told += order.sample(told, int(len(told) * again))
            order.shuffle(told)
        size = -(-len(told) // files)
        cut = [told[start : start + size] for start in range(0, len(told), size)]
        for number, lines in enumerate(cut):
            land(folder, f"{number:04d}.json", lines)
        return cut

    def expected(self) -> dict[str, tuple[str, int]]:
        """What the index must hold: key → (text, views)."""
        return {
            key: (f"{row['title']}\n{row['body']}", row["views"]) for key, row in self.rows.items()
        }


def left_out(row: Row) -> Row:
    """The row as Debezium tells it when its large values did not change."""
    return row | {"body": PLACEHOLDER, "notes": [PLACEHOLDER]}


def land(folder: Path, name: str, lines: list[str]) -> None:
    """Writes a file of the landing zone at once."""
    folder.mkdir(exist_ok=True)
    hidden = folder / f".{name}"
    hidden.write_text("".join(f"{line}\n" for line in lines))
    hidden.rename(folder / name)


def indexed(home: Path, name: str = "docs") -> dict[str, tuple[str, int]]:
    """What is in the index; fails on a key that stands twice."""
    import lancedb

    rows = lancedb.connect(home / "index").open_table(name).to_arrow()
    columns = [rows.column(column).to_pylist() for column in ("key", "text", "views")]
    found = {key: (text, views) for key, text, views in zip(*columns, strict=True)}
    assert len(found) == rows.num_rows, "a key stands twice"
    return found
