"""An index that lives, for the benchmarks of the optimizer: its rows, its writer, where it starts.

Vectors of 384 numbers lie around 200 centres, and texts are of words as frequent as a language's.
Batches go through the sink's own commit protocol, every step of it, without Spark and without a
model. Tables to start from have all indexes, made by the optimizer's own actions; they are kept in
a folder, and a copy of one shares its data files, which never change.

`FRESHET_INDEX__KIND=IVF_SQ`, or another kind, in the environment is seen by all processes.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from freshet import schemas
from freshet.clock import utc_now
from freshet.layout import INDEX
from freshet.pipeline.optimizing import Optimizing
from freshet.rows import MODEL_KEY
from freshet.settings import Settings, from_values
from freshet.sink import Ledger
from freshet.sink.commit_protocol import CommitProtocol
from freshet.sink.stamps import Batch
from freshet.sink.target import Target
from freshet.sink.tombstones import Tombstones
from freshet.stores.lance_tables import LanceTable
from freshet.testing.batches import prepared_here
from measuring import show_progress

DIMENSION = 384
CENTRES = 200
SPREAD = 0.6
SCHEMA = schemas.index(DIMENSION, {})
MODEL = "none, for benchmarks"
BATCH_ROWS = 1_000
ROWS_AT_ONCE = 131_072

_WORDS, _WORDS_PER_TEXT = 30_000, 24
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_SHARED = ("data", "_indices")
_FINISHED = "finished"

Values = Mapping[str, Mapping[str, Any]]


def settings_of(home: Path, **optimizer: Any) -> Settings:
    """The settings of a pipeline in a folder."""
    return from_values(
        {
            "pipeline": {"name": "docs", "home": str(home)},
            "landing": {"path": str(home / "landing")},
            "changes": {"envelope": "plain", "key": "id", "version": "version"},
            "gold": {"text": ["body"]},
            "optimizer": optimizer,
        }
    )


def key_of(number: int) -> str:
    return f"doc-{number:09d}"


@dataclass
class Rows:
    """Makes rows of the index; the same at every run."""

    seed: int = 0
    _random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        """The centres are the same for all seeds."""
        fixed = np.random.default_rng(0)
        self._centres = fixed.standard_normal((CENTRES, DIMENSION), np.float32)
        self._words = np.array([_word(rank) for rank in range(_WORDS)], object)
        shares = 1 / np.arange(1, _WORDS + 1)
        self._shares = np.cumsum(shares) / shares.sum()
        self._random = np.random.default_rng(self.seed)

    def vectors(self, count: int) -> Any:
        """Unit vectors near the centres."""
        near = self._centres[self._random.integers(0, CENTRES, count)]
        made = near + SPREAD * self._random.standard_normal((count, DIMENSION), np.float32)
        return made / np.linalg.norm(made, axis=1, keepdims=True)

    def texts(self, count: int) -> list[str]:
        """A few words each."""
        drawn = self._random.random((count, _WORDS_PER_TEXT))
        chosen = self._words[np.searchsorted(self._shares, drawn).clip(max=_WORDS - 1)]
        return [" ".join(words) for words in chosen.tolist()]

    def of(self, numbers: Sequence[int], version: int) -> pa.Table:
        """Records as rows, all of one version."""
        count = len(numbers)
        vectors = pa.array(self.vectors(count).ravel())
        columns = {
            "key": pa.array([key_of(number) for number in numbers]),
            "chunk": pa.repeat(0, count),
            "text": pa.array(self.texts(count)),
            "vector": pa.FixedSizeListArray.from_arrays(vectors, DIMENSION),
            "record_version": pa.repeat(f"P{version:09d}", count),
            "content_hash": pa.array([f"{number}-{version}" for number in numbers]),
            "updated_at": pa.repeat(_NOW, count),
        }
        whole = [
            columns[one.name].cast(one.type) if one.name in columns else pa.nulls(count, one.type)
            for one in SCHEMA
        ]
        return pa.Table.from_arrays(whole, schema=SCHEMA)


def _word(rank: int) -> str:
    """A word of five letters."""
    letters = "etaoinshrdlucmfwypvbgkqjxz"
    return "".join(letters[rank // 26**place % 26] for place in range(5))


@dataclass
class Changes:
    """What happens next to an index of so many rows, 1,000 records at a time.

    With `inserts`, so many of them are new and none leaves. Without, they are any of a set of keys
    that is a ninth larger than the index, and a tenth of them are deleted: so it keeps its size.
    """

    rows: int
    inserts: int = 0
    seed: int = 1

    def __post_init__(self) -> None:
        """Who is there, in which version."""
        self._random = np.random.default_rng(self.seed)
        self._made = Rows(self.seed)
        space = self.rows if self.inserts else self.rows * 10 // 9
        self.versions = np.zeros(space, np.int64)
        """By number; 0: it is not there."""
        self.versions[: self.rows] = 1
        self._batches = 0

    def next(self) -> pa.Table:
        """The next records, with `is_deleted`."""
        self._batches += 1
        version = self._batches + 1
        known = len(self.versions)
        chosen = self._random.choice(known, BATCH_ROWS - self.inserts, replace=False)
        if self.inserts:
            self.versions = np.append(self.versions, np.zeros(self.inserts, np.int64))
            chosen = np.append(chosen, np.arange(known, known + self.inserts))
        gone = np.zeros(BATCH_ROWS, bool)
        gone[: 0 if self.inserts else BATCH_ROWS // 10] = True
        self.versions[chosen] = np.where(gone, 0, version)
        rows = self._made.of(chosen.tolist(), version)
        return rows.append_column("is_deleted", pa.array(gone))

    def check(self, uri: str) -> None:
        """The table holds what it should, each key once and in its version."""
        found = lance.dataset(uri).to_table(columns=["key", "record_version"]).sort_by("key")
        alive = np.flatnonzero(self.versions)
        assert found.column("key").to_pylist() == [key_of(number) for number in alive]
        have = [int(version[1:]) for version in found.column("record_version").to_pylist()]
        assert have == self.versions[alive].tolist()


class Writer:
    """The sink without Spark: its protocol, and its task for a small batch called in place."""

    def __init__(self, settings: Settings) -> None:
        home = settings.home
        self.uri = home.index
        self._tombstones = Tombstones.beside(home.index)
        self._protocol = CommitProtocol(
            Target(home.index, home.name, INDEX),
            create_table=lambda: LanceTable.create(self.uri, SCHEMA, key="key"),
            ledger=Ledger(home.ledger),
            tombstones=self._tombstones,
            clock=utc_now,
        )
        self._pipeline = home.name

    def write(self, batch_id: int, events: pa.Table) -> None:
        """One batch, all of it."""
        batch = Batch(self._pipeline, INDEX, "query", batch_id)
        report = self._protocol.write(
            batch,
            lambda table, at: prepared_here(table, self._tombstones, SCHEMA, events, at),
        )
        assert report is not None


# --- where it starts -----------------------------------------------------------------------------


def made_once(tables: Path, rows: int) -> Path:
    """The home of an index of so many rows with all its indexes; made if it is not there yet.

    `work_of` tells for a day what that took.
    """
    kind = settings_of(tables).index.kind
    home = tables / f"{rows}-{kind}"
    if not (home / _FINISHED).exists():
        shutil.rmtree(home, ignore_errors=True)
        _make(settings_of(home), rows)
        (home / _FINISHED).touch()
    return home


def _make(settings: Settings, rows: int) -> None:
    uri, made = settings.home.index, Rows()
    for start in range(0, rows, ROWS_AT_ONCE):
        show_progress(f"{rows:,} rows: writing row {start:,}")
        table = LanceTable.create(uri, SCHEMA, key="key", metadata={MODEL_KEY: MODEL})
        data = made.of(range(start, min(start + ROWS_AT_ONCE, rows)), 1)
        table.commit(None, table.write_files(data.to_reader()), {})
    show_progress(f"{rows:,} rows: building indexes")
    report = Optimizing(settings).run()
    assert not report.is_failed, [done.error for done in report.done]


def copied(home: Path, target: Path) -> Path:
    """A copy that may change; files of rows and of indexes are shared."""
    shutil.copytree(home, target, copy_function=_linked_or_copied)
    return target


def _linked_or_copied(source: str, target: str) -> None:
    is_shared = any(f"/{folder}/" in source for folder in _SHARED)
    if is_shared:
        os.link(source, target)
    else:
        shutil.copy2(source, target)


@dataclass(frozen=True)
class Sizes:
    """What a table takes."""

    fragments: int
    versions: int
    bytes: int
    manifest_bytes: int
    """Of the newest version."""
    unindexed_rows: int
    """Those that a vector search compares one by one."""
    index_parts: int
    """Of the vector index."""

    @classmethod
    def of(cls, uri: str) -> "Sizes":
        """Looks at names and sizes, and at the newest manifest."""
        dataset = lance.dataset(uri)
        manifests = sorted((Path(uri) / "_versions").glob("*.manifest"))
        fragments = dataset.get_fragments()
        parts = [
            part
            for index in dataset.describe_indices()
            if index.field_names == ["vector"]
            for part in index.segments
        ]
        covered = {fragment_id for part in parts for fragment_id in part.fragment_ids}
        return cls(
            fragments=len(fragments),
            versions=len(manifests),
            bytes=bytes_below(uri),
            manifest_bytes=manifests[0].stat().st_size,  # names count down
            unindexed_rows=sum(
                fragment.count_rows()
                for fragment in fragments
                if fragment.fragment_id not in covered
            ),
            index_parts=len(parts),
        )


def bytes_below(folder: str | Path) -> int:
    """Sizes of all files; some may go meanwhile."""
    total = 0
    for entry in os.scandir(folder):
        try:
            total += bytes_below(entry.path) if entry.is_dir() else entry.stat().st_size
        except FileNotFoundError:
            continue
    return total
