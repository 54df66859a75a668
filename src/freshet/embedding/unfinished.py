"""Index rows on their way: some of their vectors are there, of the others only the texts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshet import schemas
from freshet.embedding.provider import Vectors

_TEXT: Final = "__text_of_"


def text_of(vector: str) -> str:
    """The column, of rows on their way only, that holds the text of a vector."""
    return "text" if vector == "vector" else f"{_TEXT}{vector}"


def hash_of(vector: str) -> str:
    """The column that holds the hash of the text of a vector."""
    return "content_hash" if vector == "vector" else schemas.hash_of(vector)


@dataclass(frozen=True)
class Unfinished:
    """The rows: a vector that has a hash, but is null, is still to be made."""

    table: pa.Table
    vectors: tuple[str, ...]
    dimension: int

    @property
    def texts(self) -> int:
        """How many vectors the rows have, or are to have."""
        hashes = (self.table.column(hash_of(name)) for name in self.vectors)
        return sum(len(column) - column.null_count for column in hashes)

    def lacking(self) -> dict[str, str]:
        """The texts of the vectors that are still to be made, by hash."""
        found: dict[str, str] = {}
        for name in self.vectors:
            some = self.table.filter(self._lacks(name))
            columns = (some.column(of(name)).to_pylist() for of in (hash_of, text_of))
            found |= zip(*columns, strict=True)
        return found

    def dealt_out(self, tasks: int) -> tuple["Unfinished", dict[int, pa.Table]]:
        """The rows that lack nothing, and the others by the number of a task.

        Rows of equal texts go to the same task; columns without any vector are left out.
        """
        lacks = self._lacks(self.vectors[0])
        for name in self.vectors[1:]:
            lacks = pc.or_(lacks, self._lacks(name))
        rest = self.table.filter(lacks)
        empty = [n for n in self.vectors if rest.column(n).null_count == rest.num_rows]
        light = rest.drop_columns(empty)
        turns = [int(digest[:8], 16) % tasks for digest in rest.column("content_hash").to_pylist()]
        places: dict[int, list[int]] = {}
        for place, turn in enumerate(turns):
            places.setdefault(turn, []).append(place)
        waiting = {turn: light.take(pa.array(some)) for turn, some in places.items()}
        return self._with(self.table.filter(pc.invert(lacks))), waiting

    def completed(self, made: Mapping[str, Vectors], refused: Mapping[str, str]) -> "Unfinished":
        """The rows with the vectors that were made; and why there is none where it was refused."""
        table = self.table
        errors: list[str | None] = [None] * table.num_rows
        for name in self.vectors:
            hashes = table.column(hash_of(name)).to_pylist()
            if name not in table.column_names:
                column = vector_column(hashes, made, self.dimension)
                table = table.append_column(name, column)
            elif pc.any(self._lacks(name)).as_py():
                column = _merged(table.column(name), hashes, made, self.dimension)
                table = table.set_column(table.schema.get_field_index(name), name, column)
            for place, digest in enumerate(hashes):
                errors[place] = refused.get(digest or "") or errors[place]
        place = table.schema.get_field_index(schemas.EMBEDDING_ERROR)
        told = pa.array(errors, pa.string())
        return self._with(table.set_column(place, schemas.EMBEDDING_ERROR, told))

    def as_rows(self, schema: pa.Schema) -> pa.Table:
        """The rows as the index has them."""
        return self.table.select(schema.names).cast(schema)

    def _with(self, table: pa.Table) -> "Unfinished":
        return Unfinished(table, self.vectors, self.dimension)

    def _lacks(self, name: str) -> pa.ChunkedArray:
        has_hash = pc.is_valid(self.table.column(hash_of(name)))
        if name not in self.table.column_names:
            return has_hash
        return pc.and_(has_hash, pc.is_null(self.table.column(name)))


def vector_column(
    hashes: Iterable[str | None], vectors: Mapping[str, Vectors], size: int
) -> pa.FixedSizeListArray:
    """The vectors of some texts; null where there is none."""
    found = [vectors.get(digest or "") for digest in hashes]
    matrix = np.zeros((len(found), size), np.float32)
    for row, vector in enumerate(found):
        if vector is not None:
            matrix[row] = vector
    absent = pa.array([vector is None for vector in found], pa.bool_())
    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), size, mask=absent)


def present(
    digests: Sequence[str | None], column: pa.ChunkedArray
) -> Iterator[tuple[str, Vectors]]:
    """The vectors that are there, by the hashes of their texts."""
    whole = column.combine_chunks()
    valid = whole.is_valid().to_numpy(zero_copy_only=False)
    # Null lists have no values here.
    matrix = whole.flatten().to_numpy(zero_copy_only=False).reshape(-1, whole.type.list_size)
    names = (digest for digest, is_there in zip(digests, valid, strict=True) if is_there)
    for digest, vector in zip(names, matrix, strict=True):
        if digest is not None:
            yield digest, vector


def _merged(
    column: pa.ChunkedArray, hashes: Sequence[str | None], made: Mapping[str, Vectors], size: int
) -> pa.FixedSizeListArray:
    """What is there, and what was made of the rest."""
    return vector_column(hashes, {**made, **dict(present(hashes, column))}, size)
