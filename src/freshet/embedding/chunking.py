"""Cutting long texts into pieces that the model takes in whole, at places that stay when one edits.

A cut falls at the end of a paragraph if there is one within reach, else of a sentence, else of a
word. Of several ends of paragraphs or sentences the one is taken whose surroundings have the
smallest hash: which one that is does not depend on where the piece began, so that behind an edit
the cuts soon fall where they fell before, and the pieces there are the same as before.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

Span = tuple[int, int]

BOUNDS: Final = "paragraphs, sentences, words; starts kept"
"""Where texts are cut, for an index to remember: other cuts are other pieces."""

_PARAGRAPH: Final = 3
_SENTENCE: Final = 2
_WORD: Final = 1
_INSIDE: Final = 0
_WIDE_ENDS: Final = ("\u3002", "\uff01", "\uff1f")
"""What ends a sentence in scripts without spaces."""
_ENDS: Final = (".", "!", "?", "…", *_WIDE_ENDS)
_CLOSING: Final = "\"'\u201d\u2019»)]}"
_SURROUNDINGS: Final = 32
"""How many characters before a place its hash is of."""


@dataclass(frozen=True)
class Chunking:
    """Pieces of at most `tokens` tokens, each repeating up to `overlap` tokens of the one before.

    What is repeated begins with a sentence if one begins there, else with a word.
    """

    tokens: int
    overlap: int

    def spans(self, text: str, token_spans: Callable[[str], Sequence[Span]]) -> list[Span]:
        """Where the pieces of a text begin and end; a short text is one piece, unchanged.

        A token is at least one character, so short texts are recognised without counting.
        """
        tokens = () if len(text) <= self.tokens else token_spans(text)
        if len(tokens) <= self.tokens:
            return [(0, len(text))]
        windows = _windows(_Places(text, tokens), self.tokens, self.overlap)
        return [(tokens[first][0], tokens[last - 1][1]) for first, last in windows]

    def cut(self, text: str, token_spans: Callable[[str], Sequence[Span]]) -> list[str]:
        """The pieces of a text, in order."""
        return [text[start:end] for start, end in self.spans(text, token_spans)]

    def head(self, text: str, token_spans: Callable[[str], Sequence[Span]]) -> str:
        """As much of a text as fits into one piece, up to the end of a word."""
        spans = () if len(text) <= self.tokens else token_spans(text)
        if len(spans) <= self.tokens:
            return text
        ends = range(self.tokens, self.tokens // 2, -1)
        places = _Places(text, spans)
        last = next((place for place in ends if places.rank(place) >= _WORD), self.tokens)
        return text[: spans[last - 1][1]]


@dataclass(frozen=True)
class _Places:
    """The places between tokens; place `n` is before token `n`."""

    text: str
    spans: Sequence[Span]

    def __len__(self) -> int:
        return len(self.spans)

    def rank(self, place: int) -> int:
        """What ends there: the larger, the better to cut."""
        end = self.spans[place - 1][1]
        gap = self.text[end : self.spans[place][0]]
        if not gap:
            return _SENTENCE if self.text[end - 1 : end] in _WIDE_ENDS else _INSIDE
        if gap.count("\n") > 1:
            return _PARAGRAPH
        ends = self.text[max(end - 3, 0) : end].rstrip(_CLOSING).endswith(_ENDS)
        return _SENTENCE if ends else _WORD

    def best(self, places: Iterable[int]) -> int:
        """The place where the most ends; of several, the one that the surroundings choose.

        Where nothing but words end, it is the last one.
        """
        ranks = {place: self.rank(place) for place in places}
        most = max(ranks.values())
        found = [place for place in ranks if ranks[place] == most]
        return min(found, key=self._hash) if most >= _SENTENCE else found[-1]

    def first(self, places: Sequence[int]) -> int:
        """The first place where a sentence begins, else a word, else any."""
        for wanted in (_SENTENCE, _WORD):
            for place in places:
                if self.rank(place) >= wanted:
                    return place
        return places[0]

    def _hash(self, place: int) -> bytes:
        end = self.spans[place][0]
        before = self.text[max(end - _SURROUNDINGS, 0) : end]
        return hashlib.blake2b(before.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _windows(places: _Places, size: int, overlap: int) -> Iterator[Span]:
    """Ranges of tokens. A piece brings at least a quarter of what is new in a full one."""
    first, least = 0, overlap + max((size - overlap) // 4, 1)
    while len(places) - first > size:
        last = places.best(range(first + least, first + size + 1))
        yield first, last
        first = places.first(range(last - overlap, last)) if overlap else last
    yield first, len(places)
