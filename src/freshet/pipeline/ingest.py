"""The query "ingest": change files become events in Bronze."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from freshet import bronze, changes, gold, landing
from freshet.errors import SettingsError
from freshet.layout import INGEST, Home
from freshet.pipeline import queries
from freshet.settings import Settings
from freshet.stores import checkpoints, delta_tables, file_systems

_SAMPLE_RECORDS: Final = 200
_SAMPLE_FILES: Final = 5


class Ingest:
    """landing → changes → Bronze."""

    def __init__(self, settings: Settings, home: Home) -> None:
        self._settings = settings
        self._home = home

    @property
    def options(self) -> landing.LandingOptions:
        """What the landing source is told."""
        chosen = self._settings.landing.model_dump(exclude={"schema_mode"})
        return landing.LandingOptions(state=self._home.files, **chosen)

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
                envelope=self._settings.changes.envelope,
            )

    def start(self, spark: SparkSession, trigger: dict[str, Any]) -> StreamingQuery:
        """Starts the query."""
        events = spark.readStream.format("landing").options(**self.options.as_options()).load()
        rows = bronze.rows_to_append(self.understood(events), self._settings.pipeline.name)
        writer = bronze.write_stream(
            rows,
            checkpoint=self._home.checkpoint(INGEST),
            max_rows_per_batch=self._settings.pipeline.max_rows_per_batch,
        )
        return queries.start(spark, writer.trigger(**trigger), INGEST, self._home.bronze)

    def backlog(self) -> landing.Backlog:
        """What no committed batch has read."""
        return landing.backlog(self.options, self._read_up_to())

    def files(self, states: Sequence[str] = ()) -> Iterator[landing.FileReport]:
        """What became of the files, newest first."""
        return landing.files(self.options, self._read_up_to(), states)

    def retry(self, bad: Iterable[bronze.Quarantined], files: Iterable[str]) -> list[str]:
        """Asks for files with bad records to be read again; returns where they lie now."""
        chosen = set(files)
        wanted = {record.seq: record.file for record in bad if not chosen or record.file in chosen}
        return landing.ask_again(self.options, wanted)

    def _read_up_to(self) -> int:
        end = checkpoints.committed_offset(self._home.checkpoint(INGEST))
        return int((end or {"seq": 0})["seq"])

    def understood(self, events: DataFrame) -> DataFrame:
        """Records of the landing zone as changes, by the settings."""
        chosen, taken = self._settings.changes, self._settings.gold
        understood = changes.normalise(
            events,
            envelope=chosen.envelope,
            key=chosen.key,
            version=chosen.version,
            deleted=chosen.deleted,
            table=chosen.table,
            types=chosen.types,
            placeholder=chosen.placeholder,
        )
        if taken.missing_text != "quarantine":
            return understood
        return gold.refused(understood, taken.text_columns)

    def _sample(self) -> list[str]:
        files = islice(landing.Zone(self.options).files(), _SAMPLE_FILES)
        records = (
            record
            for file in files
            for batch in landing.read_records(file.path, self.options.reading)
            for record in batch.column("record").to_pylist()
            if record is not None
        )
        return list(islice(records, _SAMPLE_RECORDS))
