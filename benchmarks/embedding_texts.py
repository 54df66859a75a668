"""Texts for the benchmarks of the embedding: stretches of real ones, so many tokens long."""

import random
from collections.abc import Callable, Sequence

from freshet.demo.corpus import collect
from freshet.embedding.provider import ProviderSpec

Spans = Callable[[str], Sequence[tuple[int, int]]]


def words() -> list[str]:
    """Words of real texts, in their order."""
    return [word for one in collect(5_000) for word in f"{one.title} {one.body}".split()]


def texts_of(
    tokens: int,
    count: int,
    chooser: random.Random,
    source: list[str],
    spans: Spans | None = None,
) -> list[str]:
    """Different texts of about so many tokens, each a stretch of the source and a number.

    Tokens are the default model's, unless another's `spans` are given.
    """
    spans = spans or ProviderSpec("minilm").load().token_spans
    ratio = len(spans(" ".join(source[:2_000]))) / 2_000
    length = max(int(tokens / ratio) - 1, 1)
    starts = [chooser.randrange(len(source) - length) for _ in range(count)]
    return [f"{at} {' '.join(source[start:][:length])}" for at, start in enumerate(starts)]
