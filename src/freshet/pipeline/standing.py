"""Where a pipeline stands: each of its parts asked, without Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from freshet import bronze, evolution, monitor
from freshet.clock import utc_now
from freshet.layout import INDEX
from freshet.monitor.optimizer import LATELY
from freshet.pipeline import beside
from freshet.pipeline.freshness import Timing
from freshet.pipeline.index import Index
from freshet.pipeline.ingest import Ingest
from freshet.pipeline.monitoring import Monitoring
from freshet.pipeline.sinks import Sinks
from freshet.settings import Settings
from freshet.sink import Ledger


@dataclass(frozen=True)
class Standing:
    """Asks tables and checkpoints."""

    settings: Settings
    ingest: Ingest
    index: Index
    sinks: Sinks
    monitoring: Monitoring
    timing: Timing

    def status(self) -> monitor.Status:
        """As it is now."""
        home, chosen = self.settings.home, self.settings.pipeline
        files, history = self.ingest.backlog(), self.monitoring.newest()
        batches, last_batch = self._batches()
        return monitor.Status(
            pipeline=chosen.name,
            files=monitor.FilesStatus(files.seen, files.waiting, files.waiting_bytes),
            bronze=self._bronze(),
            schema=monitor.SchemaStatus(**asdict(evolution.summary(home.schema))),
            index=monitor.IndexStatus.of(home.index, held=self.index.held()),
            probe=monitor.ProbeStatus.of(history),
            optimizer=monitor.OptimizerStatus.of(history),
            last_batch=last_batch,
            rebuild=beside.status(home),
            short_trigger=monitor.short_trigger(batches, chosen.trigger),
            sinks=self.sinks.status(),
            freshness=self.timing.freshness(files.undiscovered),
        )

    def _bronze(self) -> monitor.BronzeStatus:
        uri = self.settings.home.bronze
        events = bronze.count(uri)
        # Most have no bad record at all, and the log alone tells that.
        errors = sum(1 for _ in bronze.quarantined(uri)) if events.errors else 0
        return monitor.BronzeStatus(events.rows, errors, bronze.envelopes(uri))

    def _batches(self) -> tuple[Sequence[Mapping[str, Any]], Mapping[str, Any] | None]:
        """Those of the last day, and the last one of all."""
        ledger, name = Ledger(self.settings.home.ledger), self.settings.pipeline.name
        lately = ledger.rows(name, INDEX, utc_now() - LATELY)
        return lately, lately[-1] if lately else ledger.last_row(name, INDEX)
