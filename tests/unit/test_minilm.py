"""The real model, as it is installed."""

import json
from pathlib import Path

import numpy as np
import pytest

from freshet.embedding import ProviderSpec
from freshet.embedding.minilm import MiniLM, check_weights
from freshet.embedding.provider import Provider

DATA = Path(__file__).parent.parent / "data"
STRANGE = {
    "empty": "",
    "blank": " \n\t ",
    "control": "\x00\x01\x02",
    "half a character": "\ud800abc and \udfff\ud800",
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈🦀 ❤️",
    "right to left": "\u202e\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    "accents": "e" + "\u0301" * 500,
    "one long word": "x" * 100_000,
    "long": "Some words, again and again. " * 172_414,
}


@pytest.fixture(scope="module")
def model() -> Provider:
    return ProviderSpec("minilm", threads=2).load()


@pytest.fixture(scope="module")
def exact() -> Provider:
    return ProviderSpec("minilm", threads=2, precision="f32").load()


def test_the_weights_are_the_published_ones() -> None:
    check_weights()


def test_vectors_are_of_length_one_and_of_the_stated_dimension(model: Provider) -> None:
    vectors = model.embed(["one", "a longer text about something else", ""])
    assert vectors.shape == (3, MiniLM.dimension)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)


def test_meaning_decides_and_not_words(model: Provider) -> None:
    question, near, far = model.embed(
        [
            "How do I remove rows with missing values?",
            "Drop all records that contain nulls.",
            "The rows of poplars along the river are missing their leaves.",
        ]
    )
    assert question @ near > question @ far + 0.1


def test_vectors_equal_those_of_the_reference_in_full_precision(model: Provider) -> None:
    reference = json.loads((DATA / "minilm_fp32.json").read_text())
    vectors = model.embed(reference["texts"])
    cosines = (vectors * np.array(reference["vectors"])).sum(axis=1)
    assert cosines.min() > 0.9995


def test_vectors_equal_those_of_the_reference_up_to_rounding_if_asked_for(exact: Provider) -> None:
    reference = json.loads((DATA / "minilm_fp32.json").read_text())
    vectors = exact.embed(reference["texts"])
    assert np.abs(vectors - np.array(reference["vectors"])).max() < 1e-5
    assert exact.model_id == MiniLM.model_id


def test_a_text_has_one_vector_whatever_stands_beside_it(model: Provider, exact: Provider) -> None:
    texts = [f"text number {n} " * (1 + n % 40) for n in range(60)]
    for found, tolerance in ((model, 2e-3), (exact, 1e-6)):
        together = found.embed(texts)
        alone = np.concatenate([found.embed([text]) for text in texts])
        assert np.abs(together - alone).max() <= tolerance


def test_many_texts_are_taken_in_parts_and_keep_their_order(model: Provider) -> None:
    texts = [f"{'some more words ' * (n * 7 % 5)}of number {n}" for n in range(1_500)]
    together = model.embed(texts)
    chosen = range(0, 1_500, 25)
    alone = np.concatenate([model.embed([texts[place]]) for place in chosen])
    assert np.abs(together[chosen] - alone).max() <= 2e-3
    nearest = (together @ together[chosen].T).argmax(axis=0)
    assert nearest.tolist() == list(chosen)


def test_no_texts_are_no_vectors(model: Provider) -> None:
    assert model.embed([]).shape == (0, MiniLM.dimension)


def test_every_text_has_a_vector(model: Provider) -> None:
    vectors = model.embed(list(STRANGE.values()))
    assert np.isfinite(vectors).all()
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)


@pytest.mark.parametrize("name", STRANGE)
def test_the_tokens_of_every_text_stand_in_it(model: Provider, name: str) -> None:
    text = STRANGE[name]
    spans = model.token_spans(text)
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    assert [start for start, _ in spans] == sorted(start for start, _ in spans)


def test_half_a_character_does_not_move_the_tokens(model: Provider) -> None:
    text = "one \ud800 two"
    assert [text[start:end] for start, end in model.token_spans(text)][-1] == "two"


def test_a_text_longer_than_the_window_is_cut_and_not_refused(model: Provider) -> None:
    long, cut = model.embed(["word " * 5_000, "word " * MiniLM.window_tokens])
    assert long @ cut == pytest.approx(1, abs=1e-3)


def test_token_spans_point_into_the_text(model: Provider) -> None:
    text = "Ünïcode und Wörter, 漢字 🦀"
    pieces = [text[start:end] for start, end in model.token_spans(text)]
    assert "".join(pieces) == text.replace(" ", "")
