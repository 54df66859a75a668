"""A driver process without Spark: the commit protocol on real tables, with everything it needs."""

import itertools
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import lance
import pyarrow as pa

from freshet.sink import BatchReport, Ledger, Mode, Probe
from freshet.sink.commit_protocol import CommitProtocol
from freshet.sink.prepared import Prepared
from freshet.sink.stamps import Batch, Counts
from freshet.sink.steps import no_probe
from freshet.sink.target import Target
from freshet.sink.tombstones import Tombstones
from freshet.stores.lance_tables import LanceTable
from freshet.testing.batches import prepared_here

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema([("key", pa.string()), ("record_version", pa.string()), ("note", pa.string())])
EVENTS = pa.schema([*SCHEMA, ("is_deleted", pa.bool_())])

_TICKS = itertools.count()

Event = tuple[str, int, str | None]
"""Key, version and note; no note: deleted."""


def tick() -> datetime:
    """The clock of all drivers: every look at it is a second later."""
    return NOW + timedelta(seconds=next(_TICKS))


@dataclass
class Driver:
    """Forgets everything when it is made anew, as a restart does."""

    folder: Path
    mode: Mode = Mode.UPDATE
    probe: Probe = no_probe
    query_id: str = "query"
    pipeline: str = "tests"
    sink: str = "index"
    name: str = ""
    takes_over: bool = False

    def __post_init__(self) -> None:
        self.uri = str(self.folder / f"{self.name or self.pipeline}.lance")
        self.ledger = Ledger(str(self.folder / "ledger"))
        self.tombstones = Tombstones.beside(self.uri)
        key = "key" if self.mode is Mode.UPDATE else None
        self.protocol = CommitProtocol(
            Target(self.uri, self.pipeline, self.sink, self.mode, key, self.takes_over),
            create_table=lambda: LanceTable.create(self.uri, SCHEMA, key=key),
            ledger=self.ledger,
            tombstones=self.tombstones,
            clock=tick,
            probe=self.probe,
        )

    def write(
        self, batch_id: int, *events: Event | str, offsets: str | None = None
    ) -> BatchReport | None:
        """One batch; a mere key stands for its first version."""
        whole = [(event, 1, "x") if isinstance(event, str) else event for event in events]
        ends = offsets or f"at {batch_id}"
        batch = Batch(self.pipeline, self.sink, self.query_id, batch_id, ends)
        return self.protocol.write(batch, lambda table, at: self._prepare(table, at, whole))

    def _prepare(self, table: LanceTable, at: datetime, events: list[Event]) -> Prepared:
        rows = [
            {
                "key": key,
                "record_version": f"P{version:03d}",
                "note": note,
                "is_deleted": note is None,
            }
            for key, version, note in events
        ]
        records = pa.Table.from_pylist(rows, schema=EVENTS)
        if self.mode is not Mode.UPDATE:
            files = table.write_files(records.select(SCHEMA.names).to_reader())
            whole = SCHEMA if self.mode is Mode.COMPLETE else None
            return Prepared(files, counts=Counts(rows_in=len(rows)), schema=whole)
        return prepared_here(table, self.tombstones, SCHEMA, records, at)

    def contents(self) -> dict[str, str]:
        """Notes by key; no key may stand twice."""
        rows = lance.dataset(self.uri).to_table(["key", "note"]).to_pylist()
        assert len(rows) == len({row["key"] for row in rows}), "a key stands twice"
        return {row["key"]: row["note"] for row in rows}

    def keys(self) -> list[str]:
        """Every key as often as it stands."""
        found: list[str] = lance.dataset(self.uri).to_table(["key"]).column("key").to_pylist()
        return sorted(found)

    def version(self) -> int:
        """The newest version of the table."""
        return int(lance.dataset(self.uri).version)

    def data_files(self) -> int:
        """Data files that are there, whether a version names them or not."""
        return len(list((Path(self.uri) / "data").glob("*.lance")))

    def statuses(self, batch_id: int) -> list[str]:
        """What the ledger has of a batch, in the order of writing."""
        return [status for number, status in self.tries() if number == batch_id]

    def landed(self) -> list[tuple[int, str]]:
        """Batches that took effect."""
        return [(number, status) for number, status in self.tries() if status != "failed"]

    def tries(self) -> list[tuple[int, str]]:
        """All rows of the ledger: batch and status."""
        rows = self.ledger.rows(self.pipeline, self.sink)
        return [(row["batch_id"], row["status"]) for row in rows]
