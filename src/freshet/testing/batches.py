"""A batch of events prepared in this process: the sink's task for a small batch, without Spark."""

from datetime import datetime

import pyarrow as pa

from freshet.errors import SinkError
from freshet.sink.columns import PlainRows
from freshet.sink.parts_executor import PARTS, Part
from freshet.sink.prepare_executor import Preparation
from freshet.sink.prepared import Prepared
from freshet.sink.preparing import joined
from freshet.sink.tombstones import Tombstones
from freshet.stores.lance_tables import LanceTable


def prepared_here(
    table: LanceTable, tombstones: Tombstones, schema: pa.Schema, events: pa.Table, at: datetime
) -> Prepared:
    """What a batch makes of a table; events have the columns of its rows, and `is_deleted`."""
    preparation = Preparation(
        uri=table.uri,
        version=table.version,
        tombstones_uri=tombstones.uri,
        key="key",
        record_version="record_version",
        deleted="is_deleted",
        builder=PlainRows(schema),
        at=at,
        is_alone=True,
    )
    made = preparation(iter(events.to_batches()))
    parts = Part.all_of(pa.Table.from_batches(made, PARTS))
    if any(part.is_refused for part in parts):
        raise SinkError("these are too many events for one task")
    return joined(parts)
