"""The Gold table of a pipeline that keeps one: filled from Bronze, then kept batch by batch."""

import json
from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession

from freshet import gold, schemas
from freshet.gold import GoldTable
from freshet.layout import Home
from freshet.pipeline.attributes import Attributes
from freshet.pipeline.settling import needed_fields, settled_gold
from freshet.settings import GoldSettings, Settings
from freshet.sink.tombstones import Tombstones

_OWN: frozenset[str] = frozenset(schemas.GOLD.names)


class KeptGold:
    """Does nothing unless the settings ask for the table, and for the live index only."""

    def __init__(
        self, settings: Settings, home: Home, retention: timedelta | None, *, is_live: bool
    ) -> None:
        self._settings = settings.gold
        self._needed = needed_fields(settings)
        self._home = home
        self._table = (
            GoldTable(
                home.gold,
                definition=_definition(settings.gold),
                retention=retention,
                has_feed=bool(settings.sinks),
            )
            if settings.gold.keep_table and is_live
            else None
        )

    def open(self, spark: SparkSession, attributes: Attributes) -> None:
        """Fills the table from Bronze if it is not there, or was made with other settings."""
        if self._table is not None and not self._table.fits(spark):
            self._table.fill(self.recomputed(spark, attributes))

    def keep(self, changes: DataFrame, attributes: Attributes, floor: str) -> None:
        """Writes the changes of a batch; done again, it changes nothing."""
        if self._table is None:
            return
        known = max(floor, Tombstones.beside(self._home.index).floor())
        records = self._records(changes, attributes)
        self._table.merge(records, floor=known, truncates=bool(floor))

    def recomputed(self, spark: SparkSession, attributes: Attributes) -> DataFrame:
        """What the table should hold, of all events in Bronze."""
        events = spark.read.format("delta").load(self._home.bronze)
        return self._records(settled_gold(events, self._needed), attributes)

    def _records(self, changes: DataFrame, attributes: Attributes) -> DataFrame:
        chosen = self._settings
        return gold.project(
            changes,
            text=chosen.text,
            template=chosen.template,
            attributes=[one for one in attributes.projected if one.name.casefold() not in _OWN],
            with_rescued=chosen.rescues,
            deletes_without_text=chosen.missing_text == "delete",
            with_record=True,
        )


def _definition(chosen: GoldSettings) -> str:
    """What rows are made of: other rows would be made of the same events by another one."""
    named = chosen.model_dump(
        mode="json", include={"text", "template", "attributes", "missing_text"}
    )
    return json.dumps(named, sort_keys=True)
