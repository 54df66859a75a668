"""Any function of LanceDB's registry as a provider, one's own among them."""

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from freshet.embedding import estimates
from freshet.embedding.estimates import Request
from freshet.embedding.origins import RegistryFunction
from freshet.embedding.provider import Span, Vectors
from freshet.errors import TextRefusedError
from freshet.stores.lancedb_functions import make_function, without_secrets


class LanceDBFunction:
    """One instance serves one thread. What the function raises is passed on as it is."""

    is_deterministic: Final = False
    texts_per_task: Final = 256

    def __init__(
        self,
        origin: RegistryFunction,
        *,
        batch_tokens: int = 2_048,
        threads: int = 1,
        precision: str = "auto",
    ) -> None:
        """Takes what every provider takes: threads and precision are the function's own."""
        self._origin = origin
        self._options: dict[str, Any] = json.loads(origin.options)
        self._batch_tokens = batch_tokens

    @cached_property
    def model_id(self) -> str:
        """The function's name and a digest of its options, secrets left out.

        The weights are not part of it: only who registers the function knows when they change.
        """
        told = json.dumps(without_secrets(self._function, self._options), sort_keys=True)
        digest = hashlib.blake2b(f"{self._origin.function} {told}".encode(), digest_size=6)
        return f"lancedb/{self._origin.function}@{digest.hexdigest()}"

    @cached_property
    def dimension(self) -> int:
        """As the function says; a vector of another length is an error."""
        return int(self._function.ndims())

    @property
    def window_tokens(self) -> int:
        """As the settings say."""
        return self._origin.window_tokens

    def check_installed(self) -> None:
        """The function and what it needs must be there."""
        _ = self._function

    def token_spans(self, text: str) -> Sequence[Span]:
        """An estimate: pieces of four characters."""
        return estimates.token_spans(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One vector a text, as the function gives it; a blank text points along the first axis."""
        vectors = estimates.blank_vectors(len(texts), self.dimension)
        for request in estimates.requests_for(texts, self.window_tokens, self._batch_tokens):
            vectors[list(request.places)] = self._ask(request)
        return vectors

    def _ask(self, request: Request) -> Vectors:
        # Without the function's own retries: those would take minutes for a text that is at fault.
        given = self._function.compute_source_embeddings(list(request.texts))
        if any(one is None for one in given):
            raise TextRefusedError(self.model_id, "gives no vector")
        vectors = np.asarray(given, np.float32)
        if vectors.shape != (len(request.texts), self.dimension) or not np.isfinite(vectors).all():
            raise ValueError(f"gives {vectors.shape} for {len(request.texts)} texts, or no numbers")
        return vectors

    @cached_property
    def _function(self) -> Any:
        return make_function(self._origin.function, self._options, self._origin.imports)
