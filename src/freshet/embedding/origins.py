"""Where a model comes from: what the settings tell of it, small and picklable."""

import json
from dataclasses import dataclass

from freshet.settings import EmbeddingSettings
from freshet.units import seconds_of


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
    max_tokens_per_hour: int | None
    timeout_s: float
    retries: int


@dataclass(frozen=True)
class TorchModel:
    """A model that sentence-transformers loads, by name or folder, and where it runs."""

    model: str
    device: str | None


@dataclass(frozen=True)
class RegistryFunction:
    """A function of LanceDB's registry; the options are JSON, so that it can be compared."""

    function: str
    options: str
    imports: tuple[str, ...]
    window_tokens: int


Origin = str | Endpoint | TorchModel | RegistryFunction
"""A string is the folder of a model."""


def origin_of(settings: EmbeddingSettings) -> Origin | None:
    """Where the model comes from that the settings name; None if its name says all."""
    match settings.provider:
        case "local":
            return settings.folder
        case "openai":
            return _endpoint(settings)
        case "sentence-transformers":
            return TorchModel(settings.model or "", settings.device)
        case "lancedb":
            return RegistryFunction(
                settings.function or "",
                json.dumps(settings.options, sort_keys=True),
                settings.imports,
                settings.window_tokens,
            )
        case _:
            return None


def _endpoint(settings: EmbeddingSettings) -> Endpoint:
    return Endpoint(
        settings.url,
        settings.model or "",
        settings.dimension or 0,
        settings.window_tokens,
        settings.api_key_env,
        settings.requests_at_once,
        settings.requests_per_minute,
        settings.max_tokens_per_hour,
        seconds_of(settings.timeout),
        settings.retries,
    )
