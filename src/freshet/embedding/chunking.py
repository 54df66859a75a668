"""Cutting long texts into pieces that the model takes in whole."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

Span = tuple[int, int]


@dataclass(frozen=True)
class Chunking:
    """Pieces of at most `tokens` tokens, each repeating `overlap` tokens of the one before."""

    tokens: int
    overlap: int

    def cut(self, text: str, token_spans: Callable[[str], Sequence[Span]]) -> list[str]:
        """The pieces of a text, in order; a short text is one piece, unchanged.

        A token is at least one character, so short texts are recognised without counting.
        """
        if len(text) <= self.tokens:
            return [text]
        spans = token_spans(text)
        if len(spans) <= self.tokens:
            return [text]
        return [
            text[spans[first][0] : spans[last - 1][1]]
            for first, last in _windows(spans, self.tokens, self.overlap)
        ]


def _windows(spans: Sequence[Span], size: int, overlap: int) -> Iterator[tuple[int, int]]:
    """Token ranges; a cut falls between words where there is a word's end in the second half."""
    first = 0
    while len(spans) - first > size:
        last = _word_end(spans, first + size, first + size // 2)
        yield first, last
        first = max(last - overlap, first + 1)
    yield first, len(spans)


def _word_end(spans: Sequence[Span], last: int, at_least: int) -> int:
    """The latest place up to `last` with a gap before it; `last` if there is none."""
    places = range(last, at_least, -1)
    return next((place for place in places if spans[place - 1][1] < spans[place][0]), last)
