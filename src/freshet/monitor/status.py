"""The status of a pipeline: files, Bronze, index, optimizer, last batch. Reads only, no Spark."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from freshet import schemas
from freshet.errors import TableMissingError
from freshet.monitor.freshness import Freshness
from freshet.monitor.optimizer import OptimizerStatus, ProbeStatus
from freshet.monitor.trigger import ShortTrigger
from freshet.stores.lance_shape import shape_of
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
    """The index as it is now."""

    rows: int = 0
    keys: int = 0
    version: int = 0
    fragments: int = 0
    unindexed_rows: int = 0
    """Those that a vector search compares one by one."""
    index_parts: int = 0
    """Of the vector index; none if there is no such index."""
    deleted_rows: int = 0
    """That still take room in the data files."""
    versions: int = 0
    """That are kept."""
    bytes: int = 0
    """Of all files of the table."""
    manifest_bytes: int = 0
    """Of the largest manifest; every commit writes about as much."""
    held: int = 0
    """Records of which an event waits for a value that the tool left out."""
    refused: int = 0
    """Rows without a vector, because the model does not take their texts."""

    @classmethod
    def of(cls, uri: str, *, held: int = 0) -> "IndexStatus":
        """The figures of an index, all of one version; zero if it has not been made yet."""
        try:
            shape = shape_of(uri)
        except TableMissingError:
            return cls(held=held)
        table, index = LanceTable.open(uri, version=shape.version), shape.index_on("vector")
        # An index that was made before does not tell.
        is_told = schemas.EMBEDDING_ERROR in table.schema.names
        return cls(
            rows=shape.rows,
            keys=table.count("chunk = 0"),
            version=shape.version,
            fragments=len(shape.fragments),
            unindexed_rows=shape.rows if index is None else index.unindexed_rows,
            index_parts=0 if index is None else len(index.parts),
            deleted_rows=shape.deleted,
            versions=shape.manifests,
            bytes=shape.bytes,
            manifest_bytes=shape.manifest_bytes,
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
class SinkStatus:
    """A further sink, and its newest batch."""

    name: str
    kind: str
    mode: str
    last_batch: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Status:
    """Where a pipeline stands."""

    pipeline: str
    files: FilesStatus
    bronze: BronzeStatus
    schema: SchemaStatus
    index: IndexStatus
    probe: ProbeStatus | None
    optimizer: OptimizerStatus
    last_batch: Mapping[str, Any] | None
    rebuild: RebuildStatus | None = None
    short_trigger: ShortTrigger | None = None
    """Set if the last batches took too long for the trigger."""
    sinks: tuple[SinkStatus, ...] = ()
    freshness: Freshness | None = None

    def as_dict(self) -> dict[str, Any]:
        """The form that `--json` prints."""
        return asdict(self)
