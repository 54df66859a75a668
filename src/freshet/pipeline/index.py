"""The query "index": events of Bronze become rows of the index."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from freshet import bronze, gold, verify
from freshet.embedding import IndexRows, ProviderSpec, content_hash
from freshet.embedding.chunking import Chunking
from freshet.evolution import History, Tracker
from freshet.gold import Images
from freshet.layout import INDEX, REBUILD, Home
from freshet.pipeline import queries
from freshet.pipeline.attributes import Attributes
from freshet.pipeline.settling import (
    LEAVING_OUT,
    BatchSettling,
    needed_fields,
    settled_gold,
)
from freshet.search import Searcher
from freshet.settings import FOREVER, Settings
from freshet.sink import BatchReport, LanceSink, Probe
from freshet.sink.commit_protocol import no_probe
from freshet.stores.lance_tables import LanceTable
from freshet.units import seconds_of
from freshet.verify import Verdict


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
        self._rows = _index_rows(settings)
        self._needed = needed_fields(settings)
        self._settling = BatchSettling(
            settings,
            self.place.uri,
            lambda spark: spark.read.format("delta").load(home.bronze),
        )
        self.failure: Exception | None = None
        """What the newest batch raised, if it failed."""
        self._sink = LanceSink(
            self.place.uri,
            ledger=home.ledger,
            pipeline=settings.pipeline.name,
            sink=self.place.sink,
            rows=self._rows,
            tombstone_retention=_retention(settings.index.tombstone_retention),
            on_batch=on_batch,
            probe=probe,
        )

    def check(self) -> None:
        """Raises if the model or the index does not fit the settings; makes nothing."""
        self._rows.spec.check()
        self._use(self._attributes())
        self._sink.check()

    def start(self, spark: SparkSession, trigger: dict[str, Any]) -> StreamingQuery:
        """Starts the query; columns that were accepted or rolled back since come and leave now."""
        self._use(self._attributes())
        self._sink.fit()
        events = bronze.read_stream(spark, self._home.bronze)
        writer = events.writeStream.foreachBatch(self._write_batch).option(
            "checkpointLocation", self._home.checkpoint(self.place.query)
        )
        return queries.start(spark, writer.trigger(**trigger), self.place.query)

    def _write_batch(self, events: DataFrame, batch_id: int) -> None:
        try:
            schema = self._tracker.follow(events, batch_id)
            attributes = Attributes.of(self._settings.gold, schema)
            self._use(attributes)
            with self._settling.batch(events) as batch:
                self._sink(
                    self._records(batch.changes(), attributes),
                    batch_id,
                    floor=batch.floor,
                    settle=lambda keys: self._records(batch.changes(keys), attributes),
                )
        except Exception as error:
            self.failure = error
            raise

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
        )

    def searcher(self) -> Searcher:
        """A searcher over the index as it is whenever it is asked."""
        provider = self._rows.spec
        return Searcher(
            self.place.uri,
            model_id=provider.describe().model_id,
            embed=lambda question: provider.load().embed([question])[0],
            attributes=None if self._settings.gold.takes_all else tuple(self._attributes().types),
            metric=self._settings.index.metric,
        )

    def verify(self, spark: Callable[[], SparkSession]) -> Verdict:
        """Recomputes Gold from Bronze and compares it with the index, key by key."""
        table = LanceTable.open(self.place.uri, what="index")
        session = spark()
        events = session.read.format("delta").load(self._home.bronze)
        attributes = self._attributes()
        gold_records = self._records(settled_gold(events, self._needed), attributes)
        return verify.compare(
            verify.expected(gold_records, tuple(attributes.types), self._rows.pieces_of),
            verify.actual(session, table, attributes.types, content_hash),
        )


def _index_rows(settings: Settings) -> IndexRows:
    spec = ProviderSpec.of(settings.embedding)
    window = spec.describe().window_tokens
    tokens = min(settings.gold.chunk_tokens or window, window)
    overlap = min(settings.gold.chunk_overlap, tokens // 2)
    return IndexRows(
        spec,
        Chunking(tokens, overlap),
        takes_all=settings.gold.takes_all,
        keeps_images=settings.changes.envelope in {"auto", *LEAVING_OUT},
    )


def _retention(duration: str) -> timedelta | None:
    return None if duration == FOREVER else timedelta(seconds=seconds_of(duration))
