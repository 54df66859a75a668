"""Texts that a model does not take: they are found, and nothing else is lost."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from freshet.embedding.attempts import embed_all
from freshet.embedding.fake import FakeProvider
from freshet.embedding.provider import Vectors
from freshet.errors import EmbeddingError, SetupError, TextRefusedError

TEXTS = [f"text number {number}" for number in range(1_000)]


class Scripted(FakeProvider):
    """The fake provider, with a script of faults that sees the texts of each call."""

    def __init__(self, script: Callable[["Scripted", Sequence[str]], None]) -> None:
        super().__init__()
        self.script = script
        self.calls = 0

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.calls += 1
        self.script(self, texts)
        return super().embed(texts)


def failing_for(*poisoned: str, error: Exception) -> Scripted:
    def script(provider: Scripted, texts: Sequence[str]) -> None:
        if set(poisoned) & set(texts):
            raise error

    return Scripted(script)


def test_one_call_is_enough_when_all_is_well() -> None:
    provider = Scripted(lambda *_: None)
    found = embed_all(provider, TEXTS)
    assert provider.calls == 1
    assert not found.refused
    assert np.array_equal(found.vectors, FakeProvider().embed(TEXTS))


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (TextRefusedError("the model", "refuses it"), "the model refuses it"),
        (RuntimeError("no such\n  token"), "RuntimeError: no such token"),
        (ValueError("x" * 1_000), "ValueError: " + "x" * 188),
    ],
)
def test_one_poisoned_text_among_many_is_found_and_the_others_are_embedded(
    error: Exception, why: str
) -> None:
    provider = failing_for(TEXTS[617], error=error)
    found = embed_all(provider, TEXTS)
    assert dict(found.refused) == {617: why}
    assert not found.vectors[617].any()
    others = np.delete(np.arange(1_000), 617)
    assert np.array_equal(found.vectors[others], FakeProvider().embed(TEXTS)[others])
    assert provider.calls <= 1 + 2 * 10 + 3


def test_several_poisoned_texts_are_all_found() -> None:
    places = [0, 1, 500, 999]
    provider = failing_for(*(TEXTS[place] for place in places), error=RuntimeError("no"))
    assert sorted(embed_all(provider, TEXTS).refused) == places


def test_a_text_that_fails_twice_and_then_not_is_not_refused() -> None:
    def script(provider: Scripted, texts: Sequence[str]) -> None:
        if provider.calls <= 2:
            raise RuntimeError("a moment")

    found = embed_all(Scripted(script), TEXTS[:1], tries=3)
    assert not found.refused
    assert np.array_equal(found.vectors, FakeProvider().embed(TEXTS[:1]))


@pytest.mark.parametrize("error", [RuntimeError("no device"), TextRefusedError("it", "says no")])
def test_a_model_that_takes_nothing_is_an_outage_and_no_text_is_refused(error: Exception) -> None:
    def script(provider: Scripted, texts: Sequence[str]) -> None:
        raise error

    provider = Scripted(script)
    with pytest.raises(EmbeddingError, match=r"the model fake/\S+ takes no text: .*(no dev|says)"):
        embed_all(provider, TEXTS)
    assert provider.calls <= 20


def test_a_model_that_breaks_after_a_refusal_is_an_outage_too() -> None:
    def script(provider: Scripted, texts: Sequence[str]) -> None:
        if TEXTS[3] in texts or provider.calls > 9:
            raise RuntimeError("broken")

    with pytest.raises(EmbeddingError, match="takes no text"):
        embed_all(Scripted(script), TEXTS[:8])


@pytest.mark.parametrize(
    "outage",
    [EmbeddingError("http://x", "does not answer"), SetupError("no weights"), MemoryError()],
)
def test_an_outage_in_the_middle_passes_through(outage: Exception) -> None:
    def script(provider: Scripted, texts: Sequence[str]) -> None:
        if provider.calls > 5:
            raise outage
        if TEXTS[999] in texts:
            raise RuntimeError("poisoned")

    with pytest.raises(type(outage)) as caught:
        embed_all(Scripted(script), TEXTS)
    assert caught.value is outage


def test_no_texts_are_no_vectors() -> None:
    assert embed_all(FakeProvider(), []).vectors.shape == (0, FakeProvider.dimension)
