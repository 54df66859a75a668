"""Batches for the model, and pieces of long texts."""

import random
import re
from itertools import islice, pairwise

import pytest
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
    text = "aaaa bbbb cccc dddd eeee ffff gggg"
    pieces = Chunking(5, 0).cut(text, spans)
    assert len(pieces) > 1
    assert " ".join(pieces) == text


def test_a_cut_falls_at_the_end_of_a_sentence_and_rather_of_a_paragraph() -> None:
    sentences = "a b c. d e f. g h i. j k l. m n o."
    pieces = Chunking(12, 0).cut(sentences, spans)
    assert all(piece.endswith(".") for piece in pieces)
    paragraphs = "a b c. d e f.\n\ng h i. j k l. m n o."
    assert Chunking(12, 0).cut(paragraphs, spans)[0] == "a b c. d e f."
    quoted = 'a b "c!" d e f g h i j k l m'
    assert Chunking(12, 0).cut(quoted, spans)[0] == 'a b "c!"'
    without_spaces = "\u4e00\u4e01\u4e02\u3002" * 8
    assert all(piece.endswith("\u3002") for piece in Chunking(6, 0).cut(without_spaces, spans)), (
        without_spaces
    )


def test_neighbours_share_up_to_the_overlap_and_begin_with_a_sentence() -> None:
    words = " ".join("abcdefghijklmnopqrstuvwxyz")
    pieces = Chunking(6, 2).cut(words, spans)
    for one, next_ in pairwise(pieces):
        assert one[-3:] == next_[:3]
    sentences = " ".join(f"{letter} {letter}. " for letter in "abcdefghijklmnopqrstuvwxyz")
    for one, next_ in pairwise(Chunking(12, 4).cut(sentences, spans)):
        assert next_.split()[:4] == one.split()[-4:]


def test_a_head_is_as_much_as_fits() -> None:
    assert Chunking(4, 0).head("aa bb", spans) == "aa bb"
    assert Chunking(4, 0).head("aa bb cc dd ee", spans) == "aa bb cc dd"
    assert Chunking(4, 0).head("aa bb ccdd ee", spans) == "aa bb ccdd"
    assert Chunking(3, 0).head("aa bb ccdd ee", spans) == "aa bb"


def paragraphs(chooser: random.Random, count: int) -> list[str]:
    def sentence() -> str:
        words = (f"w{chooser.randrange(3_000)}" for _ in range(chooser.randint(6, 30)))
        return " ".join(words) + "."

    return [" ".join(sentence() for _ in range(chooser.randint(2, 8))) for _ in range(count)]


@pytest.mark.parametrize("edit", ["a word", "a sentence more", "a sentence less", "all of it"])
def test_an_edit_of_a_paragraph_changes_three_pieces_at_most(edit: str) -> None:
    chooser = random.Random(edit)
    chunking = Chunking(254, 32)

    def pieces(texts: list[str]) -> list[str]:
        return chunking.cut("\n\n".join(texts), words_of)

    for _ in range(20):
        document = paragraphs(chooser, 60)
        before = pieces(document)
        assert len(before) >= 30
        place = chooser.randrange(len(document))
        sentences = document[place].split(". ")
        edited = {
            "a word": [sentences[0] + " more", *sentences[1:]],
            "a sentence more": [*sentences[:1], "this is new", *sentences[1:]],
            "a sentence less": sentences[1:],
            "all of it": paragraphs(chooser, 1),
        }[edit]
        document[place] = ". ".join(edited)
        assert len(set(pieces(document)) - set(before)) <= 3


def words_of(text: str) -> list[tuple[int, int]]:
    return [found.span() for found in re.finditer(r"\w+|[^\w\s]", text)]
