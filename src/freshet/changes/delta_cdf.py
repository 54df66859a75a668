"""The `delta-cdf` envelope: rows of a Delta table's change data feed."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from freshet import variants
from freshet.changes import versions
from freshet.changes.envelope import OTHER, Chosen, Envelope, Marks, change, key_of

_TYPE: Final = "_change_type"
_INSERT: Final = "insert"
_AFTER_UPDATE: Final = "update_postimage"
_BEFORE_UPDATE: Final = "update_preimage"
_DELETE: Final = "delete"


def _understand(value: Column, chosen: Chosen) -> Column:
    """The row itself. A MERGE may delete and insert one key in one version: the insert stays."""
    kind, version = variants.text(value, _TYPE), variants.text(value, "_commit_version")
    is_deleted = F.coalesce(kind == _DELETE, F.lit(False))
    return change(
        key=key_of(value, chosen.key),
        op=_op(kind),
        is_deleted=is_deleted,
        position=versions.composed(
            versions.whole(version), versions.whole(F.when(is_deleted, 0).otherwise(1))
        ),
        error=_error(kind, version),
        changed_at=versions.moment_of(variants.text(value, "_commit_timestamp")),
    )


def _op(kind: Column) -> Column:
    return (
        F.when(kind == _INSERT, "c")
        .when(kind == _AFTER_UPDATE, "u")
        .when(kind == _DELETE, "d")
        .when(kind == _BEFORE_UPDATE, OTHER)
    )


def _error(kind: Column, version: Column) -> Column:
    unknown = F.concat(F.lit("the change type "), kind, F.lit(" is not understood"))
    return (
        F.when(kind.isNull(), F.lit(f"not a row of a change data feed: there is no {_TYPE}"))
        .when(_op(kind).isNull(), F.left(unknown, F.lit(200)))
        .when(version.isNull(), F.lit("no value in _commit_version"))
    )


DELTA_CDF: Final = Envelope(
    name="delta-cdf",
    guarantee="Changes of one key are ordered by `_commit_version`; inside one version a delete "
    "comes before an insert or an update, then by arrival. A row without `_commit_version` is not "
    "understood.",
    marks=Marks((((_TYPE,), ("_commit_version",)),)),
    understand=_understand,
)
