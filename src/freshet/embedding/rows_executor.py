"""Makes index rows of records, on an executor: cut, reuse what is known, embed the rest."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshet import schemas
from freshet.embedding.chunking import Chunking
from freshet.embedding.provider import ProviderSpec, Span, Vectors
from freshet.rows import MODEL_KEY, BuiltRows, CurrentRows


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
    needs: tuple[str, ...] = ("content_hash",)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the index."""
        return schemas.index(
            self.spec.describe().dimension, self.attributes, keeps_images=self.keeps_images
        )

    @property
    def metadata(self) -> Mapping[str, str]:
        """The model, the chunks and the kind of attributes that the index is made with."""
        provider = self.spec.describe()
        is_open = {schemas.ATTRIBUTES_KEY: schemas.ALL_ATTRIBUTES} if self.takes_all else {}
        return is_open | {
            MODEL_KEY: provider.model_id,
            "freshet.dimension": str(provider.dimension),
            "freshet.chunk_tokens": str(self.chunking.tokens),
            "freshet.chunk_overlap": str(self.chunking.overlap),
        }

    def build(
        self, records: pa.Table, current: CurrentRows, at: datetime, *, is_alone: bool = False
    ) -> BuiltRows | None:
        """The rows of these records: texts that the index has keep their vectors."""
        started = time.perf_counter()
        pieces = self.cut(records.column("text").to_pylist())
        known = _known_vectors(pieces, records.column("key").to_pylist(), current)
        missing = _first_of_each(pieces, known)
        if is_alone and len(missing) > self.spec.describe().texts_per_task:
            return None
        embedded = self._embed(missing)
        vectors = np.stack([_pick(known, embedded, digest) for digest in pieces.hashes])
        elapsed = time.perf_counter() - started
        rows = self._assemble(records, pieces, vectors, at)
        return BuiltRows(rows, len(pieces.texts) - len(missing), len(missing), elapsed)

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

    def _token_spans(self, text: str) -> Sequence[Span]:
        return self.spec.load().token_spans(text)

    def _embed(self, texts: Mapping[str, str]) -> Mapping[str, Vectors]:
        """Loads the model only if there is something to embed."""
        if not texts:
            return {}
        return dict(zip(texts, self.spec.load().embed(list(texts.values())), strict=True))

    def _assemble(
        self, records: pa.Table, pieces: Pieces, vectors: Vectors, at: datetime
    ) -> pa.Table:
        schema = self.schema
        taken = records.take(pa.array(pieces.owners, pa.int64()))
        made = {
            "chunk": pa.array(pieces.numbers, pa.int32()),
            "text": pa.array(pieces.texts, pa.string()),
            "vector": pa.FixedSizeListArray.from_arrays(
                pa.array(vectors.ravel()), schema.field("vector").type.list_size
            ),
            "content_hash": pa.array(pieces.hashes, pa.string()),
            "updated_at": pa.repeat(pa.scalar(at, schemas.UTC_TIME), len(pieces.texts)),
        }
        if self.keeps_images:
            first = pa.array([number == 0 for number in pieces.numbers])
            made |= {name: _only(taken.column(name), first) for name in schemas.IMAGES}
        columns = [
            made[name] if name in made else taken.column(name).cast(schema.field(name).type)
            for name in schema.names
        ]
        return pa.Table.from_arrays(columns, schema=schema)


def _only(values: pa.ChunkedArray, where: pa.Array) -> pa.ChunkedArray:
    """The values in some rows, and null in all others."""
    return pc.if_else(where, values, pa.scalar(None, pa.string()))


def _known_vectors(
    pieces: Pieces, keys: Sequence[str], current: CurrentRows
) -> Mapping[str, Vectors]:
    """Vectors that the records' own current rows have for the same texts, by hash."""
    wanted: dict[str, set[str]] = {}
    for digest, owner in zip(pieces.hashes, pieces.owners, strict=True):
        wanted.setdefault(keys[owner], set()).add(digest)
    names = ("key", "content_hash", "_rowid")
    have = zip(*(current.rows.column(name).to_pylist() for name in names), strict=True)
    kept = {digest: row for key, digest, row in have if digest in wanted.get(key, ())}
    if not kept:
        return {}
    found = current.take(list(kept.values()), ("vector",))
    return dict(zip(kept, _matrix(found.column("vector")), strict=True))


def _matrix(column: pa.ChunkedArray) -> Vectors:
    array = column.combine_chunks()
    values = array.flatten().to_numpy(zero_copy_only=False)
    matrix: Vectors = values.reshape(len(array), array.type.list_size)
    return matrix


def _first_of_each(pieces: Pieces, known: Mapping[str, Vectors]) -> dict[str, str]:
    """Each text that must be embedded, once, by its hash."""
    return {
        digest: text
        for digest, text in zip(pieces.hashes, pieces.texts, strict=True)
        if digest not in known
    }


def _pick(known: Mapping[str, Vectors], embedded: Mapping[str, Vectors], digest: str) -> Vectors:
    return known[digest] if digest in known else embedded[digest]
