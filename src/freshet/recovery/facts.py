"""What is known of a pipeline's state: its checkpoints, and what the tables say to them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from freshet.layout import INDEX, INGEST, Home
from freshet.stores import checkpoints, delta_facts
from freshet.stores.checkpoints import Checkpoint
from freshet.stores.lance_tables import TABLE_ID, LanceTable


def small_tables(home: Home) -> Mapping[str, str]:
    """The tables that go with the checkpoints, by the names that they have in a backup."""
    return {
        "files": home.files,
        "files_history": f"{home.files}_history",
        "files_retries": f"{home.files}_retries",
        "ledger": home.ledger,
        "ledger_leases": f"{home.ledger}_leases",
        "schema": home.schema,
    }


@dataclass(frozen=True)
class NumberedTable:
    """Bronze or the files table, as far as file numbers go."""

    table_id: str | None = None
    """None if there is no table."""
    version: int = -1
    rows: int = 0
    first: int = 0
    """The least number; that of the first file, if none is missing."""
    end: int = 0
    """The first number after all that it has."""
    transaction: int | None = None
    """Bronze: the newest batch that the ingest query has committed to it."""

    @classmethod
    def of(cls, uri: str, query_id: str | None = None) -> Self:
        """From the table's log."""
        found = delta_facts.log_facts(uri, "seq", query_id)
        if found is None:
            return cls()
        return cls(
            table_id=found.table_id,
            version=found.version,
            rows=found.rows,
            first=found.least or 0,
            end=0 if found.greatest is None else found.greatest + 1,
            transaction=found.transaction,
        )


@dataclass(frozen=True)
class IndexTable:
    """The index, as far as it matters here."""

    table_id: str
    version: int

    @classmethod
    def of(cls, uri: str) -> Self | None:
        """None if there is no index yet."""
        if not LanceTable.exists(uri):
            return None
        table = LanceTable.open(uri)
        return cls(table.metadata.get(TABLE_ID, ""), table.version)


@dataclass(frozen=True)
class Landed:
    """The newest batch that has landed in the index, as ledger or index tell it."""

    query_id: str
    batch_id: int
    end: str | None = None
    """Where it ends in Bronze, as Spark writes it."""
    table_version: int | None = None


@dataclass(frozen=True)
class BronzePlace:
    """A place in Bronze, as Delta's streaming source writes it."""

    table_id: str
    version: int

    @classmethod
    def of(cls, offset: Any) -> Self | None:
        """None if it is not such an offset."""
        try:
            return cls(str(offset["reservoirId"]), int(offset["reservoirVersion"]))
        except (LookupError, TypeError, ValueError):
            return None

    @classmethod
    def parse(cls, text: str | None) -> Self | None:
        """As `of`, from what stands on record."""
        return None if text is None else cls.of(json.loads(text))

    def is_in(self, bronze: NumberedTable) -> bool:
        """Whether Bronze is that table, and has come that far."""
        # After the last version a source stands before the next one, which need not be there yet.
        return self.table_id == bronze.table_id and self.version <= bronze.version + 1


@dataclass(frozen=True)
class Facts:
    """A pipeline's state, live or in a backup."""

    ingest: Checkpoint
    index: Checkpoint
    bronze: NumberedTable
    files: NumberedTable
    index_table: IndexTable | None

    @property
    def read_up_to(self) -> int | None:
        """The first file that the newest planned ingest batch does not read."""
        return _seq(self.ingest, self.ingest.newest)

    @property
    def committed_up_to(self) -> int | None:
        """The first file that the newest finished ingest batch has not read."""
        return _seq(self.ingest, self.ingest.newest_commit)

    @property
    def place(self) -> BronzePlace | None:
        """Where the newest planned index batch ends."""
        return BronzePlace.of(self.index.end(self.index.newest))


def gather(home: Home, *, thoroughly: bool = False) -> Facts:
    """The live state; a few small files and the logs of three tables, but no rows."""
    ingest = checkpoints.read(home.checkpoint(INGEST), thoroughly=thoroughly)
    return Facts(
        ingest=ingest,
        index=checkpoints.read(home.checkpoint(INDEX), thoroughly=thoroughly),
        bronze=NumberedTable.of(home.bronze, ingest.query_id),
        files=NumberedTable.of(home.files),
        index_table=IndexTable.of(home.index),
    )


def _seq(checkpoint: Checkpoint, batch_id: int | None) -> int | None:
    offset = checkpoint.end(batch_id)
    found = offset.get("seq") if isinstance(offset, dict) else None
    return found if isinstance(found, int) else None
