"""How a batch is settled: what its events leave out comes from the batch, the index or Bronze."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from freshet.changes import AUTO, ENVELOPES
from freshet.clock import utc_now
from freshet.errors import TableMissingError
from freshet.events import emit, warn
from freshet.gold import HELD, LENT, Watch, Watched, latest
from freshet.gold.settling import (
    Facts,
    above_floor,
    facts_of,
    families,
    parted,
    settle,
    with_moves,
)
from freshet.gold.settling_executor import WAITS, Settling
from freshet.settings import Settings
from freshet.stores.lance_tables import LanceTable

LEAVING_OUT: Final = frozenset(one.name for one in ENVELOPES.values() if one.leaves_out)
"""Envelopes whose events may leave values out."""
_SPECIAL: Final = LEAVING_OUT.union(
    [AUTO], (one.name for one in ENVELOPES.values() if one.tells_of_others)
)
"""Envelopes whose events may not tell all of one record, and of it alone."""


def needed_fields(settings: Settings) -> frozenset[str] | None:
    """Fields whose values matter; None: all."""
    gold = settings.gold
    if gold.takes_all or gold.keep_table:
        return None
    vectors = (name for names in gold.vectors.values() for name in names)
    return frozenset((*gold.text_columns, *gold.attribute_types, *vectors))


class BatchSettling:
    """Settles the batches of one index.

    Memory is bounded by the keys of a batch whose events leave values out. Bronze is looked into
    only for records that neither the batch nor the index can complete.
    """

    def __init__(
        self,
        settings: Settings,
        index_uri: str,
        bronze: Callable[[SparkSession], DataFrame],
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._is_needed = settings.changes.envelope in _SPECIAL
        self._needed = needed_fields(settings)
        self._index_uri = index_uri
        self._bronze = bronze
        self._clock = clock
        self.watched = Watched(index_uri)
        self._cached: list[DataFrame] = []
        self._completed: set[str] = set()

    @contextmanager
    def batch(self, events: DataFrame) -> Iterator["OneBatch"]:
        """Settles a batch; when it has been written, lets go of what that took."""
        try:
            yield OneBatch(
                self, events, facts_of(events, self._needed) if self._is_needed else Facts()
            )
        except BaseException:
            self._completed.clear()
            raise
        finally:
            for frame in self._cached:
                frame.unpersist()
            self._cached.clear()
        if self._completed:
            self.watched.release(sorted(self._completed))
            self._completed.clear()

    def settle(self, events: DataFrame, facts: Facts, unsettled: Collection[str]) -> DataFrame:
        """The events, with one row for each record that they alone do not tell enough of."""
        changes = with_moves(events) if facts.has_moves else events
        watching = self._dependents(changes) if self._is_needed else set[str]()
        family = families([*facts.gaps, *((key, None) for key in (*unsettled, *watching))])
        if not family:
            return changes
        lent = {Watch(old, key, LENT) for key, old in facts.gaps if old is not None}
        self.watched.add(lent, self._clock())
        members, others = parted(changes, family)
        made = self._cache(settle(members, self._with_index()))
        incomplete = watching | _keys(made.where(WAITS))
        if incomplete:
            made = made.where(~F.col("key").isin(list(incomplete)))
            made = made.unionByName(self._from_bronze(events.sparkSession, incomplete))
        return others.unionByName(made.drop(WAITS), allowMissingColumns=True)

    def _with_index(self) -> Settling:
        try:
            table = LanceTable.open(self._index_uri)
        except TableMissingError:
            return Settling(self._needed)
        return Settling(self._needed, table.uri, table.version)

    def _dependents(self, changes: DataFrame) -> set[str]:
        """Records that were made without what this batch may tell; most indexes watch nothing."""
        if self.watched.is_empty():
            return set()
        usable = changes.where("error IS NULL AND key IS NOT NULL")
        return self.watched.dependents(sorted(_keys(usable)))

    def _from_bronze(self, spark: SparkSession, keys: Collection[str]) -> DataFrame:
        """What all events make of some records; those that must wait are held."""
        emit("gold", "looking_into_bronze", keys=len(keys))
        events, family = self._history(spark, keys)
        members, _ = parted(with_moves(events), family)
        made = settle(members, Settling(self._needed)).where(F.col("key").isin(list(keys)))
        made = self._cache(made)
        held = _keys(made.where(WAITS))
        self.watched.add((Watch(key, key, HELD) for key in held), self._clock())
        if held:
            warn("gold", "records_held", records=len(held), first=min(held))
        self._completed |= set(keys) - held
        return made.where("unavailable IS NULL")

    def _history(
        self, spark: SparkSession, keys: Collection[str]
    ) -> tuple[DataFrame, dict[str, str]]:
        """All events of some keys, and of the keys that they had before."""
        whole, known, gaps = self._bronze(spark), set(keys), set[tuple[str, str | None]]()
        while True:
            events = whole.where(F.col("key").isin(list(known)))
            gaps |= facts_of(events, self._needed).gaps
            further = {old for _, old in gaps if old is not None} - known
            if not further:
                return events, families([*gaps, *((key, None) for key in known)])
            known |= further

    def _cache(self, frame: DataFrame) -> DataFrame:
        self._cached.append(frame.persist())
        return self._cached[-1]


@dataclass(frozen=True)
class OneBatch:
    """A batch that is being settled."""

    _settling: BatchSettling
    _events: DataFrame
    _facts: Facts

    @property
    def floor(self) -> str:
        """The version below which everything is deleted from now on; empty if nothing is."""
        return self._facts.floor

    def changes(self, unsettled: Sequence[str] = ()) -> DataFrame:
        """The batch as changes that each tell all of their record."""
        return self._settling.settle(self._events, self._facts, unsettled)


def _keys(rows: DataFrame) -> set[str]:
    return set(rows.select("key").distinct().toArrow().column("key").to_pylist())


def settled_gold(events: DataFrame, needed: frozenset[str] | None) -> DataFrame:
    """Gold of all events, as changes: one row a key, deletes left in; records that wait are not.

    What comes to the driver is bounded by the keys that ever left a value out.
    """
    facts = facts_of(events, needed)
    changes = with_moves(events) if facts.has_moves else events
    usable = changes.where("error IS NULL AND key IS NOT NULL")
    family = families(facts.gaps)
    if not family:
        return above_floor(latest(usable), facts.floor)
    members, others = parted(usable, family)
    made = settle(members, Settling(needed)).where("unavailable IS NULL").drop(WAITS)
    return above_floor(latest(others).unionByName(made, allowMissingColumns=True), facts.floor)
