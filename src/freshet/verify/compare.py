"""Gold against the index, key by key: what is missing, left over, old, wrong or double."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_PROBLEMS: Final = ("missing", "orphan", "stale", "wrong_text", "duplicate")
_EXAMPLES: Final = 5


@dataclass(frozen=True)
class Verdict:
    """Keys on both sides, and keys with each kind of problem; a key may have several."""

    gold: int
    index: int
    missing: int
    """In Gold, but not in the index."""
    orphan: int
    """In the index, but deleted or never in Gold."""
    stale: int
    """Another version, or other attributes, than Gold's."""
    wrong_text: int
    """Other pieces of text than Gold's, or a piece missing."""
    duplicate: int
    """A piece that stands twice."""
    examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the index equals Gold."""
        return not any(getattr(self, problem) for problem in _PROBLEMS)

    def as_dict(self) -> dict[str, Any]:
        """The form that `--json` prints; examples only where there is a problem."""
        counts = {name: getattr(self, name) for name in ("gold", "index", *_PROBLEMS)}
        examples = {name: list(keys) for name, keys in self.examples.items() if keys}
        return {"ok": self.ok} | counts | ({"examples": examples} if examples else {})


def compare(expected: DataFrame, actual: DataFrame) -> Verdict:
    """Joins the two sides by key and counts; what comes back to the driver is of constant size."""
    left, right = expected.alias("gold"), actual.alias("index")
    joined = left.join(right, F.col("gold.key") == F.col("index.key"), "full_outer").select(
        F.coalesce("gold.key", "index.key").alias("key"),
        F.col("gold.key").isNotNull().alias("in_gold"),
        F.col("index.key").isNotNull().alias("in_index"),
        *(problem.alias(name) for name, problem in _problems().items()),
    )
    row = joined.agg(
        _count("in_gold"),
        _count("in_index"),
        *(_count(name) for name in _PROBLEMS),
        *(_some_keys(name) for name in _PROBLEMS),
    ).collect()[0]
    return Verdict(
        gold=row["in_gold"],
        index=row["in_index"],
        **{name: row[name] for name in _PROBLEMS},
        examples={name: tuple(row[f"{name}_keys"]) for name in _PROBLEMS},
    )


def _problems() -> dict[str, Column]:
    in_gold, in_index = F.col("gold.key").isNotNull(), F.col("index.key").isNotNull()
    in_both = in_gold & in_index
    # The pieces are in order, so a missing, a moved or a doubled piece makes the lists differ.
    pieces = F.transform(F.col("index.pieces"), lambda piece: piece["text_hash"])
    versions = F.array(F.col("gold.record_version"))
    attributes = F.array(F.col("gold.attributes"))
    is_double = F.col("index.copies") > 0
    return {
        "missing": in_gold & ~in_index,
        "orphan": in_index & ~in_gold,
        "stale": in_both
        & ((F.col("index.versions") != versions) | (F.col("index.attributes") != attributes)),
        "wrong_text": in_both
        & ~is_double
        & ((pieces != F.col("gold.pieces")) | (F.col("index.has_wrong_hash") > 0)),
        "duplicate": in_index & is_double,
    }


def _count(name: str) -> Column:
    return F.count_if(F.col(name)).alias(name)


def _some_keys(name: str) -> Column:
    """A few keys with a problem; the smallest ones, so that the answer is the same every time."""
    keys = F.collect_list(F.when(F.col(name), F.col("key")))
    return F.slice(F.array_sort(keys), 1, _EXAMPLES).alias(f"{name}_keys")
