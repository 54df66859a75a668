"""The rivals of `freshet bench`: each is a fair one only if it writes every row exactly once."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lance
import pytest
from pyspark.sql import SparkSession

import freshet

ROOT = Path(__file__).parent.parent.parent
RIVALS = (
    "freshet",
    "freshet-native",
    "freshet+optimizer",
    "#399",
    "#564",
    "naive",
    "freshet-update",
    "merge_insert",
    "noop",
)
ROWS = 50


@pytest.fixture(scope="module")
def field(spark: SparkSession) -> Iterator[Any]:
    """The modules of the benchmark, by their names."""
    freshet.register(spark)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        names = ("rivals", "samples", "streams", "turns")
        yield SimpleNamespace(**{name: import_module(f"field_{name}") for name in names})


def turn(field: Any, spark: SparkSession, folder: Path, rival: str, **told: Any) -> Any:
    """Two tasks a batch."""
    return field.streams.Turn(
        spark,
        field.rivals.RIVALS[rival],
        field.rivals.Place(str(folder / "place")),
        field.streams.Source(ROWS, True, partitions=2),
        field.samples.Sample("E1", field.samples.label("no-optimize", rival, 0), 0, 0, 0, 0),
        **told,
    )


def test_all_rivals_are_tested(field: Any) -> None:
    assert tuple(field.rivals.RIVALS) == RIVALS


@pytest.mark.parametrize("rival", RIVALS)
def test_a_rival_writes_every_row_once_over_several_turns(
    field: Any, spark: SparkSession, tmp_path: Path, rival: str
) -> None:
    samples = [
        sample for _ in range(2) for sample in turn(field, spark, tmp_path, rival, batches=3).run()
    ]
    ids = [sample.batch_id for sample in samples]
    assert ids == list(range(len(ids)))
    assert len(ids) == 6 or (rival == "freshet-native" and len(ids) >= 6)
    assert {sample.input_rows for sample in samples} == {ROWS}
    assert all(sample.batch_duration_ms > 0 for sample in samples)
    if rival == "noop":
        assert samples[-1].fragment_count == -1
        return
    field.turns._check(
        field.rivals.RIVALS[rival], field.rivals.Place(str(tmp_path / "place")), ROWS, samples
    )
    assert samples[-1].fragment_count > 0
    assert samples[-1].manifest_bytes > 0
    versions = [sample.lance_version for sample in samples]
    assert versions == sorted(versions)


def test_a_batch_that_is_run_again_lands_once_with_the_protocols_of_the_rivals(
    field: Any, spark: SparkSession, tmp_path: Path
) -> None:
    for rival in ("#399", "#564"):
        place = field.rivals.Place(str(tmp_path / rival))
        rows = spark.range(10).selectExpr("id", "CAST(id AS STRING) value")
        for _restart in range(2):
            write = field.rivals.RIVALS[rival].write(place)
            write(rows, 0)
            write(rows, 0)
        assert lance.dataset(place.table).count_rows() == 10
        assert lance.dataset(place.table).version == (3 if rival == "#399" else 2)


def test_a_turn_that_is_out_of_time_ends_between_two_batches(
    field: Any, spark: SparkSession, tmp_path: Path
) -> None:
    one = turn(field, spark, tmp_path, "noop", batches=10_000, seconds=0.1)
    one.run()
    assert one.is_out_of_time
    assert len(one.samples) >= field.streams.LEAST_BATCHES


def test_a_compaction_beside_the_stream_is_told_with_the_next_batch(
    field: Any, spark: SparkSession, tmp_path: Path
) -> None:
    place = field.rivals.Place(str(tmp_path / "place"))
    compacting = field.turns.Compacting(place.table, 5)
    samples = turn(field, spark, tmp_path, "freshet", batches=12, on_sample=compacting.tagged).run()
    compacting.end()
    assert compacting.failures == 0
    assert any(sample.optimized_this_batch for sample in samples)
    assert not any(sample.optimized_this_batch for sample in samples[:6])
    found = lance.dataset(place.table)
    assert found.count_rows() == 12 * ROWS
    assert len(found.get_fragments()) < 12


def test_an_error_of_a_rival_is_not_taken_for_the_end_of_its_turn(
    field: Any, spark: SparkSession, tmp_path: Path
) -> None:
    def start(place: Any) -> Any:
        def write(frame: Any, batch_id: int) -> None:
            raise OSError("the disk is full")

        return write

    rival = field.rivals.Rival("broken", "fails", start)
    one = turn(field, spark, tmp_path, "noop", batches=3)
    one.rival = rival
    with pytest.raises(Exception, match="the disk is full"):
        one.run()
