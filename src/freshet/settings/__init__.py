"""The settings: `freshet.toml`, overridden by `FRESHET_<SECTION>__<KEY>`."""

from freshet.settings.embedding import EmbeddingSettings
from freshet.settings.gold import GoldSettings, template_columns
from freshet.settings.index import FOREVER, NO_INDEX, IndexSettings, OptimizerSettings
from freshet.settings.landing import LandingSettings
from freshet.settings.loading import (
    DEFAULT_FILE,
    ENV_PREFIX,
    Settings,
    from_values,
    load,
    override_of,
)
from freshet.settings.sections import (
    DEFAULT_DELETED_COLUMN,
    DEFAULT_PLACEHOLDER,
    DEFAULT_VERSION_COLUMN,
    ChangesSettings,
    CheckpointSettings,
    PipelineSettings,
    SearchSettings,
    SparkSettings,
)
from freshet.settings.sinks import SinkSettings
from freshet.settings.slo import SloSettings

__all__ = [
    "DEFAULT_DELETED_COLUMN",
    "DEFAULT_FILE",
    "DEFAULT_PLACEHOLDER",
    "DEFAULT_VERSION_COLUMN",
    "ENV_PREFIX",
    "FOREVER",
    "NO_INDEX",
    "ChangesSettings",
    "CheckpointSettings",
    "EmbeddingSettings",
    "GoldSettings",
    "IndexSettings",
    "LandingSettings",
    "OptimizerSettings",
    "PipelineSettings",
    "SearchSettings",
    "Settings",
    "SinkSettings",
    "SloSettings",
    "SparkSettings",
    "from_values",
    "load",
    "override_of",
    "template_columns",
]
