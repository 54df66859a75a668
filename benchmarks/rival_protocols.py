"""How lance-spark's two streaming pull requests commit a batch, rebuilt on pylance.

Both look, for every batch, through up to 100 versions of the table whether the batch is there
already. #564 then appends with two properties, in one commit. #399 reads a watermark first, and
sets it after the append in a second commit, from a table that it has opened again. Data files are
written before, by whoever has the rows. Tables are looked at through one shared cache.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import lance
from lance import FragmentMetadata, LanceDataset, LanceOperation, Session, Transaction

LOOK_BACK = 100
RETRIES = 10
"""Both as #399 has them."""


@dataclass
class ScanningCommits:
    """The commits of one streaming query; each batch lands once, however often it is tried."""

    uri: str
    query: str
    has_watermark: bool
    """#399 has one, #564 has none."""
    session: Session = field(default_factory=Session)

    def opened(self, version: int | None = None) -> LanceDataset:
        """The table at its newest or at a given version."""
        return lance.dataset(self.uri, version=version, session=self.session)

    def commit(self, epoch: int, fragments: Sequence[FragmentMetadata]) -> dict[str, float]:
        """One batch; what its parts took, in ms. Nothing if it had landed before."""
        started = time.perf_counter()
        latest = self.opened()
        if self.has_watermark and epoch <= int(latest.config().get(self._watermark, "-1")):
            return {}
        scanning = time.perf_counter()
        is_there, _ = self.look_back(epoch, latest.version, LOOK_BACK)
        scanned = time.perf_counter()
        if is_there and not self.has_watermark:
            return {}
        if not is_there:
            self._append(epoch, latest, fragments)
        appended = time.perf_counter()
        if self.has_watermark:
            self._set_watermark(epoch)
        ended = time.perf_counter()
        return {
            "commit": (ended - started) * 1_000,
            "scan": (scanned - scanning) * 1_000,
            "append": (appended - scanned) * 1_000,
            "watermark": (ended - appended) * 1_000,
        }

    def look_back(self, epoch: int, newest: int, most: int) -> tuple[bool, int]:
        """Whether one of the newest versions is of a batch, and how many were opened for that."""
        wanted, visited = self._properties(epoch), 0
        for version in range(newest, max(0, newest - most), -1):
            visited += 1
            transaction = self.opened(version).read_transaction(version)
            found = transaction.transaction_properties if transaction else None
            if found and wanted.items() <= found.items():
                return True, visited
        return False, visited

    def _append(
        self, epoch: int, latest: LanceDataset, fragments: Sequence[FragmentMetadata]
    ) -> None:
        append = Transaction(latest.version, LanceOperation.Append(list(fragments)))
        append.transaction_properties = self._properties(epoch)
        LanceDataset.commit(latest, append)

    def _set_watermark(self, epoch: int) -> None:
        latest = self.opened()
        values = LanceOperation.UpdateMap({self._watermark: str(epoch)}, replace=False)
        change = LanceOperation.UpdateConfig(config_updates=values)
        LanceDataset.commit(latest, Transaction(latest.version, change), max_retries=RETRIES)

    @property
    def _watermark(self) -> str:
        return f"spark.lance.streaming.lastEpoch.{self.query}"

    def _properties(self, epoch: int) -> dict[str, str]:
        return {"streaming.queryId": self.query, "streaming.epochId": str(epoch)}
