"""Vectors that outlive their rows: what a model has made once, it need not make again.

A table beside the index holds the vector of every text that one model has embedded, by the text's
hash. Tasks look there before they ask the model, and add to it what the model made, at once: so it
is kept when the batch fails later, when the record goes and comes back, when another record has
the same text, and when the index is rebuilt.

Guarantee: none is needed. It is a cache: an error here is logged and costs an embedding, a crash
leaves data files that no version names, and a text that two tasks add stands there twice.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from freshet.embedding.provider import Vectors
from freshet.embedding.unfinished import present
from freshet.errors import StoreError, TableMissingError
from freshet.events import warn
from freshet.rows import MODEL_KEY
from freshet.stores import lance_upkeep
from freshet.stores.lance_tables import ROW_ID, LanceTable

T = TypeVar("T")

_HASH: Final = "content_hash"
_AGE: Final = "added_us"
_MANY_FRAGMENTS: Final = 64
_ROWS_PER_FRAGMENT: Final = 1 << 16
_TIME_TO_READ: Final = timedelta(hours=1)
"""How long an old version stays for tasks that read it."""


@dataclass(frozen=True)
class VectorCache:
    """The vectors of one model. Small and picklable; keeps nothing in memory."""

    uri: str
    model_id: str
    dimension: int

    @classmethod
    def within(cls, folder: str, model_id: str, dimension: int) -> "VectorCache":
        """The cache of a model in a folder of such caches."""
        readable = re.sub(r"[^A-Za-z0-9]+", "-", model_id)[:60]
        digest = blake2b(model_id.encode(), digest_size=4).hexdigest()
        return cls(f"{folder}/{readable}-{digest}.lance", model_id, dimension)

    @property
    def _schema(self) -> pa.Schema:
        vector = pa.list_(pa.float32(), self.dimension)
        return pa.schema([(_HASH, pa.string()), ("vector", vector), (_AGE, pa.int64())])

    def make(self) -> None:
        """Makes the table if it is not there, on the driver; without it, tasks cache nothing."""
        known_as = {MODEL_KEY: self.model_id}
        _tried(
            "make",
            self.uri,
            lambda: LanceTable.create(self.uri, self._schema, key=_HASH, metadata=known_as),
        )

    def known(self, digests: Sequence[str]) -> dict[str, Vectors]:
        """The vectors that are there, by the hash of their texts."""
        return _tried("read", self.uri, lambda: self._known(digests)) or {}

    def _known(self, digests: Sequence[str]) -> dict[str, Vectors]:
        table = LanceTable.open(self.uri)
        found = table.lookup(_HASH, digests, [_HASH])
        ids = dict(zip(*(found.column(name).to_pylist() for name in (_HASH, ROW_ID)), strict=True))
        if not ids:
            return {}
        taken = table.take(list(ids.values()), ["vector"])
        return dict(present(list(ids), taken.column("vector")))

    def add(self, vectors: Mapping[str, Vectors]) -> None:
        """Keeps vectors, by the hash of their texts, from now on."""
        if vectors:
            _tried("add to", self.uri, lambda: self._add(vectors))

    def _add(self, vectors: Mapping[str, Vectors]) -> None:
        flat = pa.array(np.concatenate(list(vectors.values())))
        now_us = int(datetime.now(UTC).timestamp() * 1e6)
        columns = [
            pa.array(vectors, pa.string()),
            pa.FixedSizeListArray.from_arrays(flat, self.dimension),
            pa.repeat(pa.scalar(now_us, pa.int64()), len(vectors)),
        ]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        table = LanceTable.open(self.uri)
        files = table.write_files(pa.RecordBatchReader.from_batches(rows.schema, [rows]))
        table.commit(None, files, {})

    def maintain(self, most_bytes: int) -> None:
        """Folds small files together, indexes what is new, and forgets the oldest above a limit.

        To be called by one driver, now and then: look-ups scan what is not indexed yet.
        """
        _tried("tidy", self.uri, lambda: self._maintain(most_bytes))

    def _maintain(self, most_bytes: int) -> None:
        if len(LanceTable.open(self.uri).fragment_ids) < _MANY_FRAGMENTS:
            return
        lance_upkeep.compact(self.uri, _ROWS_PER_FRAGMENT)
        too_many = LanceTable.open(self.uri).count() - most_bytes // (4 * self.dimension)
        if too_many > 0:
            lance_upkeep.forget_oldest(self.uri, too_many, _AGE)
        LanceTable.open(self.uri).index_new_keys(_HASH)
        lance_upkeep.forget_versions(self.uri, _TIME_TO_READ)


def _tried(action: str, uri: str, do: Callable[[], T]) -> T | None:
    try:
        return do()
    except TableMissingError:
        return None
    except StoreError as error:
        warn("embedding", "cache_failed", action=action, uri=uri, error=error)
        return None
