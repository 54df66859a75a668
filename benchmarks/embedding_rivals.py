"""The default model beside sentence-transformers, on the CPU, with the same weights and texts.

- `speed`: texts of about 30, 100 and 200 tokens, each side in a process of its own with as many
  threads as there are cores, interleaved, in several rounds of which the first is left out. The
  library's own `encode` is asked, in batches of 32 as it does by itself;
- `same`: the least cosine between both vectors of a text, over all texts;
- `search`: documents are looked for by their titles among the bodies of all. How often the right
  one comes first, and among the first ten, with the vectors of either side.
"""

import argparse
import os
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from typing import Any

import numpy as np

from embedding_stage import side_by_side
from embedding_texts import texts_of, words
from freshet.demo.corpus import collect
from freshet.embedding import ProviderSpec
from freshet.embedding.minilm import model_folder
from freshet.embedding.provider import Vectors
from measuring import machine, median

CORES = os.cpu_count() or 1
MODEL = ProviderSpec("minilm", threads=CORES)

Side = Callable[[Sequence[str]], Vectors]


def by_freshet(texts: Sequence[str]) -> Vectors:
    return MODEL.load().embed(texts)


def by_reference(texts: Sequence[str]) -> Vectors:
    found: Vectors = _reference().encode(list(texts), show_progress_bar=False)
    return found


@cache
def _reference() -> Any:
    import torch  # noqa: PLC0415  in its own process only
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415

    torch.set_num_threads(CORES)
    return SentenceTransformer(str(model_folder()), device="cpu")


def show_speed(ours: Side, theirs: Side, count: int, rounds: int) -> list[str]:
    chooser, source, all_texts = random.Random(7), words(), []
    print(f"\n{'tokens':>8}{'texts':>8}{'minilm':>10}{'sentence-transformers':>24}{'ratio':>8}"
          "   texts/s")  # fmt: skip
    for tokens, share in ((30, 1.0), (100, 0.5), (200, 0.25)):
        texts = texts_of(tokens, max(int(count * share), 8), chooser, source)
        took = side_by_side(rounds, lambda: ours(texts), lambda: theirs(texts))  # noqa: B023
        rates = [1_000 * len(texts) / median(times) for times in took]
        ratio = median([rival / mine for mine, rival in zip(*took, strict=True)])
        print(f"{tokens:>8}{len(texts):>8,}{rates[0]:>10,.0f}{rates[1]:>24,.0f}{ratio:>8.2f}")
        all_texts += texts
    return all_texts


def show_same(ours: Side, theirs: Side, texts: Sequence[str]) -> None:
    cosines = (ours(texts) * theirs(texts)).sum(axis=1)
    print(f"\nleast cosine between both vectors of {len(texts):,} texts: {cosines.min():.6f}")


def recall(side: Side, titles: Sequence[str], bodies: Sequence[str]) -> tuple[float, float]:
    """How often, in percent, a title finds its own body first, and among the first ten."""
    similar = side(titles) @ side(bodies).T
    own = np.diagonal(similar)[:, None]
    better = (similar > own).sum(axis=1)
    return 100 * float((better == 0).mean()), 100 * float((better < 10).mean())


def show_search(ours: Side, theirs: Side, count: int) -> None:
    documents = collect(count)
    titles, bodies = [one.title for one in documents], [one.body for one in documents]
    found = [recall(side, titles, bodies) for side in (ours, theirs)]
    print(f"\n{len(documents):,} documents, looked for by their titles (percent)")
    print(f"{'':>12}{'minilm':>10}{'sentence-transformers':>24}{'points apart':>15}")
    for place, name in enumerate(("recall@1", "recall@10")):
        mine, other = found[0][place], found[1][place]
        print(f"{name:>12}{mine:>10.2f}{other:>24.2f}{mine - other:>+15.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--texts", type=int, default=1_000, help="of 30 tokens; five times as many "
                        "documents, 5,000 at most")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=5, help="besides the first")
    told = parser.parse_args()
    print(f"{machine()}; {MODEL.describe().model_id}")
    spawn = get_context("spawn")
    with (
        ProcessPoolExecutor(1, mp_context=spawn) as mine,
        ProcessPoolExecutor(1, mp_context=spawn) as rival,
    ):
        ours: Side = lambda texts: mine.submit(by_freshet, texts).result()  # noqa: E731
        theirs: Side = lambda texts: rival.submit(by_reference, texts).result()  # noqa: E731
        texts = show_speed(ours, theirs, told.texts, told.rounds)
        show_same(ours, theirs, texts)
        show_search(ours, theirs, min(5 * told.texts, 5_000))


if __name__ == "__main__":
    main()
