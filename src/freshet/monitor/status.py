"""The status of a pipeline: files, Bronze, index and the last batch. Reads only, without Spark."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from freshet import schemas
from freshet.errors import TableMissingError
from freshet.monitor.trigger import ShortTrigger
from freshet.stores.lance_tables import LanceTable


@dataclass(frozen=True)
class FilesStatus:
    """Files that were discovered, and files that no finished batch has read."""

    seen: int
    waiting: int
    waiting_bytes: int = 0


@dataclass(frozen=True)
class BronzeStatus:
    """Events, and those of them in quarantine."""

    rows: int
    errors: int
    envelopes: tuple[str, ...] = ()
    """As what they were understood."""


@dataclass(frozen=True)
class SchemaStatus:
    """The records' schema: what waits to be accepted, and values that did not fit."""

    version: int = 0
    columns: int = 0
    pending: int = 0
    conflicts: int = 0


@dataclass(frozen=True)
class IndexStatus:
    """The index; `unindexed_rows` are those that a vector search scans."""

    rows: int = 0
    keys: int = 0
    version: int = 0
    fragments: int = 0
    unindexed_rows: int = 0
    held: int = 0
    """Records of which an event waits for a value that the tool left out."""
    refused: int = 0
    """Rows without a vector, because the model does not take their texts."""

    @classmethod
    def of(cls, uri: str, *, held: int = 0) -> "IndexStatus":
        """The figures of an index; all zero if it has not been made yet."""
        try:
            table = LanceTable.open(uri)
        except TableMissingError:
            return cls(held=held)
        # An index that was made before does not tell.
        is_told = schemas.EMBEDDING_ERROR in table.schema.names
        return cls(
            rows=table.count(),
            keys=table.count("chunk = 0"),
            version=table.version,
            fragments=len(table.fragment_ids),
            unindexed_rows=table.unindexed("vector")[1],
            held=held,
            refused=table.count(schemas.IS_REFUSED) if is_told else 0,
        )


@dataclass(frozen=True)
class RebuildStatus:
    """A rebuild that has not come to its end: how many of Bronze's events it has read."""

    events: int
    of_events: int
    is_active: bool
    """Whether somebody is at it, or it waits to be gone on with."""


@dataclass(frozen=True)
class Status:
    """Where a pipeline stands."""

    pipeline: str
    files: FilesStatus
    bronze: BronzeStatus
    schema: SchemaStatus
    index: IndexStatus
    last_batch: Mapping[str, Any] | None
    rebuild: RebuildStatus | None = None
    short_trigger: ShortTrigger | None = None
    """Set if the last batches took too long for the trigger."""

    def as_dict(self) -> dict[str, Any]:
        """The form that `--json` prints."""
        return asdict(self)
