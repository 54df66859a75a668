"""A sample of `make optimizer-soak`: a writer, and an optimizer beside it that never rests."""

from pathlib import Path

import pytest
from optimizer_and_writer import EXCLUSIVE, OPTIMISTIC, Soak

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]


@pytest.mark.parametrize("coordination", [OPTIMISTIC, EXCLUSIVE])
def test_every_batch_lands_once_and_every_row_is_found(tmp_path: Path, coordination: str) -> None:
    soak = Soak(tmp_path, coordination, seed=1, seconds=5).run()
    told = "\n".join(soak.lines())
    assert soak.problems == [], told
    assert len(soak.reports) > 20, told
    done = {done.action for done in soak.actions() if done.status == "done"}
    assert {"build", "extend", "compact", "clean"} <= done, told
    if coordination == EXCLUSIVE:
        assert (soak.conflicts, soak.lost) == (0, []), told
