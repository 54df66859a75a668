"""What makes vectors: one protocol, and the providers by name."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from freshet.embedding.origins import Origin, origin_of
from freshet.errors import SettingsError
from freshet.settings import EmbeddingSettings

Vectors = NDArray[np.float32]
Span = tuple[int, int]

_CLASSES: Final = {
    "minilm": ("minilm", "MiniLM"),
    "local": ("local", "LocalModel"),
    "openai": ("openai", "OpenAIProvider"),
    "sentence-transformers": ("sentence_models", "SentenceModel"),
    "lancedb": ("lancedb_functions", "LanceDBFunction"),
    "fake": ("fake", "FakeProvider"),
}
"""The module and the class of each provider."""


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
    def is_deterministic(self) -> bool:
        """Whether it is known that a text always gets the same vector, up to rounding.

        Rounding is of the precision that the model runs in: how texts are grouped and which CPU or
        GPU it is may change the last digits of it.
        """
        ...

    @property
    def texts_per_task(self) -> int:
        """How many texts take about as long as starting another task for them would."""
        ...

    def token_spans(self, text: str) -> Sequence[Span]:
        """Where each token of a text stands, as character offsets, in order."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One vector a text, in the order of the texts; a longer text is cut off.

        Raises `TextRefusedError` if the texts are to blame, `EmbeddingError` in an outage, and
        whatever the model's library raises; see `attempts.embed_all`.
        """
        ...


@dataclass(frozen=True)
class ProviderSpec:
    """Which provider, with what options. Small and picklable: it travels instead of the model."""

    name: str
    batch_tokens: int = 2_048
    threads: int = 1
    precision: str = "auto"
    origin: Origin | None = None

    @classmethod
    def of(cls, settings: EmbeddingSettings, threads: int = 1) -> "ProviderSpec":
        """The spec that the settings name."""
        return cls(
            settings.provider,
            settings.batch_tokens,
            threads,
            settings.precision,
            origin_of(settings),
        )

    def load(self) -> Provider:
        """The provider, loaded once per process."""
        return _loaded(self)

    @staticmethod
    def forget_loaded() -> None:
        """Lets go of all providers that this process has loaded."""
        _loaded.cache_clear()

    def describe(self) -> Any:
        """What knows id, dimension and window, as far as it can without the model's weights."""
        return _provider_class(self.name) if self.origin is None else self.load()

    def check(self) -> None:
        """Raises `SetupError` if what the provider needs is not there."""
        self.describe().check_installed()


@cache
def _loaded(spec: ProviderSpec) -> Provider:
    provider: Provider = _provider_class(spec.name)(
        *([] if spec.origin is None else [spec.origin]),
        batch_tokens=spec.batch_tokens,
        threads=spec.threads,
        precision=spec.precision,
    )
    return provider


def _provider_class(name: str) -> Any:
    """Imported on demand: a model's libraries are heavy."""
    if name not in _CLASSES:
        raise SettingsError(f'the embedding provider "{name}" is not known')
    module, found = _CLASSES[name]
    return getattr(import_module(f"freshet.embedding.{module}"), found)
