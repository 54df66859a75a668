"""The settings: `freshet.toml`, overridden by `FRESHET_<SECTION>__<KEY>`.

Everything that a person can choose becomes one frozen, validated object here, at the door;
nothing deeper reads a dict or the environment. An unknown key is an error that names the nearest
known one.
"""

import os
import re
import string
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from freshet import schemas
from freshet.errors import SettingsError
from freshet.layout import Home

DEFAULT_FILE = "freshet.toml"
ENV_PREFIX = "FRESHET_"

DEFAULT_VERSION_COLUMN = "record_version"
DEFAULT_DELETED_COLUMN = "is_deleted"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PipelineSettings(_Section):
    """What the pipeline is called, where it keeps its tables, and how often it looks."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$",
        description="Name of the pipeline and of its index table.",
    )
    home: str = Field(description="Folder of all its tables; relative to the settings file.")
    trigger: str = Field(
        "10 seconds",
        pattern=r"^[1-9][0-9]* (millisecond|second|minute|hour)s?$",
        description="How often a continuous run looks for new files and new events.",
    )
    max_rows_per_batch: int = Field(
        8_000,
        ge=8,
        description="Most events that one index batch takes, so that it ends in bounded time.",
    )


class LandingSettings(_Section):
    """Where change files arrive, and how they are read."""

    path: str = Field(description="Folder that change files land in; relative to the file.")
    format: Literal["json", "csv", "parquet"] = Field(
        "json", description="`json` (lines or one array), `csv` (with a header) or `parquet`."
    )
    max_files_per_trigger: int = Field(
        1_000, ge=1, description="Most files that one ingest batch takes."
    )


class ChangesSettings(_Section):
    """How a record of the replication tool is understood."""

    envelope: Literal["auto", "plain", "debezium"] = Field(
        "auto", description="The tool's format; `auto` recognises it record by record."
    )
    key: tuple[str, ...] = Field(
        min_length=1, description="Column, or columns, that identify a record."
    )
    version: str | None = Field(
        None,
        description="`plain` only: column that orders the versions of a record. Unset: "
        f"`{DEFAULT_VERSION_COLUMN}` where a record has it, else order of arrival.",
    )
    deleted: str = Field(
        DEFAULT_DELETED_COLUMN,
        description="`plain` only: column that is true when the record was deleted.",
    )

    @field_validator("key", mode="before")
    @classmethod
    def _one_column_or_several(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


class GoldSettings(_Section):
    """What of a record is embedded, and what is taken along for filtering."""

    text: tuple[str, ...] = Field(
        (), description="Columns whose values, one a line, are the text to embed."
    )
    template: str | None = Field(
        None, description='Instead of `text`: a pattern such as `"{title}: {body}"`.'
    )
    attributes: tuple[str, ...] = Field(
        (),
        description="Columns to filter by: `name` (a string) or `name:type` with "
        + ", ".join(f"`{kind}`" for kind in schemas.ATTRIBUTE_TYPES)
        + ". A value that is not of the type is null.",
    )
    chunk_tokens: int | None = Field(
        None, ge=8, description="Longest piece of text given to the model. Unset: its window."
    )
    chunk_overlap: int = Field(
        32, ge=0, description="Tokens that a piece repeats of the one before it."
    )

    @property
    def attribute_types(self) -> dict[str, str]:
        """The attributes, name → type, in their order."""
        pairs = (entry.partition(":") for entry in self.attributes)
        return {name.strip(): kind.strip() or "string" for name, _, kind in pairs}

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns that the text is made of."""
        if self.template is None:
            return self.text
        return tuple(name for _, name, _, _ in string.Formatter().parse(self.template) if name)

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_text(self)
        _check_attributes(self.attribute_types, len(self.attributes))
        if self.chunk_tokens is not None and self.chunk_overlap >= self.chunk_tokens:
            raise ValueError("chunk_overlap must be smaller than chunk_tokens")
        return self


def _check_text(gold: GoldSettings) -> None:
    if bool(gold.text) == (gold.template is not None):
        raise ValueError("give either text (a list of columns) or template, and not both")
    if gold.template is not None and not gold.text_columns:
        raise ValueError('template must name at least one column, as in "{title}"')


def _check_attributes(types: Mapping[str, str], listed: int) -> None:
    if len(types) != listed:
        raise ValueError("attributes names a column twice")
    for name, kind in types.items():
        if name in schemas.INDEX_COLUMNS:
            raise ValueError(f'attributes: "{name}" is a column of every index already')
        if kind not in schemas.ATTRIBUTE_TYPES:
            known = ", ".join(schemas.ATTRIBUTE_TYPES)
            raise ValueError(f'attributes: "{name}" has the unknown type "{kind}" ({known})')


class EmbeddingSettings(_Section):
    """Which model makes the vectors."""

    provider: Literal["minilm", "fake"] = Field(
        "minilm", description="`minilm` (all-MiniLM-L6-v2 on the CPU) or `fake` (for tests)."
    )
    batch_tokens: int = Field(
        2_048, ge=64, description="Most tokens, padding counted, given to the model at once."
    )


