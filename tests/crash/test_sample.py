"""A sample of `make crash` and `make soak`: real kills in the modes that the pipeline has not."""

from pathlib import Path

import pytest
from kills import Cell, Chain, Kill, Left
from soak import Soak

from freshet.sink import Step
from freshet.testing import Driver, NotKilledError
from freshet.testing.processes import left_over

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]


@pytest.mark.parametrize("mode", ["append", pytest.param("complete", marks=pytest.mark.long)])
def test_killed_after_its_commit_the_batch_is_recovered_and_every_row_is_there_once(
    tmp_path: Path, mode: str
) -> None:
    reported: list[Cell] = []
    chain = Chain(mode, tmp_path, [Kill("after", Step.COMMIT, Left.LANDED)], reported.append)
    killed, closing = chain.run()
    assert killed.problems == []
    assert (killed.left, killed.healed) == (Left.LANDED, "recovered")
    assert closing.problems == []
    assert reported == [killed, closing]
    assert not left_over(tmp_path)


@pytest.mark.long
def test_killed_at_random_while_an_optimizer_works_nothing_is_lost_or_doubled(
    tmp_path: Path,
) -> None:
    lines: list[str] = []
    soak = Soak("update", tmp_path, seed=7, is_over=lambda kills, _: kills >= 2)
    soak.run(lines.append)
    assert soak.problems == []
    assert sum(soak.struck.values()) == 2
    assert len(lines) == 5


def test_a_process_that_ends_by_itself_does_not_pass_for_a_killed_one(tmp_path: Path) -> None:
    with pytest.raises(NotKilledError, match="ended with 0"):
        Driver.start(tmp_path, "true").killed()
    ended = Driver.start(tmp_path, "true")
    assert ended.finished() == 0
    with pytest.raises(NotKilledError, match="ended before it could be killed"):
        ended.kill()
    with pytest.raises(NotKilledError, match="nothing ended it"):
        Driver.start(tmp_path, "sleep", "60").killed(timeout_s=1)
    assert not left_over(tmp_path)
