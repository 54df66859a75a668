"""What each commit of a Delta table brought, from its log alone: no row is read."""

import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from freshet.errors import StoreError
from freshet.stores import copies

MOST_COMMITS: Final = 10_000
"""So many are kept in memory, the newest ones."""
_AT_ONCE: Final = 8
"""An object store answers so many requests in the time of one."""

Action = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Bunch:
    """Data files of one commit whose numbers lie within the same bounds."""

    first: int
    """The least number of the column that was asked for."""
    last: int
    place: int
    """That of the last of the files in its commit, as Delta's streaming source counts them."""
    rows: int
    bytes: int
    oldest: datetime | None = None
    """The least time of the column that was asked for; None if no row has one."""


@dataclass(frozen=True, slots=True)
class DataCommit:
    """A commit that brought rows; one that only rewrites them, as folding does, is none."""

    version: int
    at: datetime
    bunches: tuple[Bunch, ...]

    @property
    def last(self) -> int:
        """The greatest number that it brought."""
        return max(bunch.last for bunch in self.bunches)

    @property
    def rows(self) -> int:
        """How many rows it brought."""
        return sum(bunch.rows for bunch in self.bunches)


@dataclass(frozen=True)
class LogEnd:
    """Which table it is, and how far its log goes."""

    table_id: str
    version: int


class CommitLog:
    """The commits of one table, each read once: of a column of numbers and one of times.

    Memory holds what `MOST_COMMITS` commits brought at most, and what the open table takes.
    """

    def __init__(self, uri: str, number: str, time: str) -> None:
        self._uri = uri
        self._number, self._time = number, time
        self._table: DeltaTable | None = None
        self._known: dict[int, DataCommit | None] = {}

    def end(self) -> LogEnd | None:
        """The newest version; None if there is no table."""
        try:
            if self._table is None:
                self._table = DeltaTable(self._uri)
            else:
                self._table.update_incremental()
            return LogEnd(str(self._table.metadata().id), int(self._table.version()))
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            self._table = None
            raise StoreError("read the log of", self._uri, error) from error

    def between(self, first: int, last: int) -> list[DataCommit]:
        """Those of some versions, in order, as far as the log reaches back.

        Of more than `MOST_COMMITS` versions, the newest.
        """
        versions = range(max(0, first, last - MOST_COMMITS + 1), last + 1)
        missing = [version for version in versions if version not in self._known]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            self._known.update(zip(missing, pool.map(self._read, missing), strict=True))
        found = [self._known[version] for version in versions]
        if len(self._known) > MOST_COMMITS:
            self._known = dict(sorted(self._known.items())[-MOST_COMMITS:])
        return [commit for commit in found if commit is not None]

    def after(self, version: int, last: int) -> Iterator[DataCommit]:
        """Those from a version on, in order; reads no further than they are asked for."""
        for one in range(max(0, version), last + 1):
            yield from self.between(one, one)

    def _read(self, version: int) -> DataCommit | None:
        """None if it brought nothing, or the log does not reach back to it."""
        try:
            data = copies.read(f"{self._uri}/_delta_log/{version:020}.json")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError("read the log of", self._uri, error) from error
        actions = [json.loads(line) for line in data.splitlines() if line]
        bunches = self._bunches(_added(actions))
        return DataCommit(version, _time_of(actions), bunches) if bunches else None

    def _bunches(self, added: Iterable[Action]) -> tuple[Bunch, ...]:
        bunches: dict[tuple[int, int], Bunch] = {}
        for place, action in enumerate(added):
            told = json.loads(action.get("stats") or "{}")
            least, greatest = told.get("minValues", {}), told.get("maxValues", {})
            if self._number not in least or self._number not in greatest:
                continue
            bounds = int(least[self._number]), int(greatest[self._number])
            oldest = _moment(least.get(self._time))
            one = Bunch(*bounds, place, int(told["numRecords"]), int(action["size"]), oldest)
            bunches[bounds] = _together(bunches[bounds], one) if bounds in bunches else one
        return tuple(bunches.values())


def _added(actions: Iterable[Action]) -> Iterator[Action]:
    """Files with new rows, in the order in which a stream gets them."""
    adds = (action["add"] for action in actions if "add" in action)
    return (add for add in adds if add.get("dataChange", True))


def _time_of(actions: Iterable[Action]) -> datetime:
    info: Action = next((one["commitInfo"] for one in actions if "commitInfo" in one), {})
    told = info.get("inCommitTimestamp", info.get("timestamp", 0))
    return datetime.fromtimestamp(told / 1000, UTC)


def _together(one: Bunch, other: Bunch) -> Bunch:
    times = [bunch.oldest for bunch in (one, other) if bunch.oldest is not None]
    return Bunch(
        one.first,
        one.last,
        max(one.place, other.place),
        one.rows + other.rows,
        one.bytes + other.bytes,
        min(times, default=None),
    )


def _moment(text: str | None) -> datetime | None:
    """A time as statistics have it; None if it is one that Python cannot hold."""
    try:
        found = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found is None or found.tzinfo else found.replace(tzinfo=UTC)
