"""Which of several events of one key counts: the greatest version, and a delete on a full tie."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

_RANK = "__freshet_rank"


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
