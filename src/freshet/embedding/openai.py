"""Any server that speaks OpenAI's `/embeddings`: hosted, or a model server of one's own.

A request that fails for a passing reason is made again, by urllib3's rules. When that does not
help, the task fails, and with it the batch: nothing of it is written, and Spark tries it again.
A request that the server refuses for its texts is an error of another kind: `TextRefusedError`.
"""

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, Final

import numpy as np
import urllib3

from freshet.embedding import estimates
from freshet.embedding.estimates import Request
from freshet.embedding.limits import Allowance, Pace
from freshet.embedding.origins import Endpoint
from freshet.embedding.provider import Span, Vectors
from freshet.errors import EmbeddingError, SetupError, TextRefusedError

_PASSING: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_REFUSES_KEY: Final = frozenset({401, 403})
_REFUSES_TEXTS: Final = frozenset({400, 413, 422})
_LONGEST_PAUSE_S: Final = 60
_SHORTENS: Final = "text-embedding-3"
"""Models of which a shorter vector can be asked."""


class OpenAIProvider:
    """One instance serves one task; its requests run in threads."""

    is_deterministic: Final = False
    texts_per_task: Final = 256

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        batch_tokens: int = 2_048,
        threads: int = 1,
        precision: str = "auto",
    ) -> None:
        """Takes what every provider takes: threads and precision are the server's own."""
        self._endpoint = endpoint
        self._batch_tokens = batch_tokens
        self._pace = Pace(endpoint.requests_per_minute)
        self._allowance = Allowance(endpoint.max_tokens_per_hour)

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
        return estimates.token_spans(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One vector a text, as the server gives it; a blank text points along the first axis."""
        vectors = estimates.blank_vectors(len(texts), self.dimension)
        asked = list(estimates.requests_for(texts, self.window_tokens, self._batch_tokens))
        with ThreadPoolExecutor(self._endpoint.requests_at_once) as threads:
            for request, found in zip(asked, threads.map(self._ask, asked), strict=True):
                vectors[list(request.places)] = found
        return vectors

    def _ask(self, request: Request) -> Vectors:
        url = f"{self._endpoint.url.rstrip('/')}/embeddings"
        if not self._allowance.has_room_for(request.tokens):
            raise EmbeddingError(
                url,
                f"is not asked: embedding.max_tokens_per_hour = {self._allowance.tokens} would be "
                "passed. Make it larger, or wait: the next `freshet run` begins with this batch",
            )
        self._pace.wait()
        answer = self._answer(url, request.texts)
        vectors, used = _read(url, answer)
        self._allowance.correct(0 if used is None else used - request.tokens)
        self._check(url, vectors, len(request.texts))
        return vectors

    def _answer(self, url: str, texts: Sequence[str]) -> urllib3.BaseHTTPResponse:
        wanted: dict[str, Any] = {"model": self._endpoint.model, "input": list(texts)}
        if self._endpoint.model.startswith(_SHORTENS):
            wanted["dimensions"] = self.dimension
        try:
            answer = self._pool.request("POST", url, json=wanted, headers=self._headers)
        except urllib3.exceptions.HTTPError as error:
            raise EmbeddingError(url, f"does not answer: {_reason(error)}") from None
        if answer.status in _REFUSES_KEY:
            name = self._endpoint.api_key_env or "(none)"
            raise EmbeddingError(url, f"refuses the key in {name} ({answer.status})")
        if answer.status != 200:
            said = answer.data[:200].decode("utf-8", "replace")
            kind = TextRefusedError if answer.status in _REFUSES_TEXTS else EmbeddingError
            raise kind(url, f"answers {answer.status}: {said}")
        return answer

    def _check(self, url: str, vectors: Vectors, count: int) -> None:
        if vectors.shape != (count, self.dimension):
            raise EmbeddingError(
                url,
                f"gives vectors of the shape {vectors.shape} for {count} texts, but "
                f"embedding.dimension is {self.dimension}",
            )
        if not np.isfinite(vectors).all():
            raise TextRefusedError(url, "gives vectors with numbers that are not finite")

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


def _read(url: str, answer: urllib3.BaseHTTPResponse) -> tuple[Vectors, int | None]:
    """The vectors of an answer, and how many tokens the server says it took."""
    try:
        told = answer.json()
        data = sorted(told["data"], key=lambda one: one["index"])
        vectors = np.array([one["embedding"] for one in data], np.float32)
    except (KeyError, TypeError, ValueError) as error:
        raise EmbeddingError(url, f"gives what is no list of embeddings: {error}") from None
    used = (told.get("usage") or {}).get("total_tokens")
    return vectors, used if isinstance(used, int) else None


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
