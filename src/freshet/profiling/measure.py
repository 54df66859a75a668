"""Measures the embedding stage in place: through Spark's tasks, on one core and on all of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from statistics import median
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from freshet.embedding import IndexRows, ProviderSpec
from freshet.embedding.batching import MAX_TEXTS
from freshet.profiling.evidence import FixedTime, Lengths, Rate
from freshet.profiling.measure_executor import CUT, TIMED, Cutting, Timing

_BUDGETS: Final = (512, 1_024, 2_048, 4_096, 8_192)
"""The numbers of `batch_tokens` that are tried, beside the one that is set."""
_TURNS: Final = 3
_FEWEST_RUNS: Final = 3
_TEXTS_AT_ONCE: Final = 1_024
"""As many as the model is given at once in a batch."""
_ASSUMED: Final = FixedTime(1.0, 0)
_BATCHES: Final = 50

OnProgress = Callable[[str], None]


@dataclass(frozen=True)
class Cut:
    """The sample as the model sees it."""

    lengths: Lengths
    texts: tuple[str, ...]
    """All different ones, by length."""

    @property
    def tokens_per_text(self) -> float:
        """About how long texts are."""
        return max(1.0, sum(self.lengths.tokens) / max(1, sum(self.lengths.texts)))


def cut(records: DataFrame, rows: IndexRows) -> Cut:
    """Cuts records with a `text`, and a column for each further vector, on the executors."""
    task = Cutting(rows.spec, rows.chunking, tuple(rows.vectors))
    made = records.mapInArrow(task, from_arrow_schema(CUT)).toArrow()
    texts: list[list[str]] = made.column("texts").to_pylist()
    different = {text for some in texts for text in some if text.strip()}
    lengths = Lengths(
        characters=tuple(made.column("characters").to_pylist()),
        tokens=tuple(made.column("tokens").to_pylist()),
        texts=tuple(map(len, texts)),
    )
    return Cut(lengths, tuple(sorted(different, key=lambda text: (len(text), text))))


def cores_of(spark: SparkSession) -> int:
    """How many tasks Spark runs at once; what it cuts work into may be another number."""
    context: Any = spark.sparkContext._jsc.sc()
    profile = context.resourceProfileManager().defaultResourceProfile()
    return max(1, int(context.maxNumConcurrentTasks(profile)))


def rates(
    spark: SparkSession,
    spec: ProviderSpec,
    found: Cut,
    *,
    seconds: float,
    on_progress: OnProgress,
) -> tuple[Rate, ...]:
    """Texts a second for several numbers of `batch_tokens`, each measured for about `seconds`.

    Every one has its turn before the first has its second, so that what else the machine does
    meanwhile favours none. A model that is too slow for several turns has one.
    """
    budgets, cores = sorted({*_BUDGETS, spec.batch_tokens}), cores_of(spark)
    on_progress("loading the model")
    timing, turns = _fitting(spark, spec, found, budgets[-1], seconds)
    measured: dict[tuple[int, int], list[float]] = {}
    for turn in range(turns):
        for budget in budgets:
            task = replace(timing, spec=replace(spec, batch_tokens=budget))
            for workers in sorted({1, cores}):
                on_progress(
                    f"embedding with batch_tokens = {budget} on {workers} of {cores} cores "
                    f"(turn {turn + 1} of {turns})"
                )
                rate = _texts_per_s(spark, task, workers)
                measured.setdefault((budget, workers), []).append(rate)
    return tuple(_rate(budget, measured[budget, 1], measured[budget, cores]) for budget in budgets)


def _rate(budget: int, one: Sequence[float], every: Sequence[float]) -> Rate:
    middle = median(every)
    return Rate(budget, median(one), middle, (max(every) - min(every)) / middle)


def spread(texts: Sequence[str], most: int) -> tuple[str, ...]:
    """So many of the texts at most, evenly over them: short and long ones as in all."""
    count = min(most, len(texts))
    return tuple(texts[(2 * place + 1) * len(texts) // (2 * count)] for place in range(count))


def runs_of(texts: Sequence[str], size: int, count: int) -> tuple[str, ...]:
    """Runs of neighbours, evenly over the texts; all of them if there are not more.

    A batch has so many texts that those which the model gets together are of one length, nearly;
    texts picked one by one would be padded far more.
    """
    if len(texts) <= size * count:
        return tuple(texts)
    shift = (len(texts) // count - size) // 2
    starts = (run * len(texts) // count + shift for run in range(count))
    return tuple(text for start in starts for text in texts[start : start + size])


def _fitting(
    spark: SparkSession, spec: ProviderSpec, found: Cut, most_tokens: int, seconds: float
) -> tuple[Timing, int]:
    """As many texts as there is time for, and in how many turns."""
    texts = spread(found.texts, _TEXTS_AT_ONCE)
    size = min(MAX_TEXTS, ceil(most_tokens / found.tokens_per_text))
    few = runs_of(texts, size, _FEWEST_RUNS)
    rate = _texts_per_s(spark, Timing(spec, few, 0.0), 1)
    turns = max(1, min(_TURNS, int(rate * seconds / len(few))))
    runs = max(_FEWEST_RUNS, int(rate * seconds / turns / size))
    return Timing(spec, runs_of(texts, size, runs), seconds / turns / 2), turns


def fixed_time(ledger: Sequence[Mapping[str, Any]]) -> FixedTime:
    """What batches take besides embedding, by the newest rows of the ledger; assumed if none."""
    landed = [row for row in ledger if row["error"] is None and row["rows_in"]][-_BATCHES:]
    if not landed:
        return _ASSUMED
    return FixedTime(
        max(0.0, median(row["total_s"] - row["embed_s"] for row in landed)), len(landed)
    )


def _texts_per_s(spark: SparkSession, task: Timing, workers: int) -> float:
    """Of so many tasks together, which run side by side."""
    started = spark.range(0, workers, 1, workers)
    timed = started.mapInArrow(task, from_arrow_schema(TIMED)).toArrow().to_pylist()
    return float(sum(row["texts"] / row["seconds"] for row in timed))
