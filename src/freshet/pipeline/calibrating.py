"""How a pipeline's index is calibrated: measured on a copy, with the pipeline's own settings."""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any, Final

from freshet.calibration import Calibration, Evidence, derive
from freshet.calibration.asking import Asking, Questions
from freshet.calibration.bench import copied
from freshet.calibration.evidence import Growth, Latency
from freshet.calibration.growth import growth_of, told
from freshet.calibration.measure import LEAST_ROWS, Measuring, OnProgress
from freshet.clock import utc_now
from freshet.errors import CalibrationError
from freshet.pipeline.optimizing import Optimizing
from freshet.search import Knobs
from freshet.settings import NO_INDEX, Settings
from freshet.stores import copies
from freshet.stores.lance_shape import TableShape, shape_of
from freshet.stores.lance_tables import LanceTable
from freshet.stores.remote_systems import is_local
from freshet.units import milliseconds_of, seconds_of

SECONDS: Final = 3.0
"""How long searches are timed for one figure."""
MAX_ROWS: Final = 200_000
_COPY_SIZE: Final = 3
"""A copy with indexes, and with all that is tried on it, is so many times as large as its rows."""
_SPARE_BYTES: Final = 256 << 20
_SHORT_SPAN_S: Final = 600.0
_UNSTEADY: Final = 0.5
"""p95 of turns that lie further apart, as a share of their median, are told."""
_LEFT_BEHIND: Final = timedelta(days=1)


@dataclass(frozen=True)
class Calibrating:
    """Copies the index, measures the copy, and derives settings. Needs no Spark."""

    settings: Settings
    ledger: Callable[[], Sequence[Mapping[str, Any]]]
    on_progress: OnProgress = lambda _: None
    clock: Callable[[], datetime] = utc_now

    def run(
        self,
        *,
        latency: str | None = None,
        rows_per_hour: float | None = None,
        max_rows: int = MAX_ROWS,
        seconds: float = SECONDS,
        scratch: str | None = None,
    ) -> Calibration:
        """The calibration; the live index is only read, and the copy is gone when it ends.

        `latency` is what p95 of searches is to be kept within.
        """
        started = time.perf_counter()
        latency_ms = None if latency is None else milliseconds_of(latency)
        shape = shape_of(self.settings.home.index)
        self._check(shape)
        growth = self._growth(shape, rows_per_hour)
        evidence = self._evidence(shape, growth, min(max_rows, shape.rows), seconds, scratch)
        return Calibration(
            pipeline=self.settings.pipeline.name,
            at=self.clock(),
            seconds=time.perf_counter() - started,
            evidence=evidence,
            derived=derive(evidence, self.settings.optimizer, latency_ms),
            latency=latency,
        )

    def _check(self, shape: TableShape) -> None:
        least = max(LEAST_ROWS, self.settings.index.min_rows)
        if self.settings.index.kind == NO_INDEX:
            raise CalibrationError(
                f'index.kind is "{NO_INDEX}": every search compares all vectors, so there is '
                "nothing to calibrate"
            )
        if shape.rows < least:
            raise CalibrationError(
                f"the index has {shape.rows:,} rows, and a calibration takes {least:,} at least: "
                "let more records land first"
            )

    def _growth(self, shape: TableShape, rows_per_hour: float | None) -> Growth:
        if rows_per_hour is not None:
            return told(rows_per_hour, seconds_of(self.settings.pipeline.trigger))
        records = LanceTable.open(self.settings.home.index).count("chunk = 0")
        found = growth_of(self.ledger(), shape.rows / max(records, 1))
        if found is None:
            raise CalibrationError(
                "no batch on record has written rows, so how fast the index grows is not known: "
                "say it with `--rows-per-hour N`"
            )
        return found

    def _evidence(
        self, shape: TableShape, growth: Growth, rows: int, seconds: float, scratch: str | None
    ) -> Evidence:
        wanted, asking = tuple(Optimizing(self.settings).wanted(shape)), self._asking()
        folder = self._folder(shape, rows, scratch)
        self._forget_left_behind()
        self.on_progress(f"copying {rows:,} rows")
        live, metric = self.settings.home.index, self.settings.index.metric
        with copied(live, folder, rows, wanted, metric) as bench:
            measured = Measuring(
                bench=bench,
                questions=Questions.of(bench.uri, bench.rows, asking, seed=bench.rows),
                seconds=seconds,
                parts=self.settings.optimizer.index_parts,
                fragments=self.settings.optimizer.small_fragments,
                on_progress=self.on_progress,
            ).run()
        return Evidence(
            rows=shape.rows,
            copied=bench.rows,
            dimension=shape.dimension,
            indexes=tuple(one.name for one in wanted),
            asked=str(asking),
            growth=growth,
            latencies=measured.latencies,
            actions=measured.actions,
            notes=tuple(_notes(shape, growth, bench.rows, measured.latencies)),
        )

    def _asking(self) -> Asking:
        chosen = self.settings.search
        knobs = Knobs(chosen.nprobes, chosen.ef, chosen.refine)
        return Asking(chosen.mode, chosen.k, self.settings.index.metric, knobs)

    # --- the copy --------------------------------------------------------------------------------

    def _folder(self, shape: TableShape, rows: int, scratch: str | None) -> str:
        """Where the copy goes; raises if there is no room for it."""
        folder = self.settings.home.calibration(self.clock())
        if scratch is not None:
            folder = f"{scratch.rstrip('/')}/{folder.rpartition('/')[2]}"
        held = max(sum(fragment.rows for fragment in shape.fragments), 1)
        data = sum(fragment.bytes for fragment in shape.fragments)
        needed = _COPY_SIZE * data * rows // held + _SPARE_BYTES
        free = shutil.disk_usage(_existing(folder)).free if is_local(folder) else needed
        if free < needed:
            raise CalibrationError(
                f"a copy of {rows:,} rows takes up to {needed / 1e9:.1f} GB while it is measured, "
                f"and {folder} has {free / 1e9:.1f} GB left: name another folder with `--scratch`, "
                "or copy fewer rows with `--max-rows`"
            )
        return folder

    def _forget_left_behind(self) -> None:
        """Removes the copies of calibrations that were killed."""
        home = self.settings.home
        oldest_kept = home.calibration(self.clock() - _LEFT_BEHIND)
        for name in copies.folders_in(home.root):
            place = f"{home.root.rstrip('/')}/{name}"
            if name.startswith("calibration-") and place < oldest_kept:
                copies.delete_folder(place)


def _existing(folder: str) -> str:
    """The folder, or the nearest one above it that is there."""
    while folder and not os.path.exists(folder):
        folder = os.path.dirname(folder)
    return folder or "."


def _notes(
    shape: TableShape, growth: Growth, copied_rows: int, latencies: Sequence[Latency]
) -> Iterator[str]:
    if copied_rows < shape.rows:
        yield (
            f"measured on {copied_rows:,} of {shape.rows:,} rows: in all of them a search takes "
            "longer; `--max-rows` copies more"
        )
    if growth.batches and growth.span_s < _SHORT_SPAN_S:
        yield (
            f"all {growth.batches:,} batches on record lie within {growth.span_s:,.0f} s, as in a "
            "first load: if fewer rows come later, say how many with `--rows-per-hour`"
        )
    swing = median(one.swing for one in latencies)
    if swing > _UNSTEADY:
        yield (
            f"p95 of the same searches differs by {100 * swing:.0f} % from turn to turn: the "
            "machine has other work, so measure again when it has none"
        )
