"""How fast the index grows, as the ledger tells. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any, Final

from freshet.calibration.evidence import Growth

_RECENT: Final = timedelta(days=1)
_LEAST_SPAN_S: Final = 1.0


def growth_of(ledger: Sequence[Mapping[str, Any]], rows_per_record: float) -> Growth | None:
    """Of the batches that wrote rows in the last day on record; None if there are none.

    The ledger counts records, and a record is `rows_per_record` rows of the index. Rows come oldest
    first.
    """
    landed = [row for row in ledger if row["error"] is None and row["rows_upserted"]]
    if not landed:
        return None
    since = landed[-1]["finished_at"] - _RECENT
    recent = [row for row in landed if row["finished_at"] > since]
    start: datetime = min(row["started_at"] for row in recent)
    span_s = max((recent[-1]["finished_at"] - start).total_seconds(), _LEAST_SPAN_S)
    so_far = list(accumulate(row["rows_upserted"] * rows_per_record for row in recent))
    hours = ((row["finished_at"] - start).total_seconds() / 3_600 for row in recent)
    return Growth(
        rows_per_hour=so_far[-1] * 3_600 / span_s,
        batches_per_hour=len(recent) * 3_600 / span_s,
        batches=len(recent),
        span_s=span_s,
        steps=tuple(zip(hours, so_far, strict=True)),
    )


def told(rows_per_hour: float, trigger_s: float) -> Growth:
    """As somebody says: in a batch for each trigger, if there are rows enough."""
    return Growth(rows_per_hour, min(rows_per_hour, 3_600 / trigger_s))
