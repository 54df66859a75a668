"""`Auditing`: compares the index with Bronze, and puts right what differs.

A repair goes in rounds: compare, take the keys that differ, write for each what Gold says of it,
compare again; until nothing differs, or a round was of no use. What counts is the last comparison.
"""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from freshet import verify
from freshet.clock import utc_now
from freshet.embedding import content_hash
from freshet.errors import CommitConflictError, RebuildActiveError, SinkError, TableMissingError
from freshet.events import emit, warn
from freshet.layout import INDEX
from freshet.pipeline import rebuild_mark
from freshet.pipeline.audit import Audit, Repair
from freshet.pipeline.beside import fingerprint
from freshet.pipeline.content import listed, sampled
from freshet.pipeline.index import Index
from freshet.settings import Settings
from freshet.sink import BatchReport, Ledger, Probe
from freshet.sink.repairing import Repairs, check_nobody_writes
from freshet.sink.steps import no_probe
from freshet.stores import delta_facts
from freshet.stores.lance_tables import LanceTable
from freshet.verify import Comparison, Sample, Verdict

_KEYS_A_ROUND: Final = 10_000
"""Of each kind of problem."""
_EXAMPLES: Final = 5
_MAX_CONFLICTS: Final = 3

OnProgress = Callable[[str], None]
"""Told what is being done, in words."""


@dataclass(frozen=True)
class _Look:
    """A comparison, and what was compared."""

    found: Comparison
    index_version: int
    bronze_version: int

    @property
    def verdict(self) -> Verdict:
        return self.found.verdict


