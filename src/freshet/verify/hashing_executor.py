"""Texts replaced by their hashes, on executors, so that the comparison moves little."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

Pieces = Callable[[Sequence[str | None]], list[list[str]]]
"""The hashes of the pieces that some texts are cut into."""
Digest = Callable[[str], str]


@dataclass(frozen=True)
class CutAndHash:
    """The column `text` becomes `pieces`, the hashes of its pieces. Pickled to the executors."""

    pieces: Pieces

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batch by batch; holds one batch."""
        for batch in batches:
            hashes = self.pieces(batch.column("text").to_pylist())
            yield _replaced(batch, "text", "pieces", pa.array(hashes, pa.list_(pa.string())))


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
