"""Any server that speaks OpenAI's `/embeddings`: hosted, or a model server of one's own.

A request that fails for a passing reason is made again, by urllib3's rules. When that does not
help, the task fails, and with it the batch: nothing of it is written, and Spark tries it again.
"""

import os
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any, Final

import numpy as np
import urllib3

from freshet.embedding.batching import by_token_budget
from freshet.embedding.chunking import Chunking
from freshet.embedding.provider import Endpoint, Span, Vectors
from freshet.errors import EmbeddingError, SetupError

# Without the model's own tokenizer: four characters, as OpenAI counts English.
_TOKEN: Final = re.compile(r"\S{1,4}")
_PASSING: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_REFUSED: Final = frozenset({401, 403})
_LONGEST_PAUSE_S: Final = 60
_SHORTENS: Final = "text-embedding-3"
"""Models of which a shorter vector can be asked."""


class OpenAIProvider:
    """One instance serves one task; its requests run in threads."""

    texts_per_task: Final = 256

    def __init__(self, endpoint: Endpoint, *, batch_tokens: int = 2_048, threads: int = 1) -> None:
        """Takes `threads` as every provider does: requests at once are of the endpoint."""
        self._endpoint = endpoint
        self._batch_tokens = batch_tokens
        self._pace = _Pace(endpoint.requests_per_minute)

    @property
    def model_id(self) -> str:
        """The server is not part of it: it may move."""
        return f"openai/{self._endpoint.model}/{self.dimension}"

    @property
    def dimension(self) -> int:
        """As the settings say; an answer of another length is an error."""
        return self._endpoint.dimension

    @property
    def window_tokens(self) -> int:
        """As the settings say."""
        return self._endpoint.window_tokens

    def check_installed(self) -> None:
        """The key must be there, if one is needed."""
        _key(self._endpoint)

    def token_spans(self, text: str) -> Sequence[Span]:
        """An estimate: pieces of four characters."""
        return [found.span() for found in _TOKEN.finditer(text)]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One vector a text, as the server gives it; a blank text points along the first axis."""
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        vectors[:, 0] = 1.0
        window = Chunking(self.window_tokens, 0)
        asked = [place for place, text in enumerate(texts) if text.strip()]
        heads = [window.head(texts[place], self.token_spans) for place in asked]
        groups = by_token_budget(
            [len(self.token_spans(text)) for text in heads], self._batch_tokens
        )
        with ThreadPoolExecutor(self._endpoint.requests_at_once) as requests:
            made = requests.map(lambda group: self._ask([heads[one] for one in group]), groups)
            for group, found in zip(groups, made, strict=True):
                vectors[[asked[one] for one in group]] = found
        return vectors

    def _ask(self, texts: Sequence[str]) -> Vectors:
        self._pace.wait()
        wanted: dict[str, Any] = {"model": self._endpoint.model, "input": list(texts)}
        if self._endpoint.model.startswith(_SHORTENS):
            wanted["dimensions"] = self.dimension
        url = f"{self._endpoint.url.rstrip('/')}/embeddings"
        try:
            answer = self._pool.request("POST", url, json=wanted, headers=self._headers)
        except urllib3.exceptions.HTTPError as error:
            raise EmbeddingError(url, f"does not answer: {_reason(error)}") from None
        if answer.status in _REFUSED:
            name = self._endpoint.api_key_env or "(none)"
            raise EmbeddingError(url, f"refuses the key in {name} ({answer.status})")
        if answer.status != 200:
            said = answer.data[:200].decode("utf-8", "replace")
            raise EmbeddingError(url, f"answers {answer.status}: {said}")
        return self._vectors(url, answer, len(texts))

    def _vectors(self, url: str, answer: urllib3.BaseHTTPResponse, count: int) -> Vectors:
        try:
            data = sorted(answer.json()["data"], key=lambda one: one["index"])
            vectors = np.array([one["embedding"] for one in data], np.float32)
        except (KeyError, TypeError, ValueError) as error:
            raise EmbeddingError(url, f"gives what is no list of embeddings: {error}") from None
        if vectors.shape != (count, self.dimension) or not np.isfinite(vectors).all():
            raise EmbeddingError(
                url,
                f"gives vectors of the shape {vectors.shape} for {count} texts, but "
                f"embedding.dimension is {self.dimension}",
            )
        return vectors

    @cached_property
    def _headers(self) -> dict[str, str]:
        key = _key(self._endpoint)
        return {"authorization": f"Bearer {key}"} if key else {}

    @cached_property
    def _pool(self) -> urllib3.PoolManager:
        retries = urllib3.Retry(
            total=self._endpoint.retries,
            status_forcelist=_PASSING,
            allowed_methods=None,
            backoff_factor=0.25,
            backoff_jitter=0.25,
            backoff_max=_LONGEST_PAUSE_S,
            retry_after_max=_LONGEST_PAUSE_S,
            raise_on_status=False,
        )
        return urllib3.PoolManager(
            maxsize=self._endpoint.requests_at_once,
            retries=retries,
            timeout=urllib3.Timeout(total=self._endpoint.timeout_s),
        )


@dataclass
class _Pace:
    """Keeps requests apart by at least their share of a minute."""

    per_minute: int | None
    _next: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    def wait(self) -> None:
        """Returns when the next request may be made."""
        if self.per_minute is None:
            return
        with self._lock:
            now = time.monotonic()
            self._next = max(self._next, now) + 60 / self.per_minute
            pause = self._next - 60 / self.per_minute - now
        time.sleep(max(pause, 0))


def _key(endpoint: Endpoint) -> str | None:
    if not endpoint.api_key_env:
        return None
    key = os.environ.get(endpoint.api_key_env)
    if not key:
        raise SetupError(
            f"the environment variable {endpoint.api_key_env} is not set: it must hold the key of "
            f'{endpoint.url}; if that needs none, set embedding.api_key_env = ""'
        )
    return key


def _reason(error: urllib3.exceptions.HTTPError) -> str:
    """What went wrong in the last attempt, without the objects in urllib3's sentences."""
    cause = getattr(error, "reason", None) or error
    return re.sub(r"<[^>]*>:? ?|\w+\(host=[^)]*\): ?", "", str(cause))[:200] or type(cause).__name__
