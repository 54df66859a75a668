"""Makes index rows of records, on an executor: cut, reuse what is known, embed the rest."""

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshet import schemas
from freshet.embedding.chunking import BOUNDS, Chunking
from freshet.embedding.provider import ProviderSpec, Span, Vectors
from freshet.rows import MODEL_KEY, BuiltRows, CurrentRows

Head = tuple[str, str]
"""The hash and the text of what a further vector is of."""


def content_hash(text: str) -> str:
    """Names a text; equal texts have equal vectors."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Pieces:
    """All pieces of some records, in order; `owners` says which record each belongs to."""

    texts: tuple[str, ...]
    hashes: tuple[str, ...]
    owners: tuple[int, ...]
    numbers: tuple[int, ...]

    def of(self, keys: Sequence[str]) -> Iterator["KeyedText"]:
        """The pieces with the keys of their records."""
        for text, digest, owner in zip(self.texts, self.hashes, self.owners, strict=True):
            yield KeyedText(keys[owner], digest, text)


class KeyedText(NamedTuple):
    """A text that a record needs the vector of."""

    key: str
    digest: str
    text: str


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

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns that tell which texts a row has vectors of."""
        return ("content_hash", *map(schemas.hash_of, self.vectors))

    @property
    def schema(self) -> pa.Schema:
        """The columns of the index."""
        return schemas.index(
            self.spec.describe().dimension,
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
        self, records: pa.Table, current: CurrentRows, at: datetime, *, is_alone: bool = False
    ) -> BuiltRows | None:
        """The rows of these records: texts that the index has keep their vectors."""
        started = time.perf_counter()
        keys = records.column("key").to_pylist()
        pieces = self.cut(records.column("text").to_pylist())
        further = {name: self.heads(records.column(name).to_pylist()) for name in self.vectors}
        texts = [*pieces.of(keys), *_keyed(further, keys)]
        known = self._known_vectors(texts, current)
        missing = {one.digest: one.text for one in texts if one.digest not in known}
        if is_alone and len(missing) > self.spec.describe().texts_per_task:
            return None
        vectors = {**known, **self._embed(missing)}
        elapsed = time.perf_counter() - started
        rows = self._assemble(records, pieces, further, vectors, at)
        return BuiltRows(rows, len(texts) - len(missing), len(missing), elapsed)

    def cut(self, texts: Sequence[str | None]) -> Pieces:
        """The pieces of some texts; a missing text is one empty piece."""
        cut = [self.chunking.cut(text or "", self._token_spans) for text in texts]
        flat = [
            (piece, owner, number)
            for owner, pieces in enumerate(cut)
            for number, piece in enumerate(pieces)
        ]
        pieces, owners, numbers = zip(*flat, strict=True) if flat else ((), (), ())
        return Pieces(pieces, tuple(content_hash(piece) for piece in pieces), owners, numbers)

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
        return [(content_hash(text), text) if text else None for text in cut]

    def head_hashes(self, texts: Sequence[str | None]) -> list[str | None]:
        """The hashes that the index should hold for some texts of a further vector."""
        return [None if head is None else head[0] for head in self.heads(texts)]

    def _token_spans(self, text: str) -> Sequence[Span]:
        return self.spec.load().token_spans(text)

    def _embed(self, texts: Mapping[str, str]) -> Mapping[str, Vectors]:
        """Loads the model only if there is something to embed."""
        if not texts:
            return {}
        return dict(zip(texts, self.spec.load().embed(list(texts.values())), strict=True))

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
                known |= zip(kept, _matrix(found.column(name)), strict=True)
        return known

    def _assemble(
        self,
        records: pa.Table,
        pieces: Pieces,
        further: Mapping[str, Sequence[Head | None]],
        vectors: Mapping[str, Vectors],
        at: datetime,
    ) -> pa.Table:
        schema, size = self.schema, self.spec.describe().dimension
        taken = records.take(pa.array(pieces.owners, pa.int64()))
        made = {
            "chunk": pa.array(pieces.numbers, pa.int32()),
            "text": pa.array(pieces.texts, pa.string()),
            "vector": _column(pieces.hashes, vectors, size),
            "content_hash": pa.array(pieces.hashes, pa.string()),
            "updated_at": pa.repeat(pa.scalar(at, schemas.UTC_TIME), len(pieces.texts)),
        }
        for name, heads in further.items():
            hashes = _in_first_rows(heads, pieces)
            made |= {
                name: _column(hashes, vectors, size),
                schemas.hash_of(name): pa.array(hashes, pa.string()),
            }
        if self.keeps_images:
            first = pa.array([number == 0 for number in pieces.numbers])
            made |= {name: _only(taken.column(name), first) for name in schemas.IMAGES}
        columns = [
            made[name] if name in made else taken.column(name).cast(schema.field(name).type)
            for name in schema.names
        ]
        return pa.Table.from_arrays(columns, schema=schema)


def _keyed(
    further: Mapping[str, Sequence[Head | None]], keys: Sequence[str]
) -> Iterator[KeyedText]:
    for heads in further.values():
        yield from (KeyedText(key, *head) for key, head in zip(keys, heads, strict=True) if head)


def _in_first_rows(heads: Sequence[Head | None], pieces: Pieces) -> list[str | None]:
    """The hash of each record's head, in the row of its first piece."""
    places = zip(pieces.owners, pieces.numbers, strict=True)
    found = (heads[owner] if number == 0 else None for owner, number in places)
    return [None if head is None else head[0] for head in found]


def _column(
    hashes: Sequence[str | None], vectors: Mapping[str, Vectors], size: int
) -> pa.FixedSizeListArray:
    """The vectors of some texts; null where there is none."""
    matrix = np.zeros((len(hashes), size), np.float32)
    for row, digest in enumerate(hashes):
        if digest is not None:
            matrix[row] = vectors[digest]
    absent = pa.array([digest is None for digest in hashes], pa.bool_())
    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), size, mask=absent)


def _only(values: pa.ChunkedArray, where: pa.Array) -> pa.ChunkedArray:
    """The values in some rows, and null in all others."""
    return pc.if_else(where, values, pa.scalar(None, pa.string()))


def _matrix(column: pa.ChunkedArray) -> Vectors:
    array = column.combine_chunks()
    values = array.flatten().to_numpy(zero_copy_only=False)
    matrix: Vectors = values.reshape(len(array), array.type.list_size)
    return matrix
