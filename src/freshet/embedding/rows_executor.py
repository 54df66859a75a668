"""Makes index rows of records, on an executor: cut, reuse what is known, embed the rest.

A row goes two ways. One whose vectors are known is ready at once. One that needs the model waits,
without its vector, for the task that its text's hash names: so a long document is embedded by all
tasks and not by one, and equal texts meet and are embedded once.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from freshet import schemas
from freshet.embedding.cache_executor import VectorCache
from freshet.embedding.chunking import BOUNDS, Chunking
from freshet.embedding.pieces import Head, Pieces, content_hash
from freshet.embedding.provider import ProviderSpec, Span, Vectors
from freshet.embedding.unfinished import Unfinished, present, text_of, vector_column
from freshet.embedding.vectors_executor import MadeVectors, VectorMaker
from freshet.rows import MODEL_KEY, BuiltRows, CurrentRows


class KeyedText(NamedTuple):
    """A text that a record needs the vector of."""

    key: str
    digest: str


@dataclass(frozen=True)
class IndexRows:
    """The row builder of the index. Memory is bounded by the records of one call."""

    spec: ProviderSpec
    chunking: Chunking
    attributes: Mapping[str, str] = field(default_factory=dict)
    takes_all: bool = False
    """Whether the attributes are all columns of the records, and so change with them."""
    keeps_images: bool = False
    """Whether the values that records are made of are kept beside them."""
    vectors: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Further vectors, each with the columns that it is of. The records have a column of its name
    that holds the text."""
    cache: VectorCache | None = None
    has_heavy_rows: bool = True

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        size: int = self.spec.describe().dimension
        return size

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns that tell which texts a row has vectors of."""
        return ("content_hash", *map(schemas.hash_of, self.vectors))

    @property
    def schema(self) -> pa.Schema:
        """The columns of the index."""
        return schemas.index(
            self.dimension,
            self.attributes,
            vectors=self.vectors,
            keeps_images=self.keeps_images,
        )

    @property
    def metadata(self) -> Mapping[str, str]:
        """The model, the chunks, the vectors and the kind of attributes of the index."""
        provider = self.spec.describe()
        is_open = {schemas.ATTRIBUTES_KEY: schemas.ALL_ATTRIBUTES} if self.takes_all else {}
        named = {name: list(columns) for name, columns in sorted(self.vectors.items())}
        further = {schemas.VECTORS_KEY: json.dumps(named)} if named else {}
        return (
            is_open
            | further
            | {
                MODEL_KEY: provider.model_id,
                "freshet.dimension": str(provider.dimension),
                "freshet.chunk_tokens": str(self.chunking.tokens),
                "freshet.chunk_bounds": BOUNDS,
                "freshet.chunk_overlap": str(self.chunking.overlap),
            }
        )

    def build(
        self,
        records: pa.Table,
        current: CurrentRows,
        at: datetime,
        *,
        is_alone: bool = False,
        tasks: int | None = None,
    ) -> BuiltRows | None:
        """The rows of these records: texts that the index has keep their vectors."""
        started = time.perf_counter()
        keys = records.column("key").to_pylist()
        pieces = self.cut(records.column("text").to_pylist())
        further = {name: self.heads(records.column(name).to_pylist()) for name in self.vectors}
        known = self._known_vectors(_keyed(keys, pieces, further), current)
        rows = self._unfinished(self._assemble(records, pieces, further, known, at))
        elapsed = time.perf_counter() - started
        if tasks is None:
            most = self.spec.describe().texts_per_task if is_alone else None
            return self._finished(rows, elapsed, most)
        ready, waiting = rows.dealt_out(tasks)
        return BuiltRows(ready.as_rows(self.schema), ready.texts, 0, elapsed, waiting)

    def finish(self, waiting: pa.Table) -> BuiltRows:
        """The rows with the vectors that they waited for."""
        built = self._finished(self._unfinished(waiting))
        assert built is not None  # nothing is too much  # noqa: S101
        return built

    def _finished(
        self, rows: Unfinished, elapsed: float = 0.0, most: int | None = None
    ) -> BuiltRows | None:
        started = time.perf_counter()
        made = self.made(rows.lacking(), most)
        if made is None:
            return None
        finished = rows.completed(made.vectors, made.refused).as_rows(self.schema)
        elapsed += time.perf_counter() - started
        reused = rows.texts - made.embedded - len(made.refused)
        return BuiltRows(finished, reused, made.embedded, elapsed)

    def made(self, texts: Mapping[str, str], most: int | None) -> MadeVectors | None:
        """The vectors of texts that are not known; None if more than `most` are new."""
        return VectorMaker(self.spec, self.cache).make(texts, most=most)

    def _unfinished(self, table: pa.Table) -> Unfinished:
        return Unfinished(table, ("vector", *self.vectors), self.dimension)

    def cut(self, texts: Sequence[str | None]) -> Pieces:
        """The pieces of some texts; a missing text is one empty piece."""
        return Pieces.of(texts, self.chunking, self._token_spans)

    def pieces_of(self, texts: Sequence[str | None]) -> list[list[str]]:
        """The hashes of the pieces of each text: what the index should hold for it."""
        hashes: list[list[str]] = [[] for _ in texts]
        pieces = self.cut(texts)
        for owner, digest in zip(pieces.owners, pieces.hashes, strict=True):
            hashes[owner].append(digest)
        return hashes

    def heads(self, texts: Sequence[str | None]) -> list[Head | None]:
        """What of each text a further vector is of: as much as the model takes in; None of none."""
        whole = Chunking(self.spec.describe().window_tokens, 0)
        cut = [text and whole.head(text, self._token_spans) for text in texts]
        return [Head(content_hash(text), text) if text else None for text in cut]

    def head_hashes(self, texts: Sequence[str | None]) -> list[str | None]:
        """The hashes that the index should hold for some texts of a further vector."""
        return [None if head is None else head.digest for head in self.heads(texts)]

    def _token_spans(self, text: str) -> Sequence[Span]:
        return self.spec.load().token_spans(text)

    def _known_vectors(
        self, texts: Iterable[KeyedText], current: CurrentRows
    ) -> dict[str, Vectors]:
        """Vectors that the records' own current rows have for the same texts, by hash."""
        wanted: dict[str, set[str]] = {}
        for one in texts:
            wanted.setdefault(one.key, set()).add(one.digest)
        known: dict[str, Vectors] = {}
        for column, name in zip(self.needs, ("vector", *self.vectors), strict=True):
            of_rows = (current.rows.column(n).to_pylist() for n in ("key", column, "_rowid"))
            kept = {
                digest: row
                for key, digest, row in zip(*of_rows, strict=True)
                if digest in wanted.get(key, ()) and digest not in known
            }
            if kept:
                found = current.take(list(kept.values()), (name,))
                known |= present(list(kept), found.column(name))
        return known

    def _assemble(
        self,
        records: pa.Table,
        pieces: Pieces,
        further: Mapping[str, Sequence[Head | None]],
        known: Mapping[str, Vectors],
        at: datetime,
    ) -> pa.Table:
        """The rows with the vectors that are known, and the texts of all others."""
        schema, size = self.schema, self.dimension
        taken = records.take(pa.array(pieces.owners, pa.int64()))
        made = {
            "chunk": pa.array(pieces.numbers, pa.int32()),
            schemas.CHUNK_START: pa.array(pieces.starts, pa.int32()),
            "text": pa.array(pieces.texts, pa.string()),
            "vector": vector_column(pieces.hashes, known, size),
            "content_hash": pa.array(pieces.hashes, pa.string()),
            "updated_at": pa.repeat(pa.scalar(at, schemas.UTC_TIME), len(pieces.texts)),
            schemas.EMBEDDING_ERROR: pa.nulls(len(pieces.texts), pa.string()),
        }
        texts = {}
        for name, heads in further.items():
            first = list(_in_first_rows(heads, pieces))
            hashes = [None if head is None else head.digest for head in first]
            made |= {
                name: vector_column(hashes, known, size),
                schemas.hash_of(name): pa.array(hashes, pa.string()),
            }
            texts[text_of(name)] = pa.array([head and head.text for head in first], pa.string())
        if self.keeps_images:
            is_first = pa.array([number == 0 for number in pieces.numbers])
            made |= {name: _only(taken.column(name), is_first) for name in schemas.IMAGES}
        columns = {
            name: made[name] if name in made else taken.column(name).cast(schema.field(name).type)
            for name in schema.names
        }
        return pa.table(columns | texts)


def _keyed(
    keys: Sequence[str], pieces: Pieces, further: Mapping[str, Sequence[Head | None]]
) -> Iterator[KeyedText]:
    for digest, owner in zip(pieces.hashes, pieces.owners, strict=True):
        yield KeyedText(keys[owner], digest)
    for heads in further.values():
        yield from (
            KeyedText(key, head.digest) for key, head in zip(keys, heads, strict=True) if head
        )


def _in_first_rows(heads: Sequence[Head | None], pieces: Pieces) -> Iterator[Head | None]:
    """Each record's head, in the row of its first piece."""
    for owner, number in zip(pieces.owners, pieces.numbers, strict=True):
        yield heads[owner] if number == 0 else None


def _only(values: pa.ChunkedArray, where: pa.Array) -> pa.ChunkedArray:
    """The values in some rows, and null in all others."""
    return pc.if_else(where, values, pa.scalar(None, pa.string()))
