"""The query "index": events of Bronze become rows of the index."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from freshet import bronze, gold
from freshet.changes import AUTO
from freshet.embedding import IndexRows, ProviderSpec, VectorCache
from freshet.embedding.chunking import Chunking
from freshet.evolution import History, Tracker
from freshet.gold import Images
from freshet.layout import INDEX, REBUILD, Home
from freshet.pipeline import queries
from freshet.pipeline.attributes import Attributes
from freshet.pipeline.content import Content
from freshet.pipeline.first_batch import check_first_batch, has_rows
from freshet.pipeline.kept_gold import KeptGold
from freshet.pipeline.optimizing import index_lock
from freshet.pipeline.settling import LEAVING_OUT, BatchSettling, needed_fields
from freshet.search import Knobs, Searcher
from freshet.settings import FOREVER, Settings
from freshet.sink import BatchReport, LanceSink, Probe
from freshet.sink.steps import no_probe
from freshet.units import bytes_of, seconds_of

_TIDY_EVERY: Final = 16
"""Batches between two looks at the cache of vectors."""


@dataclass(frozen=True)
class IndexPlace:
    """Which table is filled, under which name in the ledger, and by which query."""

    uri: str
    sink: str = INDEX
    query: str = INDEX

    @classmethod
    def live(cls, home: Home) -> "IndexPlace":
        """The index that people search."""
        return cls(home.index)

    @classmethod
    def rebuilt(cls, home: Home) -> "IndexPlace":
        """The index that a rebuild makes beside it."""
        return cls(home.rebuilt, REBUILD, REBUILD)


class Index:
    """Bronze → gold → embedding → sink, and what reads the result."""

    def __init__(
        self,
        settings: Settings,
        home: Home,
        *,
        place: IndexPlace | None = None,
        on_batch: Callable[[BatchReport], None] | None = None,
        probe: Probe = no_probe,
    ) -> None:
        self._settings = settings
        self._home = home
        self.place = place or IndexPlace.live(home)
        self._history = History(home.schema)
        self._tracker = Tracker(self._history, settings.landing.schema_mode)
        self._rows = _index_rows(settings, home)
        self._needed = needed_fields(settings)
        retention = _retention(settings.index.tombstone_retention)
        self._gold = KeptGold(settings, home, retention, is_live=self.place.sink == INDEX)
        self._settling = BatchSettling(
            settings,
            self.place.uri,
            lambda spark: spark.read.format("delta").load(home.bronze),
        )
        self._is_begun = False
        self.failure: Exception | None = None
        """What the newest batch raised, if it failed."""
        self._sink = LanceSink(
            self.place.uri,
            ledger=home.ledger,
            pipeline=settings.pipeline.name,
            sink=self.place.sink,
            rows=self._rows,
            tombstone_retention=retention,
            lock=index_lock(settings, "a run") if self.place.sink == INDEX else None,
            on_batch=on_batch,
            probe=probe,
        )

    @property
    def rows(self) -> IndexRows:
        """How its rows are made, attributes left aside."""
        return self._rows

    def check(self) -> None:
        """Raises if the model or the index does not fit the settings; makes nothing."""
        self._rows.spec.check()
        self._use(self._attributes())
        self._sink.check()

    def fit(self) -> None:
        """Columns that were accepted or rolled back since come and leave now."""
        self._use(self._attributes())
        self._sink.fit()

    def start(self, spark: SparkSession, trigger: dict[str, Any]) -> StreamingQuery:
        """Starts the query, with the columns that the index should have."""
        self.fit()
        if self._rows.cache is not None:
            self._rows.cache.make()
        self._gold.open(spark, self._attributes())
        events = bronze.read_stream(spark, self._home.bronze)
        writer = events.writeStream.foreachBatch(self._write_batch).option(
            "checkpointLocation", self._home.checkpoint(self.place.query)
        )
        return queries.start(spark, writer.trigger(**trigger), self.place.query)

    def _write_batch(self, events: DataFrame, batch_id: int) -> None:
        try:
            self._check_first(events)
            schema = self._tracker.follow(events, batch_id)
            attributes = Attributes.of(self._settings.gold, schema)
            self._use(attributes)
            with self._settling.batch(events) as batch:

                def records(unsettled: Sequence[Any] = ()) -> DataFrame:
                    changes = batch.changes(unsettled)
                    self._gold.keep(changes, attributes, batch.floor)
                    return self._records(changes, attributes)

                self._sink(records(), batch_id, floor=batch.floor, settle=records)
            self._keep_cache_small(batch_id)
        except Exception as error:
            self.failure = error
            raise

    def _keep_cache_small(self, batch_id: int) -> None:
        if self._rows.cache is not None and batch_id % _TIDY_EVERY == 0:
            self._rows.cache.maintain(bytes_of(self._settings.embedding.cache_size))

    def _check_first(self, events: DataFrame) -> None:
        """Before the index has rows: are the records what the settings say they are?"""
        if not self._is_begun and self.place.sink == INDEX:
            self._is_begun = has_rows(self.place.uri)
            if not self._is_begun:
                check_first_batch(events, self._settings.changes.envelope, self._home)

    def content(self) -> Content:
        """How its rows are made of Bronze, by the schema as it is now."""
        attributes = self._attributes()
        return Content(
            replace(self._rows, attributes=attributes.types),
            self._needed,
            partial(self._records, attributes=attributes),
        )

    def _attributes(self) -> Attributes:
        return Attributes.of(self._settings.gold, self._history.schema())

    def _use(self, attributes: Attributes) -> None:
        rows = replace(self._rows, attributes=attributes.types)
        self._sink.use(rows, retired=attributes.retired)

    def _records(self, events: DataFrame, attributes: Attributes) -> DataFrame:
        chosen = self._settings.gold
        return gold.project(
            events,
            text=chosen.text,
            template=chosen.template,
            attributes=attributes.projected,
            with_rescued=chosen.rescues,
            images=Images(self._needed, LEAVING_OUT) if self._rows.keeps_images else None,
            vectors=chosen.vectors,
            deletes_without_text=chosen.missing_text == "delete",
        )

    def held(self) -> int:
        """Records of which an event waits for a value that the tool left out."""
        return len(self._settling.watched.held())

    def searcher(self) -> Searcher:
        """A searcher over the index as it is whenever it is asked."""
        provider, told = self._rows.spec, self._settings.search
        return Searcher(
            self.place.uri,
            model_id=provider.describe().model_id,
            embed=lambda question: provider.load().embed([question])[0],
            attributes=None if self._settings.gold.takes_all else tuple(self._attributes().types),
            metric=self._settings.index.metric,
            knobs=Knobs(told.nprobes, told.ef, told.refine),
        )


def _index_rows(settings: Settings, home: Home) -> IndexRows:
    spec = ProviderSpec.of(settings.embedding)
    model = spec.describe()
    window = model.window_tokens
    cache = VectorCache.within(home.vectors, model.model_id, model.dimension)
    tokens = min(settings.gold.chunk_tokens or window, window)
    overlap = min(settings.gold.chunk_overlap, tokens // 2)
    return IndexRows(
        spec,
        Chunking(tokens, overlap),
        takes_all=settings.gold.takes_all,
        vectors=settings.gold.vectors,
        keeps_images=settings.changes.envelope in {AUTO, *LEAVING_OUT},
        cache=cache if settings.embedding.cache else None,
    )


def _retention(duration: str) -> timedelta | None:
    return None if duration == FOREVER else timedelta(seconds=seconds_of(duration))
