"""What Spark tells of the streaming query that a batch belongs to."""

import hashlib
import json
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

QUERY_ID: Final = "sql.streaming.queryId"
"""The local property in which Spark names the query of a batch, on the driver and in tasks."""
_LONGEST: Final = 1_000


def query_id_of(rows: DataFrame) -> str | None:
    """The id that Spark gave the query of a batch, kept in its checkpoint; None outside of one."""
    value: str | None = rows.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    return value


def offsets_of(rows: DataFrame, query_id: str, batch_id: int) -> str | None:
    """When a running batch was planned and where it ends, as its checkpoint has it.

    A batch that is run again has the text that it had; one of the same number that was planned
    anew has another. None where this Spark does not tell: the door is not a documented one.
    """
    session = rows.sparkSession
    try:
        uuid = session.sparkContext._jvm.java.util.UUID.fromString(query_id)  # type: ignore[union-attr]
        query = session._jsparkSession.sharedState().activeStreamingQueries().get(uuid)
        written = query.offsetLog().get(batch_id).get()
        return brief(f"{written.metadataOpt().get().batchTimestampMs()} {written.toString()}")
    except (AttributeError, Py4JError):
        return None


def brief(offsets: str) -> str:
    """Offsets as they are kept on record: in full, or as a digest where they are long."""
    return offsets if len(offsets) <= _LONGEST else digest(offsets)


def end_of(offsets: str | None) -> str | None:
    """Where a batch with these offsets ends in its source; None if that was not kept.

    Only of a query with one source: of several, one could not be told from the other.
    """
    _, _, ends = (offsets or "").partition(" ")
    try:
        found = json.loads(ends)
    except ValueError:
        return None
    is_plain = isinstance(found, list) and len(found) == 1 and isinstance(found[0], dict)
    return ends[1:-1] if is_plain else None


def digest(offsets: str) -> str:
    """Offsets can be long; this much tells them apart."""
    return hashlib.sha256(offsets.encode()).hexdigest()[:16]
