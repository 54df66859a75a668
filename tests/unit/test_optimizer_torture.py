"""Keys updated, deleted and brought back around every action, at random, checked after every step.

By full scan, by indexed key, by words and by vector: no dead row, no row twice, the newest found.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from due import KEY, TEXT, VECTOR, tend
from freshet.layout import INDEX
from freshet.stores import lance_actions
from freshet.stores.lance_shape import shape_of
from freshet.stores.lance_tables import TABLE_ID, LanceTable
from optimized import OptimizedIndex, keys

POOL = 700
HOT = 12
"""So many keys change in most batches: rows of theirs die in all parts and fragments."""


class Torture:
    """Takes random steps on one index; the seed says which."""

    def __init__(self, index: OptimizedIndex, seed: int) -> None:
        self.index = index
        self.taken: Counter[str] = Counter()
        self._chooser = Random(seed)
        self._steps: dict[Callable[[], object], int] = {
            self.write: 10,
            self.extend: 3,
            self.merge: 3,
            self.compact: 4,
            self.retrain: 1,
            self.clean: 1,
            self.optimize: 1,
        }

    def step(self) -> str:
        """Takes one, and returns which."""
        (chosen,) = self._chooser.choices(list(self._steps), list(self._steps.values()))
        chosen()
        self.taken[chosen.__name__] += 1
        return chosen.__name__

    def write(self) -> None:
        count = self._chooser.randint(1, 60)
        chosen = self._chooser.sample(keys(HOT), self._chooser.randint(0, HOT))
        chosen += self._chooser.sample(keys(POOL, HOT), count)
        gone = self._chooser.randint(0, len(chosen) // 2)
        self._chooser.shuffle(chosen)
        self.index.write(chosen[gone:], chosen[:gone])

    def extend(self) -> None:
        lance_actions.extend_index(self.index.uri, self._index())

    def merge(self) -> None:
        name = self._index()
        count = self._chooser.randint(1, len(self.index.parts(name)))
        lance_actions.merge_parts(self.index.uri, name, count)

    def compact(self) -> None:
        fragments = shape_of(self.index.uri).fragments
        start = self._chooser.randrange(len(fragments))
        window = fragments[start : start + self._chooser.randint(1, 6)]
        target = self._chooser.choice([1, 200, 10_000])
        lance_actions.compact(self.index.uri, [fragment.id for fragment in window], target)

    def retrain(self) -> None:
        kind = self._chooser.choice(["IVF_HNSW_SQ", "IVF_FLAT"])
        partitions = self._chooser.randint(1, 4)
        lance_actions.build_vector_index(
            self.index.uri, "vector", VECTOR, kind=kind, metric="cosine", partitions=partitions
        )

    def clean(self) -> None:
        """All versions but those that a recovery may ask for."""
        table_id = LanceTable.open(self.index.uri).metadata[TABLE_ID]
        newest = self.index.ledger.newest(self.index.settings.home.name, INDEX, table_id)
        assert newest is not None
        versions = [known.number for known in shape_of(self.index.uri).versions]
        old = [number for number in versions if number < newest.table_version]
        if old:
            lance_actions.clean(self.index.uri, old)

    def optimize(self) -> None:
        tend(self.index)

    def _index(self) -> str:
        return self._chooser.choice([KEY, TEXT, VECTOR])


def torture(folder: Path, seed: int, steps: int) -> Counter[str]:
    index = OptimizedIndex.at(folder, unindexed_rows=50)
    index.fill(POOL // 2)
    tend(index)
    tortured, looking = Torture(index, seed), Random(seed)
    for number in range(steps):
        step = tortured.step()
        problems = index.problems(looking, samples=3)
        assert problems == [], f"seed {seed}, after step {number}, {step}"
    return tortured.taken


def test_a_key_is_what_it_was_last_whatever_was_done_around_it(tmp_path: Path) -> None:
    taken = torture(tmp_path, seed=1, steps=120)
    assert len(taken) == 7, f"some steps were never taken: {taken}"


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_a_thousand_steps(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}: {torture(tmp_path, seed, steps=1_000)}")  # noqa: T201
