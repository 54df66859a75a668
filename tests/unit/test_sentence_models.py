"""The provider `sentence-transformers`, on the CPU, with the installed default model's folder."""

import numpy as np
import pytest

from freshet.embedding import Provider, ProviderSpec
from freshet.embedding.attempts import embed_all
from freshet.embedding.minilm import MiniLM, model_folder
from freshet.errors import SetupError
from freshet.settings import EmbeddingSettings

pytestmark = [
    pytest.mark.torch,
    # PyTorch and its libraries warn of one another.
    pytest.mark.filterwarnings("default"),
]

TEXTS = [f"text number {n} " + "of some words more " * (n * 7 % 70) for n in range(200)]


@pytest.fixture(scope="module")
def model() -> Provider:
    return load(str(model_folder()))


def load(name: str, **more: str) -> Provider:
    told = EmbeddingSettings(
        provider="sentence-transformers", model=name, **{"device": "cpu", **more}
    )
    return ProviderSpec.of(told, threads=2).load()


def test_it_is_the_same_model_as_the_default(model: Provider) -> None:
    assert (model.dimension, model.window_tokens) == (MiniLM.dimension, MiniLM.window_tokens)
    for precision, least in (("auto", 0.9999), ("f32", 0.999_999)):
        cosines = (model.embed(TEXTS) * MiniLM(precision=precision).embed(TEXTS)).sum(axis=1)
        assert cosines.min() >= least


def test_a_text_has_one_vector_whatever_stands_beside_it(model: Provider) -> None:
    together = model.embed(TEXTS)
    alone = np.concatenate([model.embed([text]) for text in TEXTS[::20]])
    assert np.abs(together[::20] - alone).max() <= 1e-6


def test_token_spans_point_into_the_text(model: Provider) -> None:
    text = "Ünïcode und Wörter, 漢字 🦀"
    pieces = [text[start:end] for start, end in model.token_spans(text)]
    assert "".join(pieces) == text.replace(" ", "")
    assert len(model.token_spans("word " * 5_000)) == 5_000


def test_strange_texts_have_vectors_too(model: Provider) -> None:
    found = embed_all(model, ["", "  ", "\x00", "\ud800abc", "🦀", "word " * 50_000])
    assert not found.refused
    assert np.allclose(np.linalg.norm(found.vectors, axis=1), 1, atol=1e-5)
    assert embed_all(model, []).vectors.shape == (0, model.dimension)


def test_the_id_tells_the_weights_and_not_where_they_lie(model: Provider) -> None:
    again = load(str(model_folder()), precision="f32")
    assert again is not model
    assert again.model_id == model.model_id
    assert model.model_id.startswith("sentence-transformers/model@")


def test_a_model_that_is_not_there_is_named(tmp_path: object) -> None:
    with pytest.raises(SetupError, match=f"cannot load the model {tmp_path}/none"):
        load(f"{tmp_path}/none").token_spans("text")
