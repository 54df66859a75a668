"""The query "index": events of Bronze become rows of the index."""

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from freshet import bronze, gold, verify
from freshet.embedding import IndexRows, ProviderSpec, content_hash
from freshet.embedding.chunking import Chunking
from freshet.layout import Home
from freshet.pipeline import queries
from freshet.search import Searcher
from freshet.settings import Settings
from freshet.sink import BatchReport, LanceSink, Probe
from freshet.stores.lance_tables import LanceTable
from freshet.verify import Verdict


class Index:
    """Bronze → gold → embedding → sink, and what reads the result."""

    def __init__(
        self,
        settings: Settings,
        home: Home,
        *,
        on_batch: Callable[[BatchReport], None] | None,
        probe: Probe,
    ) -> None:
        self._settings = settings
        self._home = home
        self._rows = _index_rows(settings)
        self.failure: Exception | None = None
        """What the newest batch raised, if it failed."""
        self._sink = LanceSink(
            home.index,
            ledger=home.ledger,
            pipeline=settings.pipeline.name,
            sink=queries.INDEX,
            rows=self._rows,
            on_batch=on_batch,
            probe=probe,
        )

    def check(self) -> None:
        """Raises if the model or the index does not fit the settings; makes nothing."""
        self._rows.spec.check()
        self._sink.check()

    def start(self, spark: SparkSession, trigger: dict[str, Any]) -> StreamingQuery:
        """Starts the query."""
        events = bronze.read_stream(spark, self._home.bronze)
        writer = events.writeStream.foreachBatch(self._write_batch).option(
            "checkpointLocation", self._home.checkpoint(queries.INDEX)
        )
        return queries.start(spark, writer.trigger(**trigger), queries.INDEX)

    def _write_batch(self, events: DataFrame, batch_id: int) -> None:
        try:
            self._sink(self._records(events), batch_id)
        except Exception as error:
            self.failure = error
            raise

    def _records(self, events: DataFrame) -> DataFrame:
        chosen = self._settings.gold
        return gold.project(
            events, text=chosen.text, template=chosen.template, attributes=chosen.attribute_types
        )

    def searcher(self) -> Searcher:
        """A searcher over the index as it is whenever it is asked."""
        provider = self._rows.spec
        return Searcher(
            self._home.index,
            model_id=provider.describe().model_id,
            embed=lambda question: provider.load().embed([question])[0],
            attributes=tuple(self._settings.gold.attribute_types),
            metric=self._settings.index.metric,
        )

    def verify(self, spark: Callable[[], SparkSession]) -> Verdict:
        """Recomputes Gold from Bronze and compares it with the index, key by key."""
        table = LanceTable.open(self._home.index, what="index")
        session = spark()
        events = session.read.format("delta").load(self._home.bronze)
        attributes = tuple(self._settings.gold.attribute_types)
        return verify.compare(
            verify.expected(gold.latest(self._records(events)), attributes, self._rows.pieces_of),
            verify.actual(session, table, attributes, content_hash),
        )


def _index_rows(settings: Settings) -> IndexRows:
    spec = ProviderSpec.of(settings.embedding)
    window = spec.describe().window_tokens
    tokens = min(settings.gold.chunk_tokens or window, window)
    overlap = min(settings.gold.chunk_overlap, tokens // 2)
    return IndexRows(spec, Chunking(tokens, overlap), settings.gold.attribute_types)
