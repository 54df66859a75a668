"""What Spark tells of the streaming query that a batch belongs to."""

import hashlib
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

_QUERY_ID: Final = "sql.streaming.queryId"


def query_id_of(rows: DataFrame) -> str | None:
    """The id that Spark gave the query of a batch, kept in its checkpoint; None outside of one."""
    value: str | None = rows.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    return value


def offsets_of(rows: DataFrame, query_id: str, batch_id: int) -> str | None:
    """Digest of where a running batch ends in its sources, as its checkpoint has it.

    Two batches of one number that end at the same place are the same batch. None where this Spark
    does not tell, since it is asked through a door that is not documented.
    """
    session = rows.sparkSession
    try:
        uuid = session.sparkContext._jvm.java.util.UUID.fromString(query_id)  # type: ignore[union-attr]
        query = session._jsparkSession.sharedState().activeStreamingQueries().get(uuid)
        written = query.offsetLog().get(batch_id).get().toString()
    except (AttributeError, Py4JError):
        return None
    return digest(written)


def digest(offsets: str) -> str:
    """Offsets can be long; this much tells them apart."""
    return hashlib.sha256(offsets.encode()).hexdigest()[:16]
