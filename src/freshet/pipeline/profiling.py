"""How a pipeline is profiled: a sample of its own records, measured with its own settings."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from freshet import gold
from freshet.clock import utc_now
from freshet.embedding import IndexRows
from freshet.errors import ProfileError
from freshet.pipeline.ingest import Ingest
from freshet.profiling import Evidence, Profile, derive, measure
from freshet.profiling.evidence import FileFacts, Rate
from freshet.profiling.measure import Cut, OnProgress
from freshet.profiling.sample import sample
from freshet.settings import Settings
from freshet.units import seconds_of

RECORDS: Final = 2_000
SECONDS: Final = 4.0
"""How long the model is timed for one figure."""
_UNSTEADY: Final = 0.25
"""Figures that lie further apart, as a share of their median, are told."""


@dataclass(frozen=True)
class Profiling:
    """Reads a sample, times the model on it, and derives settings. Writes nothing."""

    settings: Settings
    ingest: Ingest
    rows: IndexRows
    spark: Callable[[], SparkSession]
    ledger: Callable[[], Sequence[Mapping[str, Any]]]
    on_progress: OnProgress = lambda _: None
    clock: Callable[[], datetime] = utc_now

    def run(
        self,
        *,
        records: int = RECORDS,
        seconds: float = SECONDS,
        freshness: str | None = None,
    ) -> Profile:
        """The profile; raises what a run would raise if the settings cannot work."""
        started = time.perf_counter()
        if freshness is not None:
            seconds_of(freshness)
        self.ingest.check()
        self.rows.spec.check()
        evidence = self._evidence(records, seconds)
        return Profile(
            pipeline=self.settings.pipeline.name,
            at=self.clock(),
            seconds=time.perf_counter() - started,
            evidence=evidence,
            derived=derive(evidence, self.settings, freshness),
            freshness=freshness,
        )

    def _evidence(self, records: int, seconds: float) -> Evidence:
        spark, home, spec = self.spark(), self.settings.home, self.rows.spec
        self.on_progress("reading a sample")
        sampled = sample(spark, home, self.ingest.options, self.ingest.understood, records)
        events = sampled.changes.persist()
        try:
            count = events.count()
            found = self._cut(events, count)
        finally:
            events.unpersist()
        rates = measure.rates(spark, spec, found, seconds=seconds, on_progress=self.on_progress)
        return Evidence(
            source=sampled.source,
            events=count,
            files=sampled.files,
            lengths=found.lengths,
            rates=rates,
            cores=measure.cores_of(spark),
            partitions=spark.sparkContext.defaultParallelism,
            fixed=measure.fixed_time(self.ledger()),
            model_id=spec.describe().model_id,
            notes=_notes(sampled.files, rates),
        )

    def _cut(self, events: DataFrame, count: int) -> Cut:
        self.on_progress("cutting texts")
        chosen = self.settings.gold
        records = gold.project(
            events, text=chosen.text, template=chosen.template, vectors=chosen.vectors
        )
        found = measure.cut(records.where(~F.col("is_deleted") & (F.trim("text") != "")), self.rows)
        if not found.texts:
            columns = ", ".join(chosen.text_columns)
            raise ProfileError(
                f"none of the {count:,} sampled records has a text: gold.text names {columns}; "
                "`freshet quarantine list` tells what was not understood"
            )
        return found


def _notes(files: Sequence[FileFacts], rates: Sequence[Rate]) -> tuple[str, ...]:
    notes = []
    if cut_off := sum(not file.is_whole for file in files):
        notes.append(f"{cut_off} of the files hold more records than were counted")
    swing = median(rate.swing for rate in rates)
    if swing > _UNSTEADY:
        notes.append(
            f"the same measurement differs by {100 * swing:.0f} % from turn to turn: the machine "
            "has other work, so measure again when it has none"
        )
    return tuple(notes)
