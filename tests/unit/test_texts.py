"""Batches for the model, and pieces of long texts."""

import re
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from freshet.embedding.batching import MAX_TEXTS, by_token_budget
from freshet.embedding.chunking import Chunking

LENGTHS = st.lists(st.integers(1, 300), max_size=200)
WORD_LENGTHS = st.lists(st.integers(1, 6), max_size=120)


def spans(text: str) -> list[tuple[int, int]]:
    """Two letters are a token, as word pieces are; a word may have several."""
    return [found.span() for found in re.finditer(r"\S{1,2}", text)]


@given(LENGTHS, st.integers(1, 4_000))
def test_every_text_is_in_one_batch_and_batches_keep_the_budget(
    lengths: list[int], budget: int
) -> None:
    groups = by_token_budget(lengths, budget)
    assert sorted(place for group in groups for place in group) == list(range(len(lengths)))
    for group in groups:
        padded = max(lengths[place] for place in group) * len(group)
        assert len(group) == 1 or padded <= budget
        assert len(group) <= MAX_TEXTS


def test_texts_of_like_length_go_together() -> None:
    assert by_token_budget([100, 1, 100, 1], 200) == [[1, 3], [0, 2]]


def test_a_short_text_is_one_piece_and_is_not_even_counted() -> None:
    def must_not_count(text: str) -> list[tuple[int, int]]:
        raise AssertionError(text)

    assert Chunking(8, 2).cut("a few", must_not_count) == ["a few"]


@given(WORD_LENGTHS, st.integers(4, 30), st.integers(0, 3))
def test_pieces_cover_the_text_and_fit_the_window(
    word_lengths: list[int], size: int, overlap: int
) -> None:
    letters = map(chr, range(0x4E00, 0x9000))  # no letter twice, so that a piece has one place
    text = " ".join("".join(islice(letters, length)) for length in word_lengths)
    pieces = Chunking(size, overlap).cut(text, spans)
    assert all(len(spans(piece)) <= size for piece in pieces)
    covered = 0
    for piece in pieces:
        start = text.index(piece)
        assert start <= covered or not text[covered:start].strip()
        covered = start + len(piece)
    assert not text[covered:].strip()


def test_a_cut_falls_between_words() -> None:
    text = "aaaa bbbb cccc dddd eeee"
    assert Chunking(5, 0).cut(text, spans) == ["aaaa bbbb", "cccc dddd", "eeee"]


def test_neighbours_share_the_overlap() -> None:
    text = "a b c d e f g h i j k l"
    assert Chunking(6, 2).cut(text, spans) == ["a b c d e f", "e f g h i j", "i j k l"]
