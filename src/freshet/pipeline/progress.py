"""How far a streaming query is with the stage that it is at, as Spark itself counts.

Asked for while people wait, several times a second: it looks at running jobs only, since the list
of those that were grows.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql.streaming.query import StreamingQuery

_BATCH: Final = re.compile(r"\bbatch (?:= )?(\d+)")


@dataclass(frozen=True)
class StageProgress:
    """The tasks of the stage that a query is at."""

    done: int
    total: int
    batch_id: int | None
    is_embedding: bool

    @classmethod
    def of(cls, stage: Any, description: str) -> "StageProgress":
        """Of what Spark tells of a stage, and of the job that it belongs to."""
        found = _BATCH.search(description)
        batch_id = None if found is None else int(found.group(1))
        return cls(stage.numCompletedTasks, stage.numTasks, batch_id, "embed" in description)


def stage_of(query: StreamingQuery) -> StageProgress | None:
    """The stage of a query's running jobs that has the most tasks at work; None if none has."""
    context = SparkContext._active_spark_context
    try:
        stages = [] if context is None else list(_active_stages(context, str(query.runId)))
    except Py4JError:  # the job has ended while it was looked at
        return None
    if not stages:
        return None
    return StageProgress.of(*max(stages, key=lambda one: one[0].numActiveTasks))


def _active_stages(context: SparkContext, run_id: str) -> Iterator[tuple[Any, str]]:
    """Stages with tasks at work, each with its job's description.

    Spark makes a query's run the group of its jobs, those of `foreachBatch` too.
    """
    tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
    active = tracker.getActiveStageIds()
    for job_id in tracker.getActiveJobsIds() if active else ():
        job = store.job(job_id)
        if _text(job.jobGroup()) != run_id:
            continue
        known = tracker.getJobInfo(job_id)
        for stage_id in set(active).intersection([] if known is None else known.stageIds):
            stage = tracker.getStageInfo(stage_id)
            if stage is not None and stage.numActiveTasks:
                yield stage, _text(job.description())


def _text(option: Any) -> str:
    """What Java's side holds, if anything."""
    return str(option.get()) if option.isDefined() else ""
