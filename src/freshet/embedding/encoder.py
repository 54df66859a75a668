"""Sentence models on the CPU, through OpenVINO: tokens in, vectors out."""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import openvino as ov
from tokenizers import Encoding

from freshet.embedding.batching import by_token_budget, overlapped, parts_by_length
from freshet.embedding.provider import Span, Vectors
from freshet.embedding.tokens import TextTokenizer, padded


class Encoder:
    """A graph and its tokenizer; bf16 where the CPU has it. One instance serves one thread.

    Memory is bounded by two parts of the texts: the tokens of one are made while the model runs on
    the other.
    """

    is_deterministic: Final = True
    texts_per_task: Final = 16

    def __init__(
        self,
        folder: Path,
        graph: Callable[[], ov.Model],
        dimension: int,
        window_tokens: int,
        *,
        batch_tokens: int = 2_048,
        threads: int = 1,
        precision: str = "auto",
    ) -> None:
        self._graph = graph
        self._size = dimension
        self._batch_tokens = batch_tokens
        self._threads = threads
        self._precision = precision
        self._tokenizer = TextTokenizer((folder / "tokenizer.json").read_text(), window_tokens)

    @cached_property
    def _request(self) -> ov.InferRequest:
        """The model itself, made when the first text is embedded: cutting texts needs none."""
        return _compiled(self._graph(), self._threads, self._precision).create_infer_request()

    def token_spans(self, text: str) -> Sequence[Span]:
        """Where the word pieces of a text stand."""
        return self._tokenizer.spans(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One vector a text."""
        vectors = np.empty((len(texts), self._size), np.float32)

        def encode(part: list[int]) -> list[Encoding]:
            return self._tokenizer.encode([texts[place] for place in part])

        def infer(part: list[int], encodings: list[Encoding]) -> None:
            vectors[part] = self._infer(encodings)

        overlapped(parts_by_length(texts), encode, infer)
        return vectors

    def _infer(self, encodings: Sequence[Encoding]) -> Vectors:
        vectors = np.empty((len(encodings), self._size), np.float32)
        lengths = [len(encoding.ids) for encoding in encodings]
        for group in by_token_budget(lengths, self._batch_tokens):
            ids, mask = padded([encodings[position] for position in group])
            vectors[group] = self._request.infer([ids, mask])[0]
        return vectors


def _compiled(model: ov.Model, threads: int, precision: str) -> ov.CompiledModel:
    core = ov.Core()
    has_bf16 = "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    options = {
        "INFERENCE_PRECISION_HINT": "bf16" if has_bf16 and precision == "auto" else "f32",
        "INFERENCE_NUM_THREADS": threads,
        "ENABLE_CPU_PINNING": False,
        "NUM_STREAMS": 1,
    }
    return core.compile_model(model, "CPU", options)
