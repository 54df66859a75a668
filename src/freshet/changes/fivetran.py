"""The `fivetran` envelope: rows with `_fivetran_…` columns, in soft delete or history mode."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from freshet import variants
from freshet.changes import versions
from freshet.changes.envelope import Chosen, Envelope, Marks, change, key_of

_TRUE: Final = ("true", "True", "TRUE", "t", "1")
_FALSE: Final = ("false", "False", "FALSE", "f", "0")
_NOT_THEIRS: Final = "not a row of Fivetran: there is neither _fivetran_synced nor _fivetran_start"
_STILL: Final = "9999-"
"""How `_fivetran_end` of a row that is active begins."""


def _understand(value: Column, chosen: Chosen) -> variants.Steps:
    """The row itself. A past version is a delete at its own place, which the next one undoes."""
    at = yield F.coalesce(_of(value, "start"), _of(value, "synced"))
    is_deleted = yield _is_deleted(value)
    return change(
        key=key_of(value, chosen.key),
        op=F.when(is_deleted, "d").otherwise("u"),
        is_deleted=is_deleted,
        position=versions.composed(
            versions.component(at),
            # A delete that leaves the time as it was must beat the row of that time.
            versions.whole(F.when(is_deleted, 1).otherwise(0)),
            versions.whole(_of(value, "index")),
        ),
        error=F.when(at.isNull(), F.lit(_NOT_THEIRS)),
        changed_at=versions.moment_of(at),
    )


def _of(value: Column, name: str) -> Column:
    return variants.text(value, f"_fivetran_{name}")


def _is_deleted(value: Column) -> Column:
    """In history mode: ended and not active; else: so marked."""
    active, end = _of(value, "active"), _of(value, "end")
    has_ended = F.coalesce(active.isin(*_FALSE) & ~end.startswith(_STILL), F.lit(False))
    is_marked = F.coalesce(_of(value, "deleted").isin(*_TRUE), F.lit(False))
    return F.when(active.isNotNull(), has_ended).otherwise(is_marked)


FIVETRAN: Final = Envelope(
    name="fivetran",
    guarantee="Rows of one key are ordered by `_fivetran_synced`, in history mode by "
    "`_fivetran_start`; at the same time a delete beats a row, then by `_fivetran_index`, then by "
    "arrival. Two changes between two syncs come as one, and a table without a primary key needs "
    "`_fivetran_id` as its key.",
    marks=Marks(((("_fivetran_synced",),), (("_fivetran_start",),))),
    understand=_understand,
)
