"""The provider `sentence-transformers` on a GPU, beside the raw model on the same device.

Texts of about 30, 100 and 200 tokens, in several rounds of which the first is left out; medians.

- `device`: the model alone on groups of tokens that lie in the GPU's memory already, in the order
  and precision that are best for it: what the device can do;
- `tokenizer`: texts to tokens on all cores of the machine, without the model;
- `encode`: the library's own `encode`, in the same precision, with its best batch size of several;
- `provider`: what a task does: texts in, vectors in the machine's memory out.

`provider / device` is the share of the device that a task makes use of.
"""

import argparse
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from embedding_texts import texts_of, words
from freshet.embedding.batching import by_token_budget
from freshet.embedding.origins import TorchModel
from freshet.embedding.sentence_models import SentenceModel
from measuring import machine, median, timed_ms

BATCH_SIZES = (64, 256, 1_024)


def rate(texts: Sequence[str], rounds: int, action: Callable[[], object]) -> float:
    """Texts a second, the first round left out."""
    took = [timed_ms(action) for _ in range(rounds + 1)][1:]
    return 1_000 * len(texts) / median(took)


def on_device(model: SentenceTransformer, texts: Sequence[str], budget: int) -> Callable[[], None]:
    """The model on groups that were tokenized and copied to the GPU before."""
    tokens = model.tokenizer(list(texts), truncation=True, max_length=model.max_seq_length)
    lengths = [len(ids) for ids in tokens["input_ids"]]
    groups: list[dict[str, Any]] = []
    for places in by_token_budget(lengths, budget, 4_096):
        some = {name: [tokens[name][place] for place in places] for name in tokens}
        padded = model.tokenizer.pad(some, return_tensors="pt")
        groups.append({name: values.to(model.device) for name, values in padded.items()})

    def run() -> None:
        with torch.inference_mode():
            for group in groups:
                model(dict(group))
        torch.cuda.synchronize()

    return run


def best_encode(model: SentenceTransformer, texts: Sequence[str], rounds: int) -> float:
    return max(
        rate(texts, rounds, lambda size=size: model.encode(list(texts), batch_size=size))
        for size in BATCH_SIZES
    )


def least_cosine(ours: SentenceModel, model: str, texts: Sequence[str]) -> float:
    """Of the provider's vectors to those of the library in full precision."""
    reference = SentenceTransformer(model, device="cuda", model_kwargs={"dtype": torch.float32})
    exact = reference.encode(list(texts), batch_size=256)
    found = ours.embed(texts)
    lengths = np.linalg.norm(exact, axis=1) * np.linalg.norm(found, axis=1)
    return float(((found * exact).sum(axis=1) / lengths).min())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("model", help="name or folder of a model")
    parser.add_argument("--texts", type=int, default=40_000, help="of 30 tokens; fewer of longer")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budgets", type=int, nargs="+", default=[16_384, 65_536, 262_144])
    told = parser.parse_args()
    name = torch.cuda.get_device_name(0)
    print(f"{machine()}, {name}; torch {torch.__version__}")
    raw = SentenceTransformer(told.model, device="cuda", model_kwargs={"dtype": torch.float16})
    spans = SentenceModel(TorchModel(told.model, "cuda")).token_spans
    chooser, source = random.Random(7), words()
    print(f"{'tokens':>8}{'texts':>8}{'budget':>9}{'device':>10}{'tokenizer':>11}{'encode':>10}{'provider':>10}"
          f"{'/device':>9}{'/encode':>9}   texts/s")  # fmt: skip
    for tokens, share in ((30, 1.0), (100, 0.5), (200, 0.25)):
        texts = texts_of(tokens, int(told.texts * share), chooser, source, spans)
        tokenizer = raw.tokenizer.backend_tokenizer
        tokenized = rate(texts, told.rounds, lambda: tokenizer.encode_batch(texts))  # noqa: B023
        encode = best_encode(raw, texts, 2)
        for budget in told.budgets:
            ours = SentenceModel(TorchModel(told.model, "cuda"), batch_tokens=budget)
            device = rate(texts, told.rounds, on_device(raw, texts, budget))
            provider = rate(texts, told.rounds, lambda: ours.embed(texts))  # noqa: B023
            print(f"{tokens:>8}{len(texts):>8,}{budget:>9,}{device:>10,.0f}{tokenized:>11,.0f}"
                  f"{encode:>10,.0f}{provider:>10,.0f}{provider / device:>9.2f}"
                  f"{provider / encode:>9.2f}", flush=True)  # fmt: skip
    print(f"least cosine to full precision: {least_cosine(ours, told.model, texts[:2_000]):.5f}")


if __name__ == "__main__":
    main()
