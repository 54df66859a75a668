"""A bounded sample of the user's own records: from Bronze, or from the landing zone before it.

Bronze is preferred: its records are understood already, and are there when files were moved away.
Without it, the files are read as ingest would read them, and nothing is written anywhere.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from freshet import bronze, landing, schemas
from freshet.errors import ProfileError
from freshet.landing import LandingOptions
from freshet.landing.files import FilesTable, KnownFile
from freshet.landing.source import read_file
from freshet.layout import Home
from freshet.profiling.evidence import FileFacts
from freshet.stores import delta_facts
from freshet.stores.file_listing import FoundFile

_MOST_FILES: Final = 64
_MOST_COUNTED: Final = 200_000
"""Records that are read to learn how many a file holds."""

Understand = Callable[[DataFrame], DataFrame]
"""Records of the landing zone as changes."""


@dataclass(frozen=True)
class Sample:
    """Changes to look at, and the files that they are from."""

    source: str
    changes: DataFrame
    files: tuple[FileFacts, ...]


def sample(
    spark: SparkSession, home: Home, options: LandingOptions, understand: Understand, records: int
) -> Sample:
    """About so many changes, spread over some of the files."""
    if bronze.count(home.bronze).rows:
        return _of_bronze(spark, home, options, records)
    return _of_landing(spark, options, understand, records)


def _of_bronze(spark: SparkSession, home: Home, options: LandingOptions, records: int) -> Sample:
    newest = delta_facts.greatest(home.bronze, "seq") or 0
    per_file = bronze.count(home.bronze).rows / (newest + 1)
    seqs = _spread(newest, min(_MOST_FILES, max(1, int(_MOST_COUNTED / per_file))))
    events = spark.read.format("delta").load(home.bronze).where(F.col("seq").isin(seqs))
    counts = {row["seq"]: row["count"] for row in events.groupBy("seq").count().collect()}
    known = FilesTable(options.state)
    found = {seq: known.between(seq, seq + 1) for seq in sorted(counts)}
    files = tuple(
        FileFacts(file.path, file.size, counts[seq]) for seq, some in found.items() for file in some
    )
    place = F.pmod(F.xxhash64("seq", "row"), F.lit(max(1, sum(counts.values()))))
    return Sample("bronze", events.where(place < records).limit(records), files)


def _of_landing(
    spark: SparkSession, options: LandingOptions, understand: Understand, records: int
) -> Sample:
    chosen = nsmallest(_MOST_FILES, landing.Zone(options).files(), key=_shuffled)
    if not chosen:
        raise ProfileError(
            f"there are no files in {options.path} yet, and no events in Bronze: a profile "
            "measures your own data, so let some land first"
        )
    tables, files = list[pa.Table](), list[FileFacts]()
    for number, file in enumerate(chosen):
        wanted = -(-(records - sum(map(len, tables))) // (len(chosen) - number))
        counted = _MOST_COUNTED - sum(one.records for one in files)
        if counted <= 0:
            break
        table, facts = _read(file, number, options, wanted, counted)
        tables.append(table)
        files.append(facts)
    rows = pa.concat_tables(tables).cast(schemas.LANDING)
    return Sample("landing", understand(spark.createDataFrame(rows)), tuple(files))


def _read(
    file: FoundFile, number: int, options: LandingOptions, wanted: int, most: int
) -> tuple[pa.Table, FileFacts]:
    """The first records of a file, and how many it has, counted up to a limit."""
    known = KnownFile(number, file.path, file.size, file.modified_at, None, None, "profile")
    kept, counted = list[pa.RecordBatch](), 0
    for batch in read_file(known, options.reading):
        if counted < wanted:
            kept.append(batch.slice(0, wanted - counted))
        counted += batch.num_rows
        if counted >= most:
            break
    facts = FileFacts(file.path, file.size, counted, is_whole=counted < most)
    return pa.Table.from_batches(kept, schemas.LANDING), facts


def _spread(newest: int, count: int) -> Sequence[int]:
    """Numbers of files, evenly over all, the newest one among them."""
    return sorted({newest - place * (newest + 1) // count for place in range(count)})


def _shuffled(file: FoundFile) -> bytes:
    """An order that has nothing to do with names or dates, and is the same every time."""
    return hashlib.blake2b(file.path.encode(), digest_size=8).digest()
