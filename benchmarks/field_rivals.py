"""Who writes a stream of rows to a Lance table, each on the same Spark and the same pylance."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

import lance
import lancedb
import pyarrow as pa
from lance import FragmentMetadata
from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter

from freshet import LanceSink
from freshet.pipeline.optimizing import Optimizing
from freshet.settings import Settings, from_values
from freshet.sink.columns import VECTOR_SIZE
from freshet.stores.lance_tables import LanceTable
from rival_protocols import ScanningCommits

NAME = "rows"
QUERY = "bench"
DIMENSION = 384
CADENCE, RETENTION = "5 seconds", "1 minute"
"""Of the optimizer beside a stream that never pauses; a pipeline's own are 30 seconds and an hour,
for triggers of seconds."""
SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("value", pa.string(), nullable=False)]
)
"""As #399 has it."""

Write = Callable[[DataFrame, int], None]


@dataclass(frozen=True)
class Place:
    """Where one rival writes: a local folder or a URI, laid out as a pipeline's home is."""

    root: str
    dimension: int = 0
    """Of the vectors that rows have; 0 if they have none."""

    @property
    def settings(self) -> Settings:
        """Of a pipeline that would have this table as its index."""
        return from_values(
            {
                "pipeline": {"name": NAME, "home": self.root},
                "landing": {"path": f"{self.root}/landing"},
                "changes": {"envelope": "plain", "key": "id", "version": "version"},
                "gold": {"text": ["value"]},
                "optimizer": {"cadence": CADENCE, "retention": RETENTION},
            }
        )

    @property
    def table(self) -> str:
        """The table's place."""
        return f"{self.root}/index/{NAME}.lance"

    @property
    def ledger(self) -> str:
        """The ledger's place."""
        return f"{self.root}/ledger"

    @property
    def checkpoint(self) -> str:
        """The checkpoint of the query."""
        return f"{self.root}/checkpoint"

    def make_table(self) -> None:
        """Makes an empty table if there is none, as #399's harness does."""
        if not LanceTable.exists(self.table):
            lance.write_dataset(SCHEMA.empty_table(), self.table)


@dataclass(frozen=True)
class Rival:
    """One way to write, and what it is."""

    name: str
    what: str
    write: Callable[[Place], Write] | None
    """Makes a function for `foreachBatch`; None for the native sink."""
    is_keyed: bool = False
    """Whether it looks for rows of the same key."""
    has_table: bool = True
    beside: Callable[[Place], AbstractContextManager[None]] = lambda _: nullcontext()
    """What runs in the background while it writes."""

    def attach(self, writer: DataStreamWriter, place: Place, wrap: Callable[[Write], Write]) -> Any:
        """The stream, bound to the rival; `wrap` is put around what `foreachBatch` calls."""
        if self.write is not None:
            return writer.foreachBatch(wrap(self.write(place)))
        options = {"path": place.table, "ledger": place.ledger, "pipeline": NAME}
        if place.dimension:
            options[f"vector.{VECTOR_SIZE}"] = str(place.dimension)
        return writer.format("lance").options(**options)


# --- freshet -------------------------------------------------------------------------------------


def _append(place: Place) -> Write:
    vectors = {"vector": place.dimension} if place.dimension else None
    return LanceSink(
        place.table, ledger=place.ledger, pipeline=NAME, mode="append", vectors=vectors
    )


def _update(place: Place) -> Write:
    return LanceSink(
        place.table, ledger=place.ledger, pipeline=NAME, key="id", version=None, deleted=None
    )


@contextmanager
def _optimizer(place: Place) -> Iterator[None]:
    stop = Event()
    optimizing = Optimizing(place.settings)
    thread = Thread(target=optimizing.watch, args=(stop,), name="optimizer", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


# --- rivals --------------------------------------------------------------------------------------


def _scanning(*, has_watermark: bool) -> Callable[[Place], Write]:
    """Data files in tasks, one each; commits on the driver."""

    def start(place: Place) -> Write:
        place.make_table()
        commits = ScanningCommits(place.table, QUERY, has_watermark=has_watermark)

        def write(frame: DataFrame, batch_id: int) -> None:
            files = _writes_files(place.table, commits.opened().version)
            written = frame.mapInArrow(files, "fragment string").collect()
            made = [FragmentMetadata.from_json(row.fragment) for row in written]
            commits.commit(batch_id, made)

        return write

    return start


def _writes_files(uri: str, version: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A task's part; pickled by value, so that workers need not find this module."""

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        import json  # noqa: PLC0415 - on executors

        import lance  # noqa: PLC0415 - not before the worker was forked
        import pyarrow as pa  # noqa: PLC0415
        from lance.fragment import write_fragments  # noqa: PLC0415

        table = lance.dataset(uri, version=version)
        rows = (batch.cast(table.schema) for batch in batches if batch.num_rows)
        first = next(rows, None)
        if first is None:
            return
        given = pa.Table.from_batches([first, *rows])
        made = write_fragments(given, table)
        yield pa.RecordBatch.from_pydict({"fragment": [json.dumps(one.to_json()) for one in made]})

    return write


def _naive(place: Place) -> Write:
    place.make_table()
    table = lancedb.connect(f"{place.root}/index").open_table(NAME)

    def write(frame: DataFrame, batch_id: int) -> None:
        table.add(pa.Table.from_pandas(frame.toPandas(), SCHEMA))

    return write


def _merge_insert(place: Place) -> Write:
    place.make_table()
    table = lancedb.connect(f"{place.root}/index").open_table(NAME)

    def write(frame: DataFrame, batch_id: int) -> None:
        merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(frame.toArrow().cast(SCHEMA))

    return write


def _noop(place: Place) -> Write:
    def write(frame: DataFrame, batch_id: int) -> None:
        frame.write.format("noop").mode("overwrite").save()

    return write


FRESHET, NATIVE, OPTIMIZED, UPDATE = (
    "freshet",
    "freshet-native",
    "freshet+optimizer",
    "freshet-update",
)
PULL_399, PULL_564, NAIVE, MERGE, NOOP = "#399", "#564", "naive", "merge_insert", "noop"

RIVALS = {
    rival.name: rival
    for rival in (
        Rival(FRESHET, "`LanceSink`, `append`, by `foreachBatch`", _append),
        Rival(NATIVE, '`writeStream.format("lance")`, `append`', None),
        Rival(OPTIMIZED, "`freshet`, the optimizer in a thread beside it", _append,
              beside=_optimizer),
        Rival(PULL_399, "lance-spark #399: look through 100 versions, two commits a batch",
              _scanning(has_watermark=True)),
        Rival(PULL_564, "lance-spark #564: look through 100 versions, one commit a batch",
              _scanning(has_watermark=False)),
        Rival(NAIVE, "`toPandas` and LanceDB's `table.add`; a batch that is run again lands twice",
              _naive),
        Rival(UPDATE, "`LanceSink`, `update` by key, with the key's index", _update, is_keyed=True),
        Rival(MERGE, "`toArrow` and LanceDB's `merge_insert` by key, on the driver, without an "
              "index", _merge_insert, is_keyed=True),
        Rival(NOOP, "`foreachBatch` that writes Spark's format `noop`: rows are made and dropped",
              _noop, has_table=False),
    )
}  # fmt: skip
"""In the order in which they take turns in the first round."""
