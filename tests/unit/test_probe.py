"""The recall probe: right where it can be checked, fair to ties, and bounded."""

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from freshet.search.probe import distances, probe, sample_size, share_found
from freshet.stores.lance_search import SearchableTable, Vectors
from indexes import ROWS, SmallIndex


def filled(path: Path, vectors: Vectors, metric: str = "cosine") -> SmallIndex:
    """An index with these vectors, one a record."""
    index = SmallIndex(str(path / "i.lance"), metric)
    count, size = vectors.shape
    columns = {name: pa.nulls(count, ROWS.schema.field(name).type) for name in ROWS.schema.names}
    columns |= {
        "key": pa.array([f"k{n}" for n in range(count)]),
        "chunk": pa.array([0] * count, pa.int32()),
        "record_version": pa.array(["1"] * count),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), size),
    }
    index.write(pa.table(columns, schema=ROWS.schema))
    return index


def scattered(count: int) -> Vectors:
    return np.random.default_rng(7).standard_normal((count, 32)).astype(np.float32)


@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
def test_without_an_index_all_neighbours_are_found(tmp_path: Path, metric: str) -> None:
    index = filled(tmp_path, scattered(500), metric)
    measured = probe(index.uri, metric=metric, seed=1)
    assert measured is not None
    assert measured.recall == 1.0
    assert 0 < measured.p50_ms <= measured.p95_ms <= measured.p99_ms
    assert (measured.samples, measured.rows) == (16, 500)
    assert measured.version == SearchableTable.open(index.uri).version


@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_what_an_index_misses_is_told(tmp_path: Path, metric: str) -> None:
    index = filled(tmp_path, scattered(3_000), metric)
    index.make_indexes(partitions=30)
    careless = probe(index.uri, metric=metric, nprobes=1, seed=1)
    careful = probe(index.uri, metric=metric, nprobes=30, ef=500, refine=4, seed=1)
    assert careless is not None
    assert careful is not None
    assert careless.recall < 0.8
    assert careful.recall > 0.95
    again = probe(index.uri, metric=metric, nprobes=1, seed=1)
    assert again is not None
    assert again.recall == careless.recall


def test_rows_just_as_near_are_no_misses(tmp_path: Path) -> None:
    few = scattered(3)
    index = filled(tmp_path, np.repeat(few, 400, axis=0))
    index.make_indexes(partitions=2)
    measured = probe(index.uri, metric="cosine", k=10, nprobes=2, seed=1)
    assert measured is not None
    assert measured.recall == 1.0


def test_rows_without_a_vector_are_not_asked(tmp_path: Path) -> None:
    index = SmallIndex(str(tmp_path / "i.lance"))
    assert probe(index.uri, metric="cosine", seed=1) is None
    index.add({f"n{n}": "taken by no model" for n in range(30)}, is_refused=True)
    assert probe(index.uri, metric="cosine", seed=1) is None
    index.add({f"k{n}": f"river {n}" for n in range(30)})
    measured = probe(index.uri, metric="cosine", seed=1)
    assert measured is not None
    assert measured.recall == 1.0
    assert measured.samples == 16


def test_a_table_without_vectors_is_not_asked(tmp_path: Path) -> None:
    uri = str(tmp_path / "words.lance")
    lance.write_dataset(pa.table({"word": ["river", "mill"]}), uri)
    assert probe(uri, metric="cosine", seed=1) is None


def test_a_large_table_is_asked_with_fewer_samples() -> None:
    assert sample_size(16, 0) == 16
    assert sample_size(16, 500_000) == 16
    assert sample_size(16, 1_000_000) == 8
    assert sample_size(16, 100_000_000) == 4


@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
def test_distances_are_those_of_lance(tmp_path: Path, metric: str) -> None:
    vectors = scattered(50)
    table = SearchableTable.open(filled(tmp_path, vectors, metric).uri)
    [exact] = table.exact_distances(vectors[:1], k=50, metric=metric)
    np.testing.assert_allclose(exact, sorted(distances(vectors[0], vectors, metric)), atol=1e-4)


def test_the_share_that_was_found_is_told_by_distances() -> None:
    assert share_found([0.1, 0.2, 0.3], [0.1, 0.2, 0.3]) == 1.0
    assert share_found([0.1, 0.3, 0.4], [0.1, 0.2, 0.3]) == pytest.approx(2 / 3)
    assert share_found([0.1], [0.1, 0.2]) == 0.5
    assert share_found([0.2, 0.2 + 1e-7], [0.1, 0.2]) == 1.0
    assert share_found([], [0.1]) == 0.0
    assert share_found([], []) == 1.0
