"""The pieces of texts that vectors are of, and their names."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from freshet.embedding.chunking import Chunking, Span


def content_hash(text: str) -> str:
    """Names a text; equal texts have equal vectors."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Head:
    """What of a text a further vector is of."""

    digest: str
    text: str


@dataclass(frozen=True)
class Pieces:
    """All pieces of some records, in order; `owners` says which record each belongs to."""

    texts: tuple[str, ...] = ()
    hashes: tuple[str, ...] = ()
    owners: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()
    """Where each piece begins in its record's text, in characters."""

    @classmethod
    def of(
        cls,
        texts: Sequence[str | None],
        chunking: Chunking,
        token_spans: Callable[[str], Sequence[Span]],
    ) -> Self:
        """The pieces of some texts; a missing text is one empty piece."""
        flat = [
            (text[start:end], owner, number, start)
            for owner, text in enumerate(text or "" for text in texts)
            for number, (start, end) in enumerate(chunking.spans(text, token_spans))
        ]
        if not flat:
            return cls()
        pieces, owners, numbers, starts = zip(*flat, strict=True)
        return cls(pieces, tuple(map(content_hash, pieces)), owners, numbers, starts)
