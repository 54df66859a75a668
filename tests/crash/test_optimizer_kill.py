"""Killed in the middle of every kind of action: rows, answers and disk as if it had not been."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random

import lance
import optimizer_steps
import pytest

from due import AT_ONCE, DUE, Due, due_on, targets_of
from freshet.optimizer import Kind
from optimized import OptimizedIndex, settings_of

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]

STEPS = Path(optimizer_steps.__file__)
DURING = "during"
ROWS = {Kind.BUILD: 8_000, Kind.EXTEND: 40_000, Kind.MERGE: 20_000, Kind.RETRAIN: 8_000}
"""So that training, extending and merging a vector index take a third of a second at least."""


@dataclass(frozen=True)
class Moment:
    kind: Kind
    target: str
    when: str

    def __str__(self) -> str:
        return f"{self.kind}-{self.target or 'fragments'}-{self.when}"

    @property
    def due(self) -> Due:
        return next(due for due in DUE if due.kind is self.kind)


def moments() -> Iterator[Moment]:
    """Before, in the middle of and after every action on every target."""
    for due in DUE:
        middle = {Kind.COMPACT: ["written", DURING], Kind.SWEEP: ["deleted"]}
        for target in due.targets:
            for when in ("before", *middle.get(due.kind, [DURING]), "after"):
                yield Moment(due.kind, target, when)


SAMPLE = {"build-vector_idx-during", "compact-fragments-written", "sweep-files-deleted"}


def parameters() -> list[object]:
    return [
        pytest.param(one, id=str(one), marks=[] if str(one) in SAMPLE else pytest.mark.long)
        for one in moments()
    ]


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> dict[Kind, OptimizedIndex]:
    """Those that were made, for the tests that follow to copy."""
    return {}


@pytest.fixture
def ready(
    indexes: dict[Kind, OptimizedIndex], moment: Moment, tmp_path_factory: pytest.TempPathFactory
) -> OptimizedIndex:
    if moment.kind not in indexes:
        folder = tmp_path_factory.mktemp(str(moment.kind))
        indexes[moment.kind] = moment.due.at(folder, ROWS.get(moment.kind, 2_000))
    return indexes[moment.kind]


def killed(index: OptimizedIndex, folder: Path, moment: Moment, when: str) -> bool:
    """Runs an optimizer that is to die; False if it was done before it could."""
    told = folder / "settings.json"
    told.write_text(json.dumps(dict(moment.due.settings)))
    at = f"{moment.kind}:{moment.target}:{when}"
    done = subprocess.run(
        [sys.executable, str(STEPS), str(folder), str(told), at], capture_output=True, check=False
    )
    if done.returncode == optimizer_steps.NEVER_STRUCK and moment.when == DURING:
        return False
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    return True


def steps(folder: Path) -> list[str]:
    return (folder / "steps.log").read_text().splitlines()


def time_taken(ready: OptimizedIndex, folder: Path, moment: Moment) -> float:
    """How long the action takes if nobody kills it, on a copy."""
    whole = ready.copied(folder / "whole", **moment.due.settings)
    done = whole.optimizing().run().done
    return next(one.seconds for one in done if one.action == moment.kind
                and moment.target in {"", one.target})  # fmt: skip


def killed_during(ready: OptimizedIndex, folder: Path, moment: Moment) -> OptimizedIndex:
    seconds = time_taken(ready, folder, moment)
    if moment.kind in ROWS and moment.target == "vector_idx":
        assert seconds > 0.3, "too short to be killed in"
    chooser = Random(str(moment))
    for attempt in range(8):
        place = folder / str(attempt)
        index = ready.copied(place, **moment.due.settings)
        delay = chooser.uniform(0, seconds)
        if killed(index, place, moment, f"{delay:.4f}"):
            last = steps(place)[-1]
            if last.startswith(f"before:{moment.kind}:{moment.target}"):
                return index
        seconds *= 0.7
    raise AssertionError("it was never struck in the middle")


@pytest.mark.parametrize("moment", parameters())
def test_nothing_is_lost_nothing_is_left_and_the_next_run_goes_on(
    moment: Moment, ready: OptimizedIndex, tmp_path: Path
) -> None:
    if moment.when == DURING:
        index = killed_during(ready, tmp_path, moment)
    else:
        index = ready.copied(tmp_path, **moment.due.settings)
        assert killed(index, tmp_path, moment, moment.when)
    assert index.problems() == []
    is_done = (moment.kind, moment.target) not in targets_of(due_on(index))
    if moment.when != DURING:
        assert is_done == (moment.when == "after")
    report = index.optimizing().run()
    assert report.busy is None, "the lock of the dead one holds"
    assert not report.is_failed
    assert due_on(index).actions == ()
    assert index.problems() == []
    only = reduced_to_one_version(index)
    assert only.files() == named_by_the_only_version(only)
    assert only.problems() == []


def reduced_to_one_version(index: OptimizedIndex) -> OptimizedIndex:
    """The same index after a batch that changes nothing and runs that keep nothing they may not."""
    folder = Path(index.settings.home.root).parent
    settings = settings_of(folder, retention=AT_ONCE, orphan_age=AT_ONCE)
    writer = OptimizedIndex(settings, index.model, index.versions, index.batches)
    writer.write((), ())
    for _ in range(3):
        assert not writer.optimizing().run().is_failed
    return writer


def named_by_the_only_version(index: OptimizedIndex) -> set[str]:
    """By what Lance says of it, and by nothing of ours."""
    dataset = lance.dataset(index.uri)
    (known,) = dataset.versions()
    found = dataset.explain_cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert found.stats.bytes_removed == 0
    fragments = dataset.get_fragments()
    parts = tuple(
        f"_indices/{part.uuid}/" for one in dataset.describe_indices() for part in one.segments
    )
    made_by = dataset.read_transaction(known["version"])
    return {
        *(f"data/{file.path}" for fragment in fragments for file in fragment.metadata.files),
        *(path for fragment in fragments if (path := fragment.deletion_file()) is not None),
        *(path for path in index.files() if path.startswith(parts)),
        f"_transactions/{made_by.read_version}-{made_by.uuid}.txn",
        f"_versions/{2**64 - 1 - known['version']}.manifest",
        "_versions/latest_version_hint.json",
    }
