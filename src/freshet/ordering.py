"""Which of several events of one key counts: the greatest version, and a delete on a full tie.

The version of a record whose newest event left values out names, after its own, the versions that
those values come from: `V + S + S`. The sign sorts below everything that can follow a version, so
that the record stays older than every newer event, and becomes newer when a better value is found.
"""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

_RANK: Final = "__freshet_rank"
_FILLED_FROM: Final = " + "


def filled_version(version: str, sources: Iterable[str]) -> str:
    """The version of a record with values of other versions, in the order of the fields' names."""
    return _FILLED_FROM.join((version, *sources))


def version_of_event(version: str) -> str:
    """The version of a record's newest event alone."""
    return version.split(_FILLED_FROM, 1)[0]


def is_filled_from_before(version: str, event: str) -> bool:
    """Whether a record has a value from before an event, which may therefore have a better one."""
    _, *sources = version.split(_FILLED_FROM)
    return bool(sources) and min(sources) < event


def latest(
    changes: DataFrame,
    *,
    key: str = "key",
    version: str = "record_version",
    deleted: str = "is_deleted",
) -> DataFrame:
    """One row a key: the one with the greatest version; a delete wins a full tie.

    Pure, and the same for a batch, the audit and a rebuild. Deletes stay in: who wants only what
    is alive filters afterwards, since a delete must be known to beat what comes late.
    """
    newest_first = Window.partitionBy(key).orderBy(
        F.col(version).desc(), F.col(deleted).cast("boolean").desc()
    )
    ranked = changes.withColumn(_RANK, F.row_number().over(newest_first))
    return ranked.where(F.col(_RANK) == 1).drop(_RANK)
