"""The section that names the model."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from freshet.settings.section import Section
from freshet.units import DURATION, SIZE


class EmbeddingSettings(Section):
    """Which model makes the vectors. From `dimension` on, keys are of `openai` if not said."""

    provider: Literal["minilm", "local", "openai", "sentence-transformers", "lancedb", "fake"] = (
        Field(
            "minilm",
            description="`minilm` (all-MiniLM-L6-v2 on the CPU), `local` (a model in a folder, on "
            "the CPU), `openai` (any server that speaks OpenAI's `/embeddings`), "
            "`sentence-transformers` (any model that it loads, on a GPU too), `lancedb` (a "
            "function of LanceDB's registry) or `fake` (for tests).",
        )
    )
    batch_tokens: int = Field(
        2_048, ge=64, description="Most tokens, padding counted, given to the model at once."
    )
    precision: Literal["auto", "f32"] = Field(
        "auto",
        description="`auto`: 16 bits where CPU (bf16) or GPU are faster so, with the same vectors "
        "up to rounding. `f32`: full precision. Of `minilm`, `local`, `sentence-transformers`.",
    )
    cache: bool = Field(
        True,
        description="Whether vectors are also kept in `<home>/vectors`, so that a text that was "
        "embedded once never is again: not after a failed batch, not by a rebuild.",
    )
    cache_size: str = Field(
        "10 GB",
        pattern=SIZE,
        description="How large that may grow for each model; then the oldest vectors go.",
    )
    folder: str | None = Field(
        None,
        min_length=1,
        description="Of `local`: folder of the model, as sentence-transformers saves it; relative "
        "to the file. It must lie at the same place on every executor.",
    )
    model: str | None = Field(
        None,
        min_length=1,
        description="Of `openai`: name of the model, such as `text-embedding-3-small`. Of "
        "`sentence-transformers`: name or folder, as on every executor.",
    )
    device: str | None = Field(
        None,
        min_length=1,
        description="Of `sentence-transformers`: where it runs, `cpu`, `cuda`, `cuda:0`, …. Unset: "
        "as the library chooses.",
    )
    function: str | None = Field(
        None, min_length=1, description="Of `lancedb`: name of the function in the registry."
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="Of `lancedb`: arguments of the function's `create`. Secrets are to be "
        "`$var:name`, set by a module of `imports`.",
    )
    imports: tuple[str, ...] = Field(
        (), description="Of `lancedb`: modules to import first, which register functions."
    )
    dimension: int | None = Field(None, ge=1, description="Length of the model's vectors.")
    window_tokens: int = Field(
        512,
        ge=16,
        description="Longest text that is sent whole, of `lancedb` too. Tokens are estimated, at "
        "four characters.",
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
    max_tokens_per_hour: int | None = Field(
        None,
        ge=1,
        description="Most tokens that a task's process may have embedded within an hour, as the "
        "server counts them. One more request would pass it: the batch fails.",
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
        if self.provider == "sentence-transformers" and self.model is None:
            raise ValueError('provider = "sentence-transformers" needs model')
        if self.provider == "lancedb" and self.function is None:
            raise ValueError('provider = "lancedb" needs function')
        return self