class IndexSettings(_Section):
    """How vectors are compared."""

    metric: Literal["cosine", "l2", "dot"] = Field("cosine", description="Distance of vectors.")


class SearchSettings(_Section):
    """What a search returns unless told otherwise."""

    k: int = Field(10, ge=1, le=10_000, description="How many results.")


class SparkSettings(_Section):
    """The Spark session that the command line starts."""

    master: str = Field("local[*]", description="Spark master.")
    driver_memory: str = Field("2g", description="Memory of the driver's JVM.")
    conf: dict[str, str] = Field(
        default_factory=dict, description="Any further Spark settings, taken as they are."
    )


class Settings(BaseSettings):
    """All settings of one pipeline."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True
    )

    pipeline: PipelineSettings
    landing: LandingSettings
    changes: ChangesSettings
    gold: GoldSettings
    embedding: EmbeddingSettings = EmbeddingSettings()
    index: IndexSettings = IndexSettings()
    search: SearchSettings = SearchSettings()
    spark: SparkSettings = SparkSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment beats the file; nothing else is read."""
        return env_settings, init_settings

    @property
    def home(self) -> Home:
        """Where the tables of this pipeline lie."""
        return Home(self.pipeline.home, self.pipeline.name)


def load(path: str | Path = DEFAULT_FILE) -> Settings:
    """Reads, overrides and checks the settings of a file; raises `SettingsError` only."""
    file = Path(path)
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"there is no {file}: `freshet init` writes one") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"cannot be read: {error}", where=str(file)) from error
    return from_values(values, where=str(file), folder=file.absolute().parent)


def from_values(
    values: Mapping[str, Any], *, where: str = "settings", folder: Path | None = None
) -> Settings:
    """Settings from a dict, as `load` makes them; relative paths start at `folder`."""
    _check_environment(os.environ)
    try:
        settings = Settings(**values)
    except ValidationError as error:
        raise SettingsError("; ".join(_sentences(error)), where=where) from None
    return _with_absolute_paths(settings, folder or Path.cwd())


def _with_absolute_paths(settings: Settings, folder: Path) -> Settings:
    home = _absolute(settings.pipeline.home, folder)
    path = _absolute(settings.landing.path, folder)
    return settings.model_copy(
        update={
            "pipeline": settings.pipeline.model_copy(update={"home": home}),
            "landing": settings.landing.model_copy(update={"path": path}),
        }
    )


def _absolute(path: str, folder: Path) -> str:
    if "://" in path:
        return path
    return os.path.normpath(folder / Path(path).expanduser())


def _check_environment(env: Mapping[str, str]) -> None:
    """A misspelt variable would be ignored in silence otherwise."""
    for name in env:
        section, nested, key = name.removeprefix(ENV_PREFIX).lower().partition("__")
        if not name.startswith(ENV_PREFIX) or not nested:
            continue
        problem = _unknown((section,)) or _unknown((section, key))
        if problem:
            raise SettingsError(problem, where=name)


def _unknown(path: tuple[str, ...]) -> str | None:
    """The sentence about an unknown section or key; None if it is known."""
    *parents, name = path
    names = _names_in(parents)
    if names is None or name in names:
        return None
    kind = "key" if parents else "section"
    near = get_close_matches(name, names, n=1) or get_close_matches(name, names, n=1, cutoff=0.3)
    place = f" in [{parents[0]}]" if parents else ""
    hint = f'did you mean "{near[0]}"?' if near else f"known are {', '.join(sorted(names))}"
    return f'unknown {kind} "{name}"{place}: {hint}'


def _names_in(parents: list[str]) -> list[str] | None:
    if not parents:
        return list(Settings.model_fields)
    section = Settings.model_fields[parents[0]].annotation
    return (
        list(section.model_fields)
        if isinstance(section, type) and issubclass(section, BaseModel)
        else None
    )


def _sentences(error: ValidationError) -> list[str]:
    """One sentence a problem; a misspelt name makes others seem missing, so it stands alone."""
    problems = error.errors()
    unknown = [problem for problem in problems if problem["type"] == "extra_forbidden"]
    return [_sentence(problem) for problem in unknown or problems]


def _sentence(problem: Any) -> str:
    path = tuple(str(part) for part in problem["loc"])
    place = ".".join(path)
    match problem["type"]:
        case "extra_forbidden":
            return _unknown(path) or f"unknown key {place}"
        case "missing":
            return f"{place} is missing" if len(path) > 1 else f"the section [{place}] is missing"
        case "literal_error":
            return f'{place} is "{problem["input"]}", but must be {problem["ctx"]["expected"]}'
        case "string_pattern_mismatch":
            return f'{place} is "{problem["input"]}", which is not of the expected form'
        case _:
            return f"{place}: {re.sub('^Value error, ', '', problem['msg'])}"
