"""A copy of the index, on which everything may be tried."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from freshet.optimizer import Wanted
from freshet.partitions import partitions_for
from freshet.stores import copies, lance_actions, lance_copies
from freshet.stores.lance_shape import shape_of
from freshet.stores.lance_tables import LanceTable

_CLEANED: Final = 10


@dataclass(frozen=True)
class Bench:
    """The copy: it can be changed as batches and the optimizer do, and be set back."""

    uri: str
    rows: int
    indexes: tuple[Wanted, ...]
    metric: str

    @property
    def version(self) -> int:
        """The newest one, to come back to."""
        return LanceTable.open(self.uri).version

    def build(self) -> None:
        """Makes all indexes."""
        for one in self.indexes:
            if one.is_of_vectors:
                lance_actions.build_vector_index(
                    self.uri,
                    one.column,
                    one.name,
                    kind=one.kind,
                    metric=self.metric,
                    partitions=partitions_for(self.rows),
                )
            else:
                lance_actions.build_scalar_index(self.uri, one.column, one.name, one.kind)

    def restore(self, version: int) -> None:
        """Sets rows and indexes back to what they were."""
        lance_copies.restore(self.uri, version)

    def change(self, rows: int, batches: int = 1) -> int:
        """So many rows change, and no index covers them; returns the version."""
        each, more = divmod(rows, batches)
        for number in range(batches):
            lance_copies.change_oldest(self.uri, each + (number < more))
        return self.version

    def extend(self) -> None:
        """Indexes what is not indexed, as a further part of every index."""
        for one in self.indexes:
            lance_actions.extend_index(self.uri, one.name)

    def merge(self, parts: int) -> None:
        """Makes the newest parts of every index one."""
        for one in self.indexes:
            lance_actions.merge_parts(self.uri, one.name, parts)

    def fold(self, since: int) -> None:
        """Folds the fragments that came after a version."""
        chosen = list(lance_copies.new_fragments(self.uri, since))
        lance_actions.compact(self.uri, chosen, self.rows)

    def clean(self) -> int:
        """Removes the oldest versions, to which there is no way back then; returns how many."""
        known = [version.number for version in shape_of(self.uri).versions]
        oldest = known[:-1][:_CLEANED]
        lance_actions.clean(self.uri, oldest)
        return len(oldest)


@contextmanager
def copied(
    source: str, folder: str, most: int, indexes: tuple[Wanted, ...], metric: str
) -> Iterator[Bench]:
    """A copy of so many rows at most in a folder of its own, which is gone afterwards."""
    uri = f"{folder}/index.lance"
    try:
        yield Bench(uri, lance_copies.copy_rows(source, uri, most), indexes, metric)
    finally:
        copies.delete_folder(folder)
