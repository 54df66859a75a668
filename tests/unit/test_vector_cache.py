"""The cache of vectors: what was added is found, whatever happens around it."""

from pathlib import Path

import numpy as np
import pytest

from freshet.embedding import VectorCache, cache_executor
from freshet.embedding.provider import Vectors
from freshet.stores.lance_tables import LanceTable


def vectors_of(*numbers: int) -> dict[str, Vectors]:
    return {f"hash{number:06d}": np.full(4, number, np.float32) for number in numbers}


@pytest.fixture
def cache(tmp_path: Path) -> VectorCache:
    made = VectorCache.within(str(tmp_path), "some/model@1.0", 4)
    made.make()
    return made


def numbers_in(cache: VectorCache, *numbers: int) -> set[int]:
    found = cache.known(list(vectors_of(*numbers)))
    assert all((vector == int(digest[4:])).all() for digest, vector in found.items())
    return {int(digest[4:]) for digest in found}


def test_a_vector_that_was_added_is_known(cache: VectorCache) -> None:
    assert numbers_in(cache, 1, 2) == set()
    cache.add(vectors_of(1, 2))
    cache.add(vectors_of(2, 3))
    assert numbers_in(cache, 1, 2, 3, 4) == {1, 2, 3}


def test_models_do_not_share_vectors(cache: VectorCache, tmp_path: Path) -> None:
    other = VectorCache.within(str(tmp_path), "some/model@1-0", 4)
    other.make()
    cache.add(vectors_of(1))
    assert other.uri != cache.uri
    assert numbers_in(other, 1) == set()


def test_without_a_table_nothing_is_known_and_nothing_fails(tmp_path: Path) -> None:
    absent = VectorCache.within(str(tmp_path), "some/model", 4)
    absent.add(vectors_of(1))
    assert numbers_in(absent, 1) == set()
    absent.maintain(1)
    assert not list(tmp_path.iterdir())


def test_a_broken_table_costs_an_embedding_and_not_the_batch(cache: VectorCache) -> None:
    cache.add(vectors_of(1))
    for manifest in Path(cache.uri, "_versions").iterdir():
        manifest.write_bytes(b"nonsense")
    assert cache.known(list(vectors_of(1))) == {}
    cache.add(vectors_of(2))
    cache.maintain(1 << 30)


def test_many_small_additions_are_folded_together(
    cache: VectorCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_executor, "_MANY_FRAGMENTS", 8)
    for number in range(20):
        cache.add(vectors_of(number))
    cache.maintain(1 << 30)
    table = LanceTable.open(cache.uri)
    assert len(table.fragment_ids) == 1
    assert table.unindexed("content_hash") == (0, 0)
    assert numbers_in(cache, *range(30)) == set(range(20))


def test_above_its_limit_the_oldest_vectors_go(
    cache: VectorCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_executor, "_MANY_FRAGMENTS", 4)
    monkeypatch.setattr(cache_executor, "_ROWS_PER_FRAGMENT", 10)
    for start in range(0, 100, 10):
        cache.add(vectors_of(*range(start, start + 10)))
    cache.maintain(most_bytes=35 * 4 * 4)
    left = numbers_in(cache, *range(100))
    assert left == set(range(70, 100))
