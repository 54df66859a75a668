"""The section that names the model."""

from typing import Literal, Self

from pydantic import Field, model_validator

from freshet.settings.section import Section
from freshet.units import DURATION


class EmbeddingSettings(Section):
    """Which model makes the vectors. `folder` is of `local`, all that follows is of `openai`."""

    provider: Literal["minilm", "local", "openai", "fake"] = Field(
        "minilm",
        description="`minilm` (all-MiniLM-L6-v2 on the CPU), `local` (a model of the BERT family "
        "in a folder), `openai` (any server that speaks OpenAI's `/embeddings`) or `fake` (for "
        "tests).",
    )
    batch_tokens: int = Field(
        2_048, ge=64, description="Most tokens, padding counted, given to the model at once."
    )
    folder: str | None = Field(
        None,
        min_length=1,
        description="Folder of the model, as sentence-transformers saves it; relative to the file. "
        "It must lie at the same place on every executor.",
    )
    model: str | None = Field(
        None, min_length=1, description="Name of the model, such as `text-embedding-3-small`."
    )
    dimension: int | None = Field(None, ge=1, description="Length of the model's vectors.")
    window_tokens: int = Field(
        512,
        ge=16,
        description="Longest text that is sent whole. Tokens are estimated, at four characters.",
    )
    url: str = Field(
        "https://api.openai.com/v1",
        pattern=r"^https?://[^\s?#@]+$",
        description="Where the server is; `/embeddings` is added.",
    )
    api_key_env: str = Field(
        "OPENAI_API_KEY",
        description="Environment variable that holds the key, on the executors too. The key itself "
        "is never written anywhere. Empty: the server needs none.",
    )
    requests_at_once: int = Field(
        4, ge=1, le=64, description="Requests under way at once, for each task."
    )
    requests_per_minute: int | None = Field(
        None, ge=1, description="Most requests a minute, for each task. Unset: as fast as it goes."
    )
    timeout: str = Field(
        "60 seconds",
        pattern=DURATION,
        description="How long a request may take before it counts as failed.",
    )
    retries: int = Field(
        6,
        ge=0,
        description="How often a request that failed for a passing reason (429, 5xx, no answer) is "
        "made again, after ever longer pauses or when the server says. Then the batch fails.",
    )

    @model_validator(mode="after")
    def _says_what_cannot_be_asked(self) -> Self:
        if self.provider == "openai" and (self.model is None or self.dimension is None):
            raise ValueError('provider = "openai" needs model and dimension')
        if self.provider == "local" and self.folder is None:
            raise ValueError('provider = "local" needs folder')
        return self
