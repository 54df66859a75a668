"""Sentence models of the BERT family on the CPU, through OpenVINO: tokens in, vectors out."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import openvino as ov
from safetensors.numpy import load_file
from tokenizers import Encoding, Tokenizer

from freshet.embedding import bert_graph
from freshet.embedding.batching import by_token_budget
from freshet.embedding.provider import Span, Vectors

SPECIAL_TOKENS: Final = 2
_PREFIXES: Final = ("bert.", "roberta.")


class BertEncoder:
    """The model in a folder; bf16 where the CPU has it. One instance serves one thread."""

    texts_per_task: Final = 16

    def __init__(
        self,
        folder: Path,
        shape: bert_graph.Shape,
        window_tokens: int,
        *,
        batch_tokens: int = 2_048,
        threads: int = 1,
    ) -> None:
        self._folder = folder
        self._shape = shape
        self._batch_tokens = batch_tokens
        self._threads = threads
        self._spans = _tokenizer(folder)
        self._spans.no_truncation()
        self._tokenizer = _tokenizer(folder)
        self._tokenizer.enable_truncation(window_tokens + SPECIAL_TOKENS)

    @cached_property
    def _request(self) -> ov.InferRequest:
        """The model itself, made when the first text is embedded: cutting texts needs none."""
        return _compiled(self._folder, self._shape, self._threads).create_infer_request()

    def token_spans(self, text: str) -> Sequence[Span]:
        """Where the word pieces of a text stand."""
        spans: Sequence[Span] = self._spans.encode(text, add_special_tokens=False).offsets
        return spans

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One vector a text."""
        encodings = self._tokenizer.encode_batch(list(texts))
        lengths = [len(encoding.ids) for encoding in encodings]
        vectors = np.empty((len(encodings), self._shape.hidden), np.float32)
        for group in by_token_budget(lengths, self._batch_tokens):
            vectors[group] = self._infer([encodings[position] for position in group])
        return vectors

    def _infer(self, encodings: Sequence[Encoding]) -> Vectors:
        longest = max(len(encoding.ids) for encoding in encodings)
        ids = np.zeros((len(encodings), longest), np.int64)
        mask = np.zeros_like(ids)
        for row, encoding in enumerate(encodings):
            ids[row, : len(encoding.ids)] = encoding.ids
            mask[row, : len(encoding.ids)] = 1
        result: Vectors = self._request.infer([ids, mask])[0]
        return result


def _tokenizer(folder: Path) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    # The file may ask for a fixed padding; groups are padded here, to their own longest text.
    tokenizer.no_padding()
    return tokenizer


def _compiled(folder: Path, shape: bert_graph.Shape, threads: int) -> ov.CompiledModel:
    core = ov.Core()
    has_bf16 = "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    options = {
        "INFERENCE_PRECISION_HINT": "bf16" if has_bf16 else "f32",
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
    }
    stored = load_file(folder / "model.safetensors")
    weights = {_plain(name): values for name, values in stored.items()}
    return core.compile_model(bert_graph.build(weights, shape), "CPU", options)


def _plain(name: str) -> str:
    """A weight's name inside the encoder: models with heads put one more name before it."""
    return next((name.removeprefix(one) for one in _PREFIXES if name.startswith(one)), name)
