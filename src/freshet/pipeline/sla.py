"""The decision record of a pipeline's freshness: what is measured, and where it was read."""

from collections.abc import Iterator

from freshet.layout import INDEX
from freshet.monitor.freshness import Freshness, Timed
from freshet.monitor.sla import Record, Rhythm, Source, Work, contract
from freshet.pipeline.freshness import Timing
from freshet.pipeline.triggers import index_trigger, ingest_trigger
from freshet.settings import Settings
from freshet.sink import Ledger
from freshet.sink.ledger import FAILED
from freshet.stores.delta_tables import newest_version
from freshet.stores.remote_systems import is_local
from freshet.units import seconds_of


def decision_record(settings: Settings, timing: Timing) -> Record:
    """Of the settings' window. Reads only, without Spark."""
    timed = timing.look()
    # Batches before the first file that counts were those of the backfill.
    first = min((way.searchable_at for way in timed.live), default=timed.until)
    rows = Ledger(settings.home.ledger).rows(settings.home.name, INDEX, first)
    work = Work.of([row for row in rows if row["status"] != FAILED])
    freshness, rhythm = Freshness.of(timed, settings.slo), _rhythm(settings)
    return Record(
        pipeline=settings.pipeline.name,
        at=timed.until,
        freshness=freshness,
        rhythm=rhythm,
        work=work,
        sources=tuple(_sources(settings, timed, work)),
        contract=contract(timed, freshness, rhythm, work, settings.slo.percentile),
    )


def _rhythm(settings: Settings) -> Rhythm:
    chosen, landing = settings.pipeline, settings.landing
    looks = index_trigger(chosen.trigger, is_local=settings.home.is_local)
    return Rhythm(
        trigger_s=seconds_of(ingest_trigger(chosen.trigger)["processingTime"]),
        bronze_s=seconds_of(looks["processingTime"]),
        settle_s=seconds_of(landing.settle) if is_local(landing.path) else 0.0,
        discovery=landing.discovery,
    )


def _sources(settings: Settings, timed: Timed, work: Work) -> Iterator[Source]:
    home, ways = settings.home, timed.ways
    seqs = f"files {ways[0].seq} to {ways[-1].seq}" if ways else "no file"
    yield Source("landed, discovered", home.files, f"version {newest_version(home.files)}, {seqs}")
    told = "no commit" if timed.versions is None else "versions {} to {}".format(*timed.versions)
    yield Source("changed, in Bronze", f"{home.bronze}/_delta_log", told)
    extent = f"version {newest_version(home.ledger)}, {work.batches} batches"
    yield Source("searchable, batches", home.ledger, extent)
    if (optimized := newest_version(home.optimizer)) is not None:
        yield Source("in the vector index", home.optimizer, f"version {optimized}")
