"""Step 3 of the commit protocol, on the driver: how a batch is spread over tasks."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from pyspark import SparkContext
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from freshet.sink.copy_executor import Copying
from freshet.sink.parts_executor import PARTS, TASK, Finishing, Part, Sweep
from freshet.sink.prepare_executor import Preparation
from freshet.sink.prepared import Prepared
from freshet.sink.stamps import Counts

_PARTS: Final = from_arrow_schema(PARTS)
_TASKS_PER_SWEEP: Final = 16
_TASKS_PER_CORE: Final = 4
"""So many tasks share the heavy rows: one that got more than its share then holds up little …"""
_MANY_TASKS: Final = 32
"""… but starting more than this only to level them out would cost more than it gains."""


@dataclass
class _Attempts:
    """When to try again what was refused: after 1, 2, 4, 8 and then always 16 other batches."""

    pause: int = 0
    left: int = 0

    def is_due(self) -> bool:
        """Whether this batch is to be tried; counts the batches."""
        self.left -= 1
        return self.left < 0

    def note(self, *, is_refused: bool) -> None:
        """Remembers how the attempt went."""
        self.pause = min(max(1, 2 * self.pause), 16) if is_refused else 0
        self.left = self.pause


@dataclass
class Preparing:
    """Runs the tasks of batches; only fragments, keys and counts come back."""

    key: str | None
    """Rows of one key go to one task; None if any task may take any row."""
    partitions: int | None = None
    _alone: _Attempts = field(default_factory=_Attempts)

    def run(self, rows: DataFrame, task: Preparation | Copying, sweep: Sweep) -> Prepared:
        """Prepares a batch by one task alone if it is small, and by many otherwise."""
        prepared = self._run_alone(rows, task) if self._alone.is_due() else None
        if prepared is not None:
            return prepared
        cores = rows.sparkSession.sparkContext.defaultParallelism
        tasks = self.partitions or cores
        spread = rows if self.key is None else rows.repartition(tasks, self.key)
        if isinstance(task, Preparation) and task.builder.has_heavy_rows:
            made = _in_two_steps(
                spread, task, max(tasks, min(_TASKS_PER_CORE * tasks, _MANY_TASKS))
            )
        else:
            made = spread.mapInArrow(task, _PARTS)
        swept = made.repartition(-(-tasks // _TASKS_PER_SWEEP)).mapInArrow(sweep, _PARTS)
        with _described(rows.sparkSession.sparkContext, "embed and write"):
            return joined(Part.all_of(swept.toArrow()), cores)

    def _run_alone(self, rows: DataFrame, task: Preparation | Copying) -> Prepared | None:
        """One task, no shuffle and one fragment for a small batch; None if it is not small.

        Spreading a small batch over tasks would cost more than the work itself.
        """
        made = rows.coalesce(1).mapInArrow(replace(task, is_alone=True), _PARTS)
        parts = Part.all_of(made.toArrow())
        is_refused = any(part.is_refused for part in parts)
        self._alone.note(is_refused=is_refused)
        return None if is_refused else joined(parts)


def _in_two_steps(rows: DataFrame, task: Preparation, tasks: int) -> DataFrame:
    """Heavy rows are not made where their records are, but dealt out evenly."""
    made = rows.mapInArrow(replace(task, tasks=tasks), _PARTS)
    finishing = Finishing(task.uri, task.version, task.builder)
    return made.repartitionById(tasks, TASK).mapInArrow(finishing, _PARTS)


@contextmanager
def _described(context: SparkContext, what: str) -> Iterator[None]:
    """Says what a job does, after what Spark says of its batch, to those who watch."""
    name = "spark.job.description"
    said = context.getLocalProperty(name)
    context.setLocalProperty(name, f"{said or ''} {what}".strip())
    try:
        yield
    finally:
        context.setLocalProperty(name, said)  # type: ignore[arg-type]


def joined(parts: Sequence[Part], cores: int = 1) -> Prepared:
    """What all tasks made of the batch; as many of them as there are cores run side by side."""
    deleted = {key: version for part in parts for key, version in part.deleted.items()}
    return Prepared(
        fragments=tuple(fragment for part in parts for fragment in part.fragments),
        gone=tuple(key for part in parts for key in part.gone),
        places=tuple(address for part in parts for address in part.places),
        deleted={key: version for key, version in deleted.items() if version},
        unsettled=tuple(key for part in parts for key in part.unsettled),
        counts=Counts(
            rows_in=sum(part.rows_in for part in parts),
            rows_upserted=sum(part.upserted for part in parts),
            rows_deleted=len(deleted),
            rows_stale=sum(part.stale for part in parts),
            rows_unchanged=sum(part.unchanged for part in parts),
            rows_reused=sum(part.reused for part in parts),
            rows_embedded=sum(part.embedded for part in parts),
        ),
        embed_s=_elapsed([part.embed_s for part in parts], cores),
        write_s=_elapsed([part.write_s for part in parts], cores),
    )


def _elapsed(seconds: Sequence[float], cores: int) -> float:
    """About how long tasks took that shared the cores."""
    return max([sum(seconds) / cores, *seconds])
