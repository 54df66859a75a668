"""An index that a writer fills and an optimizer keeps fast, with a model of what it must hold.

Without Spark: batches go through the commit protocol and its preparation, as those of a pipeline
do. A row follows from its key and version alone, so whoever looks can tell what must be there.
"""

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from freshet import schemas
from freshet.clock import utc_now
from freshet.layout import INDEX
from freshet.optimizer.acting import Hook, no_hook
from freshet.pipeline.optimizing import Optimizing, index_lock
from freshet.settings import Settings, from_values
from freshet.sink import BatchReport, Ledger
from freshet.sink.commit_protocol import CommitProtocol
from freshet.sink.prepared import Prepared
from freshet.sink.stamps import Batch
from freshet.sink.target import Target
from freshet.sink.tombstones import Tombstones
from freshet.stores.lance_tables import LanceTable
from freshet.stores.sql import is_among
from freshet.testing.batches import prepared_here

DIMENSION = 32
SCHEMA = schemas.index(DIMENSION, {"section": "string"})
EVENTS = pa.schema([*(column.with_nullable(True) for column in SCHEMA), ("is_deleted", pa.bool_())])
LOW_LIMITS = {"unindexed_rows": 100, "small_fragments": 4, "fragment_rows": 4_096}
"""So that a few thousand rows are enough for something to be due."""
NEVER = "1000 days"

_SECTIONS = 7
_NEAREST = 10


def settings_of(folder: Path, *, index: Mapping[str, Any] = {}, **optimizer: Any) -> Settings:
    """The settings of a pipeline in a folder, with low limits; cleanups wait until asked for."""
    rare = {"retention": NEVER, "orphan_age": NEVER, "probe_interval": NEVER}
    return from_values(
        {
            "pipeline": {"name": "docs", "home": str(folder / "home")},
            "landing": {"path": str(folder)},
            "changes": {"envelope": "plain", "key": ["id"]},
            "gold": {"text": ["body"]},
            "embedding": {"provider": "fake"},
            "index": {"min_rows": 256} | dict(index),
            "optimizer": LOW_LIMITS | rare | optimizer,
        }
    )


# --- rows ----------------------------------------------------------------------------------------


def word_of(key: str, version: int) -> str:
    """A word that stands in this version of this record and nowhere else."""
    return f"{key}v{version}"


def text_of(key: str, version: int) -> str:
    return f"{word_of(key, version)} common"


def vectors_of(rows: Iterable[tuple[str, int]]) -> np.ndarray:
    """A vector for each; no two are near each other."""
    digests = (
        hashlib.blake2b(word_of(*row).encode(), digest_size=DIMENSION).digest() for row in rows
    )
    numbers = np.frombuffer(b"".join(digests), np.uint8).astype(np.float32)
    return (numbers.reshape(-1, DIMENSION) - 127.5) / 128


def version_text(version: int) -> str:
    """A version as the table has it."""
    return f"{version:08d}"


def events_of(upserts: Mapping[str, int], deletes: Mapping[str, int], at: datetime) -> pa.Table:
    rows = [*upserts.items(), *deletes.items()]
    count, gone = len(rows), len(deletes)
    texts = [text_of(*row) for row in upserts.items()] + [None] * gone
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(vectors_of(rows).ravel()), DIMENSION)
    return pa.Table.from_pydict(
        {
            "key": [key for key, _ in rows],
            "chunk": [0] * count,
            "chunk_start": [0] * count,
            "text": texts,
            "vector": vectors,
            "section": [f"s{version % _SECTIONS}" for _, version in rows],
            "record_version": [version_text(version) for _, version in rows],
            "content_hash": [word_of(*row) for row in rows],
            "updated_at": [at] * count,
            "embedding_error": pa.nulls(count, pa.string()),
            "is_deleted": [False] * len(upserts) + [True] * gone,
        },
        schema=EVENTS,
    )


def keys(count: int, start: int = 0) -> list[str]:
    return [f"k{number}" for number in range(start, start + count)]


