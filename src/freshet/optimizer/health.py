"""How the index fares over time: one row a look, in the ledger's manner."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from freshet import schemas
from freshet.stores.delta_tables import SmallTable
from freshet.stores.lance_shape import TableShape
from freshet.stores.sql import quoted

_LOOKS_BACK: Final = timedelta(days=1)


class Probed(Protocol):
    """What a probe of the search found."""

    @property
    def p50_ms(self) -> float:
        """The median."""
        ...

    @property
    def p95_ms(self) -> float:
        """95 of 100 are as fast."""
        ...

    @property
    def p99_ms(self) -> float:
        """99 of 100 are as fast."""
        ...

    @property
    def recall(self) -> float:
        """The share of the true neighbours that was found."""
        ...


@dataclass(frozen=True)
class Health:
    """One look at the index; what only a probe tells is None between probes."""

    pipeline: str
    at: datetime
    version: int
    rows: int
    deleted_rows: int
    fragments: int
    unindexed_rows: int
    """Those that a vector search compares one by one."""
    index_parts: int
    """Of the vector index."""
    versions: int
    bytes: int
    manifest_bytes: int
    query_p50_ms: float | None = None
    query_p95_ms: float | None = None
    query_p99_ms: float | None = None
    recall: float | None = None
    """The share of the true ten nearest that the index finds."""

    @classmethod
    def of(
        cls, pipeline: str, at: datetime, shape: TableShape, probed: Probed | None = None
    ) -> "Health":
        """What a shape tells, and a probe if there was one."""
        index = shape.index_on("vector")
        return cls(
            pipeline=pipeline,
            at=at,
            version=shape.version,
            rows=shape.rows,
            deleted_rows=shape.deleted,
            fragments=len(shape.fragments),
            unindexed_rows=shape.rows if index is None else index.unindexed_rows,
            index_parts=0 if index is None else len(index.parts),
            versions=len(shape.versions),
            bytes=shape.bytes,
            manifest_bytes=shape.manifest_bytes,
            query_p50_ms=None if probed is None else probed.p50_ms,
            query_p95_ms=None if probed is None else probed.p95_ms,
            query_p99_ms=None if probed is None else probed.p99_ms,
            recall=None if probed is None else probed.recall,
        )


class HealthRecords:
    """The looks at one pipeline's index."""

    def __init__(self, uri: str, pipeline: str) -> None:
        self._table = SmallTable(uri, schemas.HEALTH)
        self._pipeline = pipeline
        self._known: list[Health] | None = None

    def add(self, health: Health) -> None:
        """One row more."""
        self._table.append([asdict(health)])
        if self._known is not None:
            self._known.append(health)

    def latest(self, now: datetime, within: timedelta = _LOOKS_BACK) -> list[Health]:
        """The looks of some time, oldest first."""
        since = (now - within).isoformat()
        where = f"pipeline = {quoted(self._pipeline)} AND at >= {quoted(since)}"
        found = [_health(row) for row in self._table.read(where=where)]
        self._known = sorted(found, key=lambda health: health.at)
        return list(self._known)

    def known(self, now: datetime) -> list[Health]:
        """The looks as `latest` read them last, and those added since; only these are held."""
        return self.latest(now) if self._known is None else list(self._known)

    def forget_before(self, moment: datetime) -> None:
        """Removes older rows. To be called before this object, or another one, adds any."""
        self._table.forget(f"at < {quoted(moment.isoformat())}")


def _health(row: dict[str, Any]) -> Health:
    return Health(**{field.name: row[field.name] for field in fields(Health)})


def last_probe(looks: Sequence[Health]) -> Health | None:
    """The newest look that came with a probe."""
    return next((one for one in reversed(looks) if one.recall is not None), None)


def recalls_since(looks: Sequence[Health], moment: datetime | None) -> list[float]:
    """What probes found after a moment, or in all of the looks, oldest first."""
    return [
        one.recall
        for one in looks
        if one.recall is not None and (moment is None or one.at > moment)
    ]
