"""Any model that sentence-transformers loads, on a GPU or the CPU. Its library is an extra."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from freshet.embedding.batching import by_token_budget, overlapped, parts_by_length
from freshet.embedding.origins import TorchModel
from freshet.embedding.provider import Span, Vectors
from freshet.embedding.tokens import SPECIAL_TOKENS, Ids, TextTokenizer, padded
from freshet.errors import SetupError

_PACKAGE: Final = "sentence_transformers"
_INSTALL: Final = "pip install 'freshet[sentence-transformers]'"
_PART_TEXTS: Final = 2_048
"""In a part, and in a group at most: a GPU takes as many as the budget of tokens allows."""
_SAMPLE: Final = 1_024
"""How many numbers of each of a model's tensors tell it from others."""


@dataclass(frozen=True)
class _Group:
    """Texts that the model gets in one call, by their places."""

    places: list[int]
    ids: Ids
    mask: Ids


class SentenceModel:
    """One instance serves one thread. Tokens are made in another while the device works.

    The model is loaded into memory to be asked about itself, and moved to its device when the first
    text is embedded: a driver takes no memory of a GPU.
    """

    is_deterministic: Final = True
    texts_per_task: Final = 256

    def __init__(
        self,
        origin: TorchModel,
        *,
        batch_tokens: int = 2_048,
        threads: int = 1,
        precision: str = "auto",
    ) -> None:
        self._origin = origin
        self._batch_tokens = batch_tokens
        self._threads = threads
        self._precision = precision

    @cached_property
    def model_id(self) -> str:
        """The last part of the model's name and what its weights look like."""
        return f"sentence-transformers/{Path(self._origin.model).name}@{_digest(self._loaded)}"

    @cached_property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._loaded.get_embedding_dimension())

    @cached_property
    def window_tokens(self) -> int:
        """As the model says."""
        longest = self._loaded.max_seq_length
        if not longest:
            raise SetupError(f"the model {self._origin.model} does not say its max_seq_length")
        return int(longest) - SPECIAL_TOKENS

    def check_installed(self) -> None:
        """The library and the model must be there."""
        _ = self._tokenizer

    def token_spans(self, text: str) -> Sequence[Span]:
        """Where the tokens of a text stand."""
        return self._tokenizer.spans(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One vector a text."""
        import torch  # noqa: PLC0415  an extra, and heavy

        vectors = np.empty((len(texts), self.dimension), np.float32)
        queued: list[tuple[list[int], Any]] = []

        def fetch() -> None:
            places, made = queued.pop(0)
            vectors[places] = made.cpu().numpy()

        def infer(_: list[int], groups: list[_Group]) -> None:
            made = torch.cat([self._forward(group) for group in groups])
            queued.append(([place for group in groups for place in group.places], made))
            if len(queued) > 1:
                # Those of the part before: the device has this one's work already.
                fetch()

        with torch.inference_mode():
            parts = parts_by_length(texts, _PART_TEXTS)
            overlapped(parts, lambda part: list(self._groups(texts, part)), infer)
            while queued:
                fetch()
        return vectors

    def _groups(self, texts: Sequence[str], part: list[int]) -> Iterator["_Group"]:
        """What the model gets of a part of the texts, one call after the other."""
        # One core could not keep a GPU busy, and a task with a GPU has no neighbours.
        on_gpu = self._running.device.type == "cuda"
        some = [texts[place] for place in part]
        encodings = self._tokenizer.encode(some, by_all_cores=on_gpu)
        lengths = [len(encoding.ids) for encoding in encodings]
        for group in by_token_budget(lengths, self._batch_tokens, _PART_TEXTS):
            ids, mask = padded([encodings[place] for place in group], self._padding_id)
            yield _Group([part[place] for place in group], ids, mask)

    def _forward(self, group: "_Group") -> Any:
        import torch  # noqa: PLC0415

        named = {
            "input_ids": group.ids,
            "attention_mask": group.mask,
            "token_type_ids": np.zeros_like(group.ids),
        }
        device = self._running.device
        features = {
            name: torch.from_numpy(named[name]).to(device, non_blocking=True)
            for name in self._running.tokenizer.model_input_names
        }
        first, *others = self._running
        features = first(features)
        # What makes one vector of many adds up: in 16 bits that would cost digits.
        features["token_embeddings"] = features["token_embeddings"].float()
        for module in others:
            features = module(features)
        return features["sentence_embedding"].float()

    @cached_property
    def _running(self) -> Any:
        """The model on its device, in the precision that it runs in."""
        import torch  # noqa: PLC0415
        from sentence_transformers.util import get_device_name  # noqa: PLC0415

        _ = self.model_id  # which is of the weights as they were loaded
        model, device = self._loaded, torch.device(self._origin.device or get_device_name())
        if device.type == "cuda" and self._precision == "auto":
            # As it was trained, or else in the one with more digits.
            stored = next(model[0].parameters()).dtype
            model[0].to(torch.bfloat16 if stored == torch.bfloat16 else torch.float16)
        if device.type == "cpu":
            torch.set_num_threads(self._threads)
        return model.to(device).eval()

    @cached_property
    def _loaded(self) -> Any:
        if find_spec(_PACKAGE) is None:
            raise SetupError(f"sentence-transformers is not installed: run `{_INSTALL}`")
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415

        try:
            return SentenceTransformer(self._origin.model, device="cpu")
        except (OSError, ValueError) as error:
            said = str(error).strip().split("\n", 1)[0]
            raise SetupError(f"cannot load the model {self._origin.model}: {said}") from None

    @cached_property
    def _tokenizer(self) -> TextTokenizer:
        found = self._loaded.tokenizer
        if not getattr(found, "is_fast", False):
            raise SetupError(f"the tokenizer of {self._origin.model} cannot tell places of tokens")
        return TextTokenizer(found.backend_tokenizer.to_str(), self.window_tokens)

    @cached_property
    def _padding_id(self) -> int:
        return int(self._loaded.tokenizer.pad_token_id or 0)


def _digest(model: Any) -> str:
    """Of the beginning of every tensor, as it was loaded."""
    digest = hashlib.blake2b(digest_size=6)
    for name, values in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(values.shape)}".encode())
        digest.update(values.flatten()[:_SAMPLE].double().numpy().tobytes())
    return digest.hexdigest()
