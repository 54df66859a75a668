"""The provider `openai` against a server that answers, fails, hangs and drops connections."""

import copy
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from embedding_server import DIMENSION, MODEL, POISON, EmbeddingServer, serving
from freshet.embedding import Provider, ProviderSpec
from freshet.embedding.attempts import embed_all
from freshet.embedding.fake import FakeProvider
from freshet.errors import EmbeddingError, SettingsError, SetupError, TextRefusedError
from freshet.settings import EmbeddingSettings, from_values

TEXTS = [f"text number {number} of some words" for number in range(100)]


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with serving() as found:
        yield found


def provider(server: EmbeddingServer, **more: Any) -> Provider:
    told = server.settings | {"timeout": "1 second", "batch_tokens": 128} | more
    return ProviderSpec.of(EmbeddingSettings(**told)).load()


def test_every_text_gets_its_own_vector(server: EmbeddingServer) -> None:
    found = provider(server).embed(TEXTS)
    assert np.allclose(found, FakeProvider().embed(TEXTS), atol=1e-6)
    assert sorted(server.answered) == sorted(TEXTS)
    assert server.requests > 4


@pytest.mark.parametrize("trouble", ["429", "500", "503", "drop", "hang"])
def test_what_passes_is_tried_again(server: EmbeddingServer, trouble: str) -> None:
    server.troubles = [trouble] * 2
    found = provider(server).embed(TEXTS[:3])
    assert np.allclose(found, FakeProvider().embed(TEXTS[:3]), atol=1e-6)
    assert server.requests == 3
    assert server.answered == TEXTS[:3]


@pytest.mark.parametrize(
    ("trouble", "times", "said"),
    [
        ("500", 3, "answers 500: .*as the test wants it"),
        ("404", 1, "answers 404: .*as the test wants it"),
        ("401", 1, "refuses the key"),
        ("drop", 3, "does not answer"),
        ("garbage", 1, "no list of embeddings"),
    ],
)
def test_what_stays_is_an_error_that_says_what_the_server_did(
    server: EmbeddingServer, trouble: str, times: int, said: str
) -> None:
    server.troubles = [trouble] * times
    with pytest.raises(EmbeddingError, match=said) as caught:
        provider(server, retries=2).embed(["a text"])
    assert server.requests == times
    # It must reach the driver whole.
    assert str(copy.copy(caught.value)) == str(caught.value)


def test_vectors_that_are_no_numbers_are_the_texts_fault(server: EmbeddingServer) -> None:
    server.troubles = ["nan"]
    with pytest.raises(TextRefusedError, match="numbers that are not finite"):
        provider(server).embed(["a text"])


@pytest.mark.parametrize(("status", "times"), [("400", 1), ("413", 3), ("422", 1)])
def test_what_is_the_texts_fault_is_told_apart(
    server: EmbeddingServer, status: str, times: int
) -> None:
    """413 is tried again if the server says when, as here: it may have been too much at once."""
    server.troubles = [status] * times
    with pytest.raises(TextRefusedError, match=f"answers {status}: .*as the test") as caught:
        provider(server, retries=2).embed(["a text"])
    assert server.requests == times
    assert str(copy.copy(caught.value)) == str(caught.value)


def test_the_text_that_the_server_refuses_is_found_among_many(server: EmbeddingServer) -> None:
    texts = [*TEXTS[:70], f"some {POISON} words", *TEXTS[70:]]
    found = embed_all(provider(server), texts)
    assert list(found.refused) == [70]
    assert "answers 400" in found.refused[70]
    assert not found.vectors[70].any()
    others = np.delete(found.vectors, 70, axis=0)
    assert np.allclose(others, FakeProvider().embed(TEXTS), atol=1e-6)


def test_a_server_that_refuses_every_text_is_an_outage(server: EmbeddingServer) -> None:
    server.troubles = ["400"] * 100
    with pytest.raises(EmbeddingError, match=r"takes no text.*answers 400"):
        embed_all(provider(server), TEXTS[:4])


def test_half_a_character_is_sent_as_a_replacement(server: EmbeddingServer) -> None:
    provider(server).embed(["\ud800abc"])
    assert server.answered == ["\ufffdabc"]


@pytest.mark.parametrize(("used", "requests"), [(None, 2), (90, 1), (20, 4)])
def test_tokens_beyond_the_allowance_are_not_asked_for(
    server: EmbeddingServer, used: int | None, requests: int
) -> None:
    """The server's own count decides what is left; a request is estimated, here at 40 tokens."""
    server.used_tokens = used
    limited = provider(server, max_tokens_per_hour=100)
    for _ in range(requests):
        limited.embed(["word " * 40])
    with pytest.raises(EmbeddingError, match="max_tokens_per_hour = 100 would be passed"):
        limited.embed(["word " * 40])
    assert server.requests == requests


def test_a_dead_server_is_named(server: EmbeddingServer) -> None:
    dead = provider(server, url="http://127.0.0.1:9/v1", retries=1)
    with pytest.raises(EmbeddingError, match=r"127\.0\.0\.1:9/v1/embeddings does not answer"):
        dead.embed(["a text"])


def test_vectors_of_another_length_are_refused(server: EmbeddingServer) -> None:
    with pytest.raises(EmbeddingError, match=r"embedding\.dimension is 8"):
        provider(server, dimension=8).embed(["a text"])


def test_blank_texts_are_not_sent_and_long_ones_are_cut(server: EmbeddingServer) -> None:
    long = "word " * 500
    found = provider(server, window_tokens=16).embed(["", " \n ", long])
    assert np.allclose(found[:2], np.eye(1, DIMENSION))
    [sent] = server.answered
    assert long.startswith(sent)
    assert len(sent.split()) == 16


def test_the_key_comes_from_the_environment_and_is_shown_nowhere(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "secret-7")
    keyed = provider(server, api_key_env="SOME_KEY", retries=0)
    keyed.embed(["a text"])
    assert server.keys == {"Bearer secret-7"}
    server.troubles = ["401"]
    with pytest.raises(EmbeddingError) as caught:
        keyed.embed(["another"])
    assert "SOME_KEY" in str(caught.value)
    assert "secret-7" not in str(caught.value)


def test_a_missing_key_is_found_before_anything_starts(server: EmbeddingServer) -> None:
    told = EmbeddingSettings(
        provider="openai", model=MODEL, dimension=DIMENSION, api_key_env="NOT_SET_ANYWHERE"
    )
    with pytest.raises(SetupError, match="NOT_SET_ANYWHERE"):
        ProviderSpec.of(told).check()


def test_requests_keep_their_pace(server: EmbeddingServer) -> None:
    started = time.monotonic()
    provider(server, requests_per_minute=600, batch_tokens=64).embed(TEXTS[:24])
    assert server.requests >= 3
    assert time.monotonic() - started >= 0.1 * (server.requests - 1)


def test_the_settings_need_model_and_dimension() -> None:
    with pytest.raises(SettingsError, match="needs model and dimension"):
        from_values(
            {
                "pipeline": {"name": "docs", "home": "h"},
                "landing": {"path": "in"},
                "changes": {"key": "id"},
                "gold": {"text": ["title"]},
                "embedding": {"provider": "openai"},
            }
        )
