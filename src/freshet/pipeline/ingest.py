"""The query "ingest": change files become events in Bronze."""

from itertools import islice
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from freshet import bronze, changes, landing
from freshet.errors import SettingsError
from freshet.layout import Home
from freshet.pipeline import queries
from freshet.settings import Settings
from freshet.stores import delta_tables, file_systems

_SAMPLE_RECORDS: Final = 200
_SAMPLE_FILES: Final = 5


class Ingest:
    """landing → changes → Bronze."""

    def __init__(self, settings: Settings, home: Home) -> None:
        self._settings = settings
        self._home = home

    def check(self) -> None:
        """Raises if the settings do not fit the landing zone; makes nothing."""
        path = self._settings.landing.path
        if not file_systems.exists_folder(path):
            raise SettingsError(f"landing.path is {path}, but there is no such folder")
        if not delta_tables.exists(self._home.bronze):
            changes.check_sample(
                self._sample(),
                key=self._settings.changes.key,
                text=self._settings.gold.text_columns,
            )

    def start(self, spark: SparkSession, trigger: dict[str, Any]) -> StreamingQuery:
        """Starts the query."""
        source = self._settings.landing
        events = (
            spark.readStream.format("landing")
            .option("path", source.path)
            .option("state", self._home.files)
            .option("format", source.format)
            .option("max_files_per_trigger", source.max_files_per_trigger)
            .load()
        )
        rows = bronze.rows_to_append(self._changes(events), self._settings.pipeline.name)
        writer = bronze.write_stream(
            rows,
            checkpoint=self._home.checkpoint(queries.INGEST),
            max_rows_per_batch=self._settings.pipeline.max_rows_per_batch,
        )
        return queries.start(spark, writer.trigger(**trigger), queries.INGEST, self._home.bronze)

    def _changes(self, events: DataFrame) -> DataFrame:
        chosen = self._settings.changes
        return changes.normalise(
            events,
            envelope=chosen.envelope,
            key=chosen.key,
            version=chosen.version,
            deleted=chosen.deleted,
        )

    def _sample(self) -> list[str]:
        files = islice(file_systems.list_files(self._settings.landing.path), _SAMPLE_FILES)
        records = (
            record
            for file in files
            for batch in landing.read_records(file.path, self._settings.landing.format)
            for record in batch.column("record").to_pylist()
            if record is not None
        )
        return list(islice(records, _SAMPLE_RECORDS))
