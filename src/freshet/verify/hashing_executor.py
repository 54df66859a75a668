"""Texts replaced by their hashes, on executors, so that the comparison moves little."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

Pieces = Callable[[Sequence[str | None]], list[list[str]]]
"""The hashes of the pieces that some texts are cut into."""
Digest = Callable[[str], str]
Heads = Callable[[Sequence[str | None]], list[str | None]]
"""The hashes of what further vectors of some texts are of."""

NO_TEXT: Final = "nothing"
"""Stands for the hash of a text that is missing."""


@dataclass(frozen=True)
class CutAndHash:
    """The column `text` becomes `pieces`, the hashes of its pieces. Pickled to the executors.

    Columns with the texts of further vectors leave; their hashes follow the pieces'.
    """

    pieces: Pieces
    heads: Heads
    vectors: Sequence[str] = ()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batch by batch; holds one batch."""
        for batch in batches:
            hashes = self.pieces(batch.column("text").to_pylist())
            for name in self.vectors:
                heads = self.heads(batch.column(name).to_pylist())
                for digests, head in zip(hashes, heads, strict=True):
                    digests.append(f"{head or NO_TEXT} of {name}")
            rows = batch.drop_columns(list(self.vectors))
            yield _replaced(rows, "text", "pieces", pa.array(hashes, pa.list_(pa.string())))


@dataclass(frozen=True)
class HashText:
    """The column `text` becomes `text_hash`. Pickled to the executors."""

    digest: Digest

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batch by batch; holds one batch."""
        for batch in batches:
            hashes = [self.digest(text or "") for text in batch.column("text").to_pylist()]
            yield _replaced(batch, "text", "text_hash", pa.array(hashes, pa.string()))


def _replaced(batch: pa.RecordBatch, old: str, new: str, values: pa.Array) -> pa.RecordBatch:
    place = batch.schema.get_field_index(old)
    return batch.set_column(place, new, values)
