"""Gold against the index, key by key: what is missing, left over, old, wrong or double."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from freshet.verify.sampling import Sample
from freshet.verify.verdict import PROBLEMS, Difference, Verdict

_EXAMPLES: Final = 5
_LONGEST: Final = 200
_HASH_SHOWN: Final = 8


@dataclass(frozen=True)
class Comparison:
    """The verdict, and the keys that it is about."""

    verdict: Verdict
    keys: frozenset[str] = field(default=frozenset())
    """Keys with problems, as many as were asked for."""


def compare(
    expected: DataFrame,
    actual: DataFrame,
    *,
    most: int = _EXAMPLES,
    held: int = 0,
    sample: Sample | None = None,
) -> Comparison:
    """Joins the two sides by key and counts; names at most `most` keys of each kind of problem.

    One job if there is no problem, and two if there are some; what comes back is bounded by `most`.
    """
    joined = _joined(expected, actual)
    row = joined.agg(
        F.count("*").alias("keys"),
        *(F.count_if(F.col(name)).alias(name) for name in ("in_gold", "in_index", *PROBLEMS)),
    ).collect()[0]
    counts = {name: row[name] for name in PROBLEMS}
    found = _differences(joined, most) if any(counts.values()) else {}
    verdict = Verdict(
        gold=row["in_gold"],
        index=row["in_index"],
        **counts,
        examples={name: found[name][:_EXAMPLES] for name in PROBLEMS if name in found},
        held=held,
        keys=row["keys"],
        sample=sample,
    )
    return Comparison(verdict, frozenset(one.key for some in found.values() for one in some))


def _joined(expected: DataFrame, actual: DataFrame) -> DataFrame:
    left, right = expected.alias("gold"), actual.alias("index")
    problems = _problems()
    said = {
        name: F.when(problems[name], F.struct(F.lit(name).alias("problem"), *words))
        for name, words in _words().items()
    }
    return left.join(right, F.col("gold.key") == F.col("index.key"), "full_outer").select(
        F.coalesce("gold.key", "index.key").alias("key"),
        F.col("gold.key").isNotNull().alias("in_gold"),
        F.col("index.key").isNotNull().alias("in_index"),
        *(problems[name].alias(name) for name in PROBLEMS),
        F.array_compact(F.array(*(said[name] for name in PROBLEMS))).alias("said"),
    )


def _problems() -> dict[str, Column]:
    in_gold, in_index = F.col("gold.key").isNotNull(), F.col("index.key").isNotNull()
    in_both = in_gold & in_index
    is_double = F.col("index.copies") > 0
    # The pieces are in order, so a missing, a moved or a doubled piece makes the lists differ.
    is_other = (_pieces() != F.col("gold.pieces")) | (F.col("index.has_wrong_hash") > 0)
    return {
        "missing": in_gold & ~in_index,
        "orphan": in_index & ~in_gold,
        "stale": in_both & (_has_other_version() | (F.col("index.attributes") != _attributes())),
        "wrong_text": in_both & ~is_double & is_other,
        "duplicate": in_index & is_double,
    }


def _words() -> dict[str, tuple[Column, Column]]:
    """What Gold says and what the index has, for people, of each kind of problem."""
    version = F.concat(F.lit("version "), F.col("gold.record_version"))
    versions = F.concat(F.lit("version "), F.array_join("index.versions", ", "))
    attributes = F.concat(F.lit("attributes "), F.col("gold.attributes"))
    others = F.concat(F.lit("attributes "), F.array_join("index.attributes", ", "))
    is_hash_alone = _pieces() == F.col("gold.pieces")
    nothing = F.lit("nothing")
    found = {
        "missing": (version, nothing),
        "orphan": (nothing, versions),
        "stale": (
            F.when(_has_other_version(), version).otherwise(attributes),
            F.when(_has_other_version(), versions).otherwise(others),
        ),
        "wrong_text": (
            F.when(is_hash_alone, F.lit("the hash of its text")).otherwise(_shown("gold.pieces")),
            F.when(is_hash_alone, F.lit("another hash")).otherwise(_shown(_pieces())),
        ),
        "duplicate": (
            F.lit("every piece once"),
            F.concat(F.col("index.copies").cast("string"), F.lit(" rows too many")),
        ),
    }
    return {
        name: (_clipped(gold).alias("expected"), _clipped(index).alias("actual"))
        for name, (gold, index) in found.items()
    }


def _pieces() -> Column:
    return F.transform(F.col("index.pieces"), lambda piece: piece["text_hash"])


def _attributes() -> Column:
    return F.array(F.col("gold.attributes"))


def _has_other_version() -> Column:
    return F.col("index.versions") != F.array(F.col("gold.record_version"))


def _shown(pieces: Column | str) -> Column:
    short = F.transform(pieces, lambda digest: F.left(digest, F.lit(_HASH_SHOWN)))
    return F.concat(F.lit("text "), F.array_join(short, " "))


def _clipped(text: Column) -> Column:
    whole = F.length(text) <= _LONGEST
    return F.when(whole, text).otherwise(F.concat(F.left(text, F.lit(_LONGEST)), F.lit("…")))


def _differences(joined: DataFrame, most: int) -> Mapping[str, tuple[Difference, ...]]:
    """The first keys with each kind of problem; the smallest ones, the same every time."""
    bad = reduce(Column.__or__, (F.col(name) for name in PROBLEMS))
    said = joined.where(bad).select("key", F.explode("said").alias("said"))
    flat = said.select("key", "said.problem", "said.expected", "said.actual")
    first = F.row_number().over(Window.partitionBy("problem").orderBy("key")) <= most
    found: dict[str, list[Difference]] = defaultdict(list)
    for row in flat.withColumn("first", first).where("first").orderBy("problem", "key").collect():
        found[row["problem"]].append(Difference(row["key"], row["expected"], row["actual"]))
    return {name: tuple(some) for name, some in found.items()}