class Auditing:
    """Verify and repair of one pipeline's index."""

    def __init__(
        self,
        settings: Settings,
        index: Index,
        spark: Callable[[], SparkSession],
        *,
        on_progress: OnProgress = lambda _: None,
        clock: Callable[[], datetime] = utc_now,
        probe: Probe = no_probe,
    ) -> None:
        self._settings = settings
        self._home = settings.home
        self._index = index
        self._spark = spark
        self._tell = on_progress
        self._clock = clock
        self._probe = probe
        self._ledger = Ledger(self._home.ledger)
        self._sample: Sample | None = None

    def run(
        self,
        *,
        sample: float | None = None,
        seed: int | None = None,
        repairs: bool = False,
        force: bool = False,
    ) -> Audit:
        """Compares, of a sample of the keys if one is asked for; repairs if that is asked for.

        A repair refuses to begin while something else writes the index, or may be writing it;
        `force` takes over from a run, which then ends.
        """
        started, at = time.perf_counter(), self._clock()
        table = LanceTable.open(self._home.index, what="index")
        if sample is not None:
            self._sample = Sample.of(sample, keys=table.count("chunk = 0"), seed=seed)
        if repairs:
            self._check_nobody_writes(force=force)
        self._tell("starting Spark")
        look, repair = self._compare(_KEYS_A_ROUND if repairs else _EXAMPLES), None
        if repairs and look.found.keys:
            look, repair = self._repair(look, force=force)
        return Audit(
            pipeline=self._settings.pipeline.name,
            verdict=look.verdict,
            at=at,
            seconds=time.perf_counter() - started,
            settings=fingerprint(self._settings),
            index_version=look.index_version,
            bronze_version=look.bronze_version,
            repair=repair,
        )

    def redrive(self, keys: Collection[str], *, force: bool = False) -> int:
        """Writes some records anew from Bronze, vectors too; returns how many."""
        self._check_nobody_writes(force=force)
        repairs, wanted, written = self._begin(), sorted(keys), 0
        for number, start in enumerate(range(0, len(wanted), _KEYS_A_ROUND)):
            some = wanted[start : start + _KEYS_A_ROUND]
            version = LanceTable.open(self._home.index, what="index").version
            report = self._write(repairs, some, self._bronze_version(), version, number)
            written += 0 if report is None else report.counts.rows_upserted
        return written

    # --- comparing -------------------------------------------------------------------------------

    def _compare(self, most: int) -> _Look:
        table = LanceTable.open(self._home.index, what="index")
        bronze = self._bronze_version()
        session = self._spark()
        self._tell("comparing the index with Bronze")
        content, sample = self._index.content(), self._sample
        records = content.gold(self._events(bronze), sampled(sample) if sample else None)
        types, vectors = content.rows.attributes, tuple(content.rows.vectors)
        found = verify.compare(
            verify.expected(
                records, tuple(types), content.rows.pieces_of, content.rows.head_hashes, vectors
            ),
            verify.actual(session, table, types, content_hash, sample, vectors=vectors),
            most=most,
            held=self._index.held(),
            sample=sample,
        )
        return _Look(found, table.version, bronze)

    def _bronze_version(self) -> int:
        facts = delta_facts.log_facts(self._home.bronze, "seq")
        if facts is None:
            raise TableMissingError("Bronze table", self._home.bronze)
        return facts.version

    def _events(self, version: int) -> DataFrame:
        """Bronze as it was, so that all rounds see the same."""
        reader = self._spark().read.format("delta").option("versionAsOf", version)
        return reader.load(self._home.bronze)

    # --- repairing -------------------------------------------------------------------------------

    def _repair(self, look: _Look, *, force: bool) -> tuple[_Look, Repair]:
        self._check_nobody_writes(force=force)
        repairs = self._begin()
        done, keys, conflicts = Repair(before=look.verdict), set[str](), 0
        while look.found.keys and conflicts < _MAX_CONFLICTS:
            self._tell(f"repairing {len(look.found.keys):,} of {look.verdict.problems:,} problems")
            try:
                report = self._write(
                    repairs, look.found.keys, look.bronze_version, look.index_version, done.rounds
                )
            except CommitConflictError as conflict:
                warn("pipeline", "index_changed_during_repair", reason=conflict.reason)
                conflicts += 1
                look = self._compare(_KEYS_A_ROUND)
                continue
            keys |= look.found.keys
            done = _added(done, report)
            before, look = look.verdict.problems, self._compare(_KEYS_A_ROUND)
            if look.verdict.problems >= before:
                break
        done = replace(done, keys=len(keys), first_keys=Repair.first_of(keys))
        left = look.verdict.problems
        emit("pipeline", "index_repaired", keys=done.keys, rounds=done.rounds, left=left)
        return look, done

    def _begin(self) -> Repairs:
        """From here on nobody else can write the index."""
        self._index.check()
        repairs = Repairs(
            self._home.index,
            ledger=self._ledger,
            pipeline=self._settings.pipeline.name,
            sink=INDEX,
            rows=replace(self._index.content().rows, cache=None),
            clock=self._clock,
            probe=self._probe,
        )
        self._index.fit()
        return repairs

    def _write(
        self,
        repairs: Repairs,
        keys: Collection[str],
        bronze_version: int,
        index_version: int,
        number: int,
    ) -> BatchReport | None:
        records = self._records(keys, bronze_version).persist()
        try:
            return repairs.write(records, number=number, compared_at=index_version)
        finally:
            records.unpersist()

    def _records(self, keys: Collection[str], bronze_version: int) -> DataFrame:
        """What Gold says of some keys; a key that it does not know is deleted, at no version."""
        spark = self._spark()
        gold = self._index.content().gold(self._events(bronze_version), listed(spark, keys))
        wanted = spark.createDataFrame([(key,) for key in sorted(keys)], "key string")
        return wanted.join(gold, "key", "left").withColumns(
            {
                "record_version": F.coalesce("record_version", F.lit("")),
                "is_deleted": F.coalesce("is_deleted", F.lit(True)),
            }
        )

    def _check_nobody_writes(self, *, force: bool) -> None:
        mark = rebuild_mark.read(self._home)
        if mark is not None and mark.is_active(self._clock()):
            raise RebuildActiveError(holder=mark.holder, renewed_at=mark.renewed_at)
        if force:
            return
        check_nobody_writes(self._ledger, self._settings.pipeline.name, INDEX)
        if any(query.name == INDEX for query in self._spark().streams.active):
            raise SinkError("a run is active in this very process: stop it before a repair")


def _added(done: Repair, report: BatchReport | None) -> Repair:
    if report is None:
        return done
    counts = report.counts
    return replace(
        done,
        rounds=done.rounds + 1,
        written=done.written + counts.rows_upserted,
        deleted=done.deleted + counts.rows_deleted,
        embedded=done.embedded + counts.rows_embedded,
    )
