"""What makes vectors: one protocol, and the providers by name."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from freshet.errors import SettingsError
from freshet.settings import EmbeddingSettings
from freshet.units import seconds_of

Vectors = NDArray[np.float32]
Span = tuple[int, int]


class Provider(Protocol):
    """A model. The same text gives the same vector, whatever stands beside it in a call."""

    @property
    def model_id(self) -> str:
        """Names the model and its weights; vectors of different ids must not be compared."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    @property
    def window_tokens(self) -> int:
        """Longest text that the model takes in whole."""
        ...

    @property
    def texts_per_task(self) -> int:
        """How many texts take about as long as starting another task for them would."""
        ...

    def token_spans(self, text: str) -> Sequence[Span]:
        """Where each token of a text stands, as character offsets, in order."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One vector a text, in the order of the texts; a longer text is cut off."""
        ...


@dataclass(frozen=True)
class Endpoint:
    """Where a model is served, and how it is asked; see the settings of the same names."""

    url: str
    model: str
    dimension: int
    window_tokens: int
    api_key_env: str
    requests_at_once: int
    requests_per_minute: int | None
    timeout_s: float
    retries: int

    @classmethod
    def of(cls, settings: EmbeddingSettings) -> "Endpoint | None":
        """The endpoint that the settings name; None if the model is not served."""
        if settings.model is None or settings.dimension is None:
            return None
        return cls(
            settings.url,
            settings.model,
            settings.dimension,
            settings.window_tokens,
            settings.api_key_env,
            settings.requests_at_once,
            settings.requests_per_minute,
            seconds_of(settings.timeout),
            settings.retries,
        )


@dataclass(frozen=True)
class ProviderSpec:
    """Which provider, with what options. Small and picklable: it travels instead of the model."""

    name: str
    batch_tokens: int = 2_048
    threads: int = 1
    endpoint: Endpoint | None = None
    folder: str | None = None

    @classmethod
    def of(cls, settings: EmbeddingSettings, threads: int = 1) -> "ProviderSpec":
        """The spec that the settings name."""
        served = Endpoint.of(settings) if settings.provider == "openai" else None
        folder = settings.folder if settings.provider == "local" else None
        return cls(settings.provider, settings.batch_tokens, threads, served, folder)

    def load(self) -> Provider:
        """The provider, loaded once per process."""
        return _loaded(self)

    def describe(self) -> Any:
        """What knows id, dimension and window, without the model's weights."""
        is_known = self.endpoint is None and self.folder is None
        return _provider_class(self.name) if is_known else self.load()

    def check(self) -> None:
        """Raises `SetupError` if what the provider needs is not there."""
        self.describe().check_installed()


@cache
def _loaded(spec: ProviderSpec) -> Provider:
    own = {"endpoint": spec.endpoint, "folder": spec.folder}
    provider: Provider = _provider_class(spec.name)(
        batch_tokens=spec.batch_tokens,
        threads=spec.threads,
        **{name: value for name, value in own.items() if value is not None},
    )
    return provider


def _provider_class(name: str) -> Any:
    """Imported on demand: a model's libraries are heavy."""
    match name:
        case "minilm":
            from freshet.embedding.minilm import MiniLM  # noqa: PLC0415

            return MiniLM
        case "local":
            from freshet.embedding.local import LocalModel  # noqa: PLC0415

            return LocalModel
        case "openai":
            from freshet.embedding.openai import OpenAIProvider  # noqa: PLC0415

            return OpenAIProvider
        case "fake":
            from freshet.embedding.fake import FakeProvider  # noqa: PLC0415

            return FakeProvider
    raise SettingsError(f'the embedding provider "{name}" is not known')
