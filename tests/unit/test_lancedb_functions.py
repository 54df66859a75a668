"""The provider `lancedb`, with a function that a module of the tests registers."""

from typing import Any

import numpy as np
import pytest

from freshet.embedding import Provider, ProviderSpec
from freshet.embedding.attempts import embed_all
from freshet.embedding.fake import FakeProvider
from freshet.errors import EmbeddingError, SetupError
from freshet.settings import EmbeddingSettings
from registered_function import NOTHING, POISON

TEXTS = [f"text number {number} of some words" for number in range(100)]


def provider(function: str = "words-of-tests", **options: Any) -> Provider:
    told = EmbeddingSettings(
        provider="lancedb",
        function=function,
        options=options,
        imports=("registered_function",),
        window_tokens=64,
        batch_tokens=128,
    )
    return ProviderSpec.of(told).load()


def test_every_text_gets_the_functions_vector() -> None:
    found = provider()
    assert (found.dimension, found.window_tokens) == (FakeProvider.dimension, 64)
    assert np.allclose(found.embed(TEXTS), FakeProvider().embed(TEXTS), atol=1e-6)
    assert np.allclose(provider(sign=-1).embed(TEXTS), -FakeProvider().embed(TEXTS), atol=1e-6)


def test_blank_texts_are_not_asked_for_and_long_ones_are_cut() -> None:
    found = provider().embed(["", " \n ", "word " * 500])
    assert np.allclose(found[:2], np.eye(1, FakeProvider.dimension))
    assert np.allclose(found[2], FakeProvider().embed(["word " * 64])[0], atol=1e-6)


@pytest.mark.parametrize(("word", "why"), [(POISON, "RuntimeError: as"), (NOTHING, "no vector")])
def test_the_text_that_the_function_does_not_take_is_found(word: str, why: str) -> None:
    texts = [*TEXTS[:70], f"some {word} words", *TEXTS[70:]]
    found = embed_all(provider(), texts)
    assert list(found.refused) == [70]
    assert why in found.refused[70]
    others = np.delete(found.vectors, 70, axis=0)
    assert np.allclose(others, FakeProvider().embed(TEXTS), atol=1e-6)


def test_a_function_that_fails_for_all_texts_is_an_outage() -> None:
    with pytest.raises(EmbeddingError, match=r"takes no text: .*as the test wants it"):
        embed_all(provider(is_broken=True), TEXTS)


def test_the_id_tells_the_options_but_no_secrets() -> None:
    plain, keyed = provider(), provider(api_key="$var:key-of-tests")
    assert plain.model_id.startswith("lancedb/words-of-tests@")
    assert keyed.model_id == plain.model_id
    assert provider(sign=-1).model_id != plain.model_id


def test_what_cannot_be_made_says_why() -> None:
    with pytest.raises(SetupError, match='no embedding function "nobody"'):
        provider("nobody").embed(TEXTS)
    with pytest.raises(SetupError, match="cannot be made: Sensitive key 'api_key'"):
        provider(api_key="in the open").embed(TEXTS)
    absent = EmbeddingSettings(provider="lancedb", function="f", imports=("no_such_module",))
    with pytest.raises(SetupError, match="names no_such_module"):
        ProviderSpec.of(absent).check()
