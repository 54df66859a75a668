"""The settings: `freshet.toml`, overridden by `FRESHET_<SECTION>__<KEY>`.

Everything that a person can choose becomes one frozen, validated object here, at the door;
nothing deeper reads a dict or the environment. An unknown key is an error that names the nearest
known one.
"""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Self

from pydantic import BaseModel, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from freshet.errors import SettingsError
from freshet.layout import Home
from freshet.settings.embedding import EmbeddingSettings
from freshet.settings.gold import GoldSettings
from freshet.settings.index import IndexSettings, OptimizerSettings
from freshet.settings.landing import LandingSettings
from freshet.settings.section import Section
from freshet.settings.sections import (
    ChangesSettings,
    CheckpointSettings,
    PipelineSettings,
    SearchSettings,
    SparkSettings,
)
from freshet.settings.sinks import SinkSettings
from freshet.settings.slo import SloSettings

DEFAULT_FILE = "freshet.toml"
ENV_PREFIX = "FRESHET_"

_PATHS: Final = (
    ("pipeline", "home"),
    ("embedding", "folder"),
    ("landing", "path"),
    ("landing", "archive_path"),
    ("checkpoint", "backup_path"),
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
    optimizer: OptimizerSettings = OptimizerSettings()
    search: SearchSettings = SearchSettings()
    slo: SloSettings = SloSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    spark: SparkSettings = SparkSettings()
    sinks: tuple[SinkSettings, ...] = ()

    @model_validator(mode="after")
    def _have_names_of_their_own(self) -> Self:
        names = [sink.name for sink in self.sinks]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two sinks are called {', '.join(twice)}")
        return self

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

    @property
    def table_places(self) -> tuple[str, ...]:
        """The home, and where else Spark writes tables and files."""
        return (self.pipeline.home, *(sink.path for sink in self.sinks if sink.path))


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


def override_of(path: Sequence[str]) -> str | None:
    """The environment variable that hides what the file says of a key; None if none does."""
    section, key = path[:2]
    names = {name.upper(): name for name in os.environ}
    nested = names.get(f"{ENV_PREFIX}{section}__{key}".upper())
    whole = names.get(f"{ENV_PREFIX}{section}".upper())
    if nested is not None or whole is None:
        return nested
    return whole if f'"{key}"' in os.environ[whole] else None


def _with_absolute_paths(settings: Settings, folder: Path) -> Settings:
    update: dict[str, Section] = {}
    for section, key in _PATHS:
        found = update.get(section, getattr(settings, section))
        if (path := getattr(found, key)) is not None:
            update[section] = found.model_copy(update={key: _absolute(path, folder)})
    # A sink is told what changes in Gold, so Gold is kept.
    if settings.sinks and not settings.gold.keep_table:
        update["gold"] = settings.gold.model_copy(update={"keep_table": True})
    sinks = tuple(
        sink.model_copy(update={"path": _absolute(sink.path, folder)}) if sink.path else sink
        for sink in settings.sinks
    )
    return settings.model_copy(update={**update, "sinks": sinks})


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