# --- the index -----------------------------------------------------------------------------------


@dataclass
class OptimizedIndex:
    """One writer's view of an index; made anew, it goes on as a restarted writer does."""

    settings: Settings
    model: dict[str, int] = field(default_factory=dict)
    """What the index must hold: each key with its version."""
    versions: Counter[str] = field(default_factory=Counter)
    """The newest version of every key that ever was, deleted ones too."""
    batches: int = 0

    def __post_init__(self) -> None:
        home = self.settings.home
        self.uri = home.index
        self.ledger = Ledger(home.ledger)
        self._tombstones = Tombstones(home.tombstones)
        self._protocol = CommitProtocol(
            Target(self.uri, home.name, INDEX),
            create_table=lambda: LanceTable.create(self.uri, SCHEMA, key="key"),
            ledger=self.ledger,
            tombstones=self._tombstones,
            clock=utc_now,
            lock=index_lock(self.settings, "a writer"),
        )

    @classmethod
    def at(cls, folder: Path, **told: Any) -> "OptimizedIndex":
        return cls(settings_of(folder, **told))

    def copied(self, folder: Path, **told: Any) -> "OptimizedIndex":
        """The same index elsewhere, with other settings."""
        settings = settings_of(folder, **told)
        shutil.copytree(self.settings.home.root, settings.home.root)
        return OptimizedIndex(settings, dict(self.model), self.versions.copy(), self.batches)

    # --- writing ---------------------------------------------------------------------------------

    def fill(self, rows: int, *, batch_rows: int = 400) -> None:
        """Many new keys, in several batches."""
        first = len(self.versions)
        for start in range(first, first + rows, batch_rows):
            self.put(*keys(min(batch_rows, first + rows - start), start))

    def put(self, *keys: str) -> BatchReport:
        """One batch: the next version of each key."""
        return self.write(keys, ())

    def drop(self, *keys: str) -> BatchReport:
        """One batch: each key is deleted."""
        return self.write((), keys)

    def write(self, upserts: Sequence[str], deletes: Sequence[str]) -> BatchReport:
        """One batch; the model follows if it lands."""
        for key in (*upserts, *deletes):
            self.versions[key] += 1
        new, gone = ({key: self.versions[key] for key in keys} for keys in (upserts, deletes))
        batch = Batch(self.settings.home.name, INDEX, "query", self.batches, f"at {self.batches}")
        report = self._protocol.write(batch, lambda table, at: self._prepared(table, at, new, gone))
        assert report is not None, "the batch had landed before"
        self.batches += 1
        self.model |= new
        for key in gone:
            self.model.pop(key, None)
        return report

    def _prepared(
        self, table: LanceTable, at: datetime, new: Mapping[str, int], gone: Mapping[str, int]
    ) -> Prepared:
        return prepared_here(table, self._tombstones, SCHEMA, events_of(new, gone, at), at)

    # --- optimizing ------------------------------------------------------------------------------

    def optimizing(
        self, hook: Hook = no_hook, clock: Callable[[], datetime] = utc_now
    ) -> Optimizing:
        return Optimizing(self.settings, hook, clock)

    # --- looking ---------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        return int(lance.dataset(self.uri).version)

    def rows(self) -> pa.Table:
        """All that a reader can see, with the ids of the rows."""
        return lance.dataset(self.uri).to_table(with_row_id=True).sort_by("key")

    def parts(self, index: str) -> list[str]:
        """The parts of an index by their ids; none if there is no such index."""
        found = lance.dataset(self.uri).describe_indices()
        return [part.uuid for one in found if one.name == index for part in one.segments]

    def files(self) -> set[str]:
        """All files of the table, by their path in it."""
        folder = Path(self.uri)
        return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}

    def problems(self, chooser: Random | None = None, samples: int = 8) -> list[str]:
        """What a reader finds wrong, by a full scan, by key, by words and by vector."""
        chooser = chooser or Random(0)
        dataset = lance.dataset(self.uri)
        return [
            *self._seen_by_scan(dataset),
            *self._seen_by_key(dataset, chooser, samples),
            *self._seen_by_words(dataset, chooser, samples),
            *self._seen_by_vector(dataset, chooser, samples),
        ]

    def _seen_by_scan(self, dataset: lance.LanceDataset) -> Iterator[str]:
        columns = ["key", "record_version", "text", "section", "vector"]
        found = dataset.to_table(columns=columns)
        *told, vectors = found.columns
        has = Counter(zip(*(column.to_pylist() for column in told), strict=True))
        must = Counter(
            (key, version_text(version), text_of(key, version), f"s{version % _SECTIONS}")
            for key, version in self.model.items()
        )
        if has != must:
            lost, extra = must - has, has - must
            yield (
                f"{lost.total()} rows are missing and {extra.total()} are too many, such as "
                f"{[*lost][:2]} and {[*extra][:2]}"
            )
            return
        rows = [(key, self.model[key]) for key in found.column("key").to_pylist()]
        numbers = vectors.combine_chunks().values.to_numpy().reshape(-1, DIMENSION)
        if not np.array_equal(numbers, vectors_of(rows)):
            yield "vectors have changed"

    def _seen_by_key(
        self, dataset: lance.LanceDataset, chooser: Random, samples: int
    ) -> Iterator[str]:
        keys = [*_some(self.model, chooser, samples), *_some(self.versions, chooser, samples)]
        found = _rows(dataset, filter=is_among("key", [*keys, "nobody"]))
        must = {key: self.model[key] for key in keys if key in self.model}
        if sorted(found) != sorted(must.items()):
            yield f"by key there is {sorted(found)}, and not {sorted(must.items())}"

    def _seen_by_words(
        self, dataset: lance.LanceDataset, chooser: Random, samples: int
    ) -> Iterator[str]:
        if not self.parts("text_idx"):
            return
        every = Counter(_rows(dataset, full_text_query="common"))
        if every != Counter(self.model.items()):
            yield f"of {len(self.model)} texts, words find {len(every)}, {every.total()} in all"
        for key in _some(self.versions, chooser, samples):
            for version in {self.versions[key], max(self.versions[key] - 1, 1)}:
                is_there = self.model.get(key) == version
                found = _rows(dataset, full_text_query=word_of(key, version))
                if found != [(key, version)] * is_there:
                    yield f"by its word, {key} of version {version} is {found}"

    def _seen_by_vector(
        self, dataset: lance.LanceDataset, chooser: Random, samples: int
    ) -> Iterator[str]:
        for key in _some(self.versions, chooser, samples):
            asked = vectors_of([(key, self.versions[key])])[0]
            nearest = {"column": "vector", "q": asked, "k": _NEAREST, "metric": "cosine"}
            knobs = {"nprobes": 64, "ef": 256, "refine_factor": 4}
            found = _rows(dataset, nearest=nearest | knobs)
            if len(set(found)) != len(found) or not set(found) <= self.model.items():
                yield f"near {key} is what is dead or stands twice: {found}"
            if len(found) != min(_NEAREST, len(self.model)):
                yield f"near {key} are only {len(found)} rows"
            if key in self.model and found[:1] != [(key, self.model[key])]:
                yield f"nearest to {key} of version {self.model[key]} is {found[:1]}"


def _some(keys: Iterable[str], chooser: Random, most: int) -> list[str]:
    known = sorted(keys)
    return chooser.sample(known, min(most, len(known)))


def _rows(dataset: lance.LanceDataset, **asked: Any) -> list[tuple[str, int]]:
    """Key and version of what is found, in its order."""
    columns = ["key", "record_version"]
    scan = dataset.scanner(columns=columns, disable_scoring_autoprojection=True, **asked)
    found = scan.to_table()
    keys, versions = (found.column(name).to_pylist() for name in columns)
    return [(key, int(version)) for key, version in zip(keys, versions, strict=True)]
