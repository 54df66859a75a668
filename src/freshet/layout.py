"""Where everything of a pipeline lies: all tables under one home."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

INGEST: Final = "ingest"
INDEX: Final = "index"
"""The two queries, by which their checkpoints are named."""
REBUILD: Final = "rebuild"
"""The query that fills a new index beside the live one."""


@dataclass(frozen=True)
class Home:
    """The folder of one pipeline; a local path or a URI. Makes nothing, only names places."""

    root: str
    name: str

    def _at(self, *parts: str) -> str:
        return "/".join((self.root.rstrip("/"), *parts))

    @property
    def is_local(self) -> bool:
        """Whether the home is a folder of this machine."""
        return "://" not in self.root

    @property
    def files(self) -> str:
        """The landing source's files table (Delta)."""
        return self._at("files")

    @property
    def bronze(self) -> str:
        """Every event (Delta)."""
        return self._at("bronze")

    @property
    def ledger(self) -> str:
        """One row a batch (Delta)."""
        return self._at("ledger")

    @property
    def index_folder(self) -> str:
        """What `lancedb.connect` opens."""
        return self._at("index")

    @property
    def index(self) -> str:
        """The index (Lance)."""
        return self._at("index", f"{self.name}.lance")

    @property
    def tombstones(self) -> str:
        """Deleted keys with the versions that deleted them (Lance)."""
        return self._at("index", f"{self.name}_tombstones.lance")

    @property
    def rebuilt(self) -> str:
        """The index that a rebuild makes beside the live one (Lance)."""
        return self._at("index", f"{self.name}_rebuild.lance")

    @property
    def vectors(self) -> str:
        """The folder of the vectors that models have made, a table each (Lance)."""
        return self._at("vectors")

    @property
    def gold(self) -> str:
        """The latest version of every record, if asked for (Delta)."""
        return self._at("gold")

    @property
    def optimizer(self) -> str:
        """What the optimizer did, one row an action (Delta)."""
        return self._at("optimizer")

    @property
    def health(self) -> str:
        """How the index fares over time (Delta)."""
        return self._at("health")

    def lock(self, name: str) -> str:
        """A lock that processes share (Lance)."""
        return self._at("locks", f"{name}.lance")

    @property
    def reports(self) -> str:
        """What was found and measured, as files."""
        return self._at("reports")

    def report(self, kind: str, at: datetime) -> str:
        """Where the report of a moment lies, without the ending of its name."""
        return f"{self.reports}/{kind}-{_moment(at)}"

    def calibration(self, at: datetime) -> str:
        """The copy of the index that a calibration works on; gone when it ends."""
        return self._at(f"calibration-{_moment(at)}")

    @property
    def schema(self) -> str:
        """The versions of the records' schema (Delta)."""
        return self._at("schema")

    @property
    def backups(self) -> str:
        """Dated copies of checkpoints and small tables."""
        return self._at("backups")

    @property
    def logs(self) -> str:
        """What Spark prints."""
        return self._at("logs")

    def checkpoint(self, query: str) -> str:
        """The checkpoint of a streaming query."""
        return self._at("checkpoints", query)


def _moment(at: datetime) -> str:
    return f"{at:%Y%m%dT%H%M%S}.{at.microsecond // 1000:03}Z"
