"""The real model, as it is installed."""

import json
from pathlib import Path

import numpy as np
import pytest

from freshet.embedding import ProviderSpec
from freshet.embedding.minilm import MiniLM, check_weights
from freshet.embedding.provider import Provider

DATA = Path(__file__).parent.parent / "data"


@pytest.fixture(scope="module")
def model() -> Provider:
    return ProviderSpec("minilm", threads=2).load()


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


def test_a_text_has_one_vector_whatever_stands_beside_it(model: Provider) -> None:
    texts = [f"text number {n} " * (1 + n % 40) for n in range(60)]
    together = model.embed(texts)
    alone = np.concatenate([model.embed([text]) for text in texts])
    assert np.abs(together - alone).max() <= 2e-3


def test_a_text_longer_than_the_window_is_cut_and_not_refused(model: Provider) -> None:
    long, cut = model.embed(["word " * 5_000, "word " * MiniLM.window_tokens])
    assert long @ cut == pytest.approx(1, abs=1e-3)


def test_token_spans_point_into_the_text(model: Provider) -> None:
    text = "Ünïcode und Wörter, 漢字 🦀"
    pieces = [text[start:end] for start, end in model.token_spans(text)]
    assert "".join(pieces) == text.replace(" ", "")
