"""Stamps: how a commit in a table's own history is known as a batch's."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from freshet.errors import HistoryMissingError, StoreError
from freshet.sink.ledger import Counts
from freshet.stores.lance_tables import LanceTable

_COUNTS = "freshet.counts"


@dataclass(frozen=True)
class Batch:
    """A micro-batch of one sink, as Spark numbers it."""

    pipeline: str
    sink: str
    query_id: str
    batch_id: int

    @property
    def stamp(self) -> dict[str, str]:
        """What marks a commit as this batch's."""
        return {
            "freshet.pipeline": self.pipeline,
            "freshet.sink": self.sink,
            "freshet.query": self.query_id,
            "freshet.batch": str(self.batch_id),
        }

    def stamp_with(self, counts: Counts) -> dict[str, str]:
        """The stamp and what the batch did, so that a lost ledger row can be written again."""
        return self.stamp | {_COUNTS: json.dumps(asdict(counts))}


@dataclass(frozen=True)
class Found:
    """A commit that carries the stamp."""

    version: int
    counts: Counts


def find(table: LanceTable, batch: Batch, after: int) -> Found | None:
    """The batch's commit among those after a version.

    Raises `HistoryMissingError` if one of them cannot be read: it may be the one.
    """
    looked_at = after
    try:
        for version, properties in table.stamps(after):
            looked_at = version
            if batch.stamp.items() <= properties.items():
                return Found(version, _counts(properties))
    except StoreError as error:
        raise HistoryMissingError(
            table=table.uri,
            batch_id=batch.batch_id,
            first=after + 1,
            last=table.version,
            missing=looked_at + 1,
        ) from error
    return None


def _counts(properties: Mapping[str, str]) -> Counts:
    return Counts(**json.loads(properties[_COUNTS]))
