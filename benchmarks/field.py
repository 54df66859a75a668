"""Freshet and its rivals on one field: experiments E1-E4 of lance-spark's pull request #399.

The same rows, in one Spark session, on one pylance, in turns. `freshet bench` runs it; so does

    python benchmarks/field.py --quick
"""

import argparse
import logging
import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

import field_report
import freshet
from field_figures import Rate
from field_recovery import recovery
from field_report import Facts, Report
from field_rivals import RIVALS
from field_sizes import EXPERIMENTS, FULL, ON_S3, QUICK, S3, Size
from field_stores import Store, store
from field_triggers import Prober, highest_rates, triggers
from field_turns import Measured, Tell, warm_up, with_compaction, without_compaction
from freshet.events import log_to
from freshet.settings import SparkSettings
from freshet.spark import start_session
from measuring import scratch_folder

OUT = Path("build/bench/field")
OUT_S3 = Path("build/bench/field-s3")


@dataclass(frozen=True)
class Wish:
    """What is to be run."""

    size: Size
    experiments: tuple[str, ...] = EXPERIMENTS
    rivals: tuple[str, ...] = tuple(RIVALS)
    out: Path = OUT
    s3_delay_ms: float | None = None
    """Of an S3 server on this machine; None: on its disk."""
    is_run: bool = True
    """False: only tables and pictures are made, of the files that are there."""
    begun: float = field(default_factory=time.monotonic)

    @property
    def ends(self) -> float:
        """When what can be left out is left out."""
        return self.begun + 60 * self.size.limit_minutes

    @classmethod
    def of(
        cls,
        *,
        is_quick: bool = False,
        experiments: Sequence[str] = (),
        rivals: Sequence[str] = (),
        batches: int | None = None,
        rows: int | None = None,
        partitions: int | None = None,
        out: Path | None = None,
        s3_delay_ms: float | None = None,
        is_run: bool = True,
    ) -> "Wish":
        """Checked; `ValueError` names what is not known."""
        full, known, default = (
            (FULL, EXPERIMENTS, OUT) if s3_delay_ms is None else (S3, ON_S3, OUT_S3)
        )
        size = replace(QUICK if is_quick else full, partitions=partitions)
        given = {"batches": batches, "rows": rows}
        size = replace(size, **{name: value for name, value in given.items() if value is not None})
        where = "" if s3_delay_ms is None else " on S3"
        chosen = _chosen_of(f"experiment{where}", experiments, known)
        taking_part = _chosen_of("rival", rivals, tuple(RIVALS))
        return cls(size, chosen, taking_part, out or default, s3_delay_ms, is_run)


def _chosen_of(what: str, given: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Those that are given, in the order in which they are known; all if none is."""
    for name in given:
        if name not in known:
            raise ValueError(f"there is no {what} named {name}: there are {', '.join(known)}")
    return tuple(name for name in known if name in (given or known))


def run(wish: Wish, tell: Tell) -> Report:
    """Runs what is wished and writes its files; what an earlier run left there is shown, too."""
    wish.out.mkdir(parents=True, exist_ok=True)
    if wish.is_run:
        with scratch_folder() as folder, store(folder, wish.s3_delay_ms) as place:
            log_to(logging.FileHandler(wish.out / "events.log", mode="w"))
            tell("starting Spark")
            spark = started(folder, has_s3=place.server is not None)
            if wish.experiments != ("E3",):
                warm_up(spark, place.below("warm-up"), wish.size, wish.rivals, tell)
            for name in wish.experiments:
                _experiment(name, spark, place.below(name), wish, tell)
    return field_report.report(wish.out)


def started(folder: Path, *, has_s3: bool = False) -> SparkSession:
    """One session for all."""
    warnings.filterwarnings("ignore", message=".*fork.*")
    # A turn ends its query by an error, which the bridge to Java would print.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    log_file = folder / "spark.log"
    spark = start_session(SparkSettings(), name="bench", log_file=log_file, has_s3=has_s3)
    # A native query that is stopped cuts a connection to Python, which would print that, too.
    spark.sparkContext._accumulatorServer.handle_error = lambda request, address: None
    freshet.register(spark)
    return spark


def _experiment(name: str, spark: SparkSession, place: Store, wish: Wish, tell: Tell) -> None:
    machine, at, started_s = field_report.machine_line(), datetime.now(UTC), time.monotonic()
    measured, rates = _RUNS[name](spark, place, wish, tell)
    facts = Facts(
        name,
        wish.size.name,
        machine,
        f"{at:%Y-%m-%d %H:%M} UTC",
        (time.monotonic() - started_s) / 60,
        wish.size.rows,
        wish.size.rate,
        measured.stopped,
        place.told,
        measured.requests if place.server is not None else {},
    )
    field_report.keep(wish.out, facts, measured.samples, rates)


Found = tuple[Measured, list[Rate]]


def _chosen(wish: Wish, among: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in among if name in wish.rivals)


def _e1(spark: SparkSession, place: Store, wish: Wish, tell: Tell) -> Found:
    return without_compaction(spark, place, wish.size, wish.rivals, tell), []


def _e2(spark: SparkSession, place: Store, wish: Wish, tell: Tell) -> Found:
    rivals = _chosen(wish, wish.size.cadence_rivals)
    return with_compaction(spark, place, wish.size, rivals, tell), []


def _e3(spark: SparkSession, place: Store, wish: Wish, tell: Tell) -> Found:
    folder = Path(place.root)
    folder.mkdir()
    return recovery(folder, wish.size, tell), []


def _e4(spark: SparkSession, place: Store, wish: Wish, tell: Tell) -> Found:
    rivals = _chosen(wish, wish.size.trigger_rivals)
    measured = triggers(spark, place, wish.size, rivals, tell)
    prober = Prober(spark, place, wish.size.partitions, tell)
    return measured, highest_rates(prober, wish.size, rivals, wish.ends)


_RUNS: dict[str, Callable[[SparkSession, Store, Wish, Tell], Found]] = {
    "E1": _e1,
    "E2": _e2,
    "E3": _e3,
    "E4": _e4,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--experiments", nargs="*", default=[])
    parser.add_argument("--rivals", nargs="*", default=[])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--s3-delay-ms", type=float)
    options = parser.parse_args()
    os.environ.setdefault("LANCE_LOG", "error")
    wish = Wish.of(
        is_quick=options.quick,
        experiments=options.experiments,
        rivals=options.rivals,
        out=options.out,
        s3_delay_ms=options.s3_delay_ms,
    )
    print(run(wish, print).text)


if __name__ == "__main__":
    main()
