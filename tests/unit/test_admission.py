"""Which files a batch takes, and when the files table is asked for them."""

from pathlib import Path

import pytest

from freshet.landing.admission import Admission
from freshet.landing.files import FilesTable, KnownFile
from freshet.landing.options import LandingOptions
from landings import NOW


def file(seq: int) -> KnownFile:
    return KnownFile(
        seq=seq,
        path=f"/in/{seq}.json",
        size=10,
        modified_at=NOW,
        etag=None,
        discovered_at=NOW,
        how="listing",
    )


@pytest.fixture
def table(tmp_path: Path) -> FilesTable:
    return FilesTable(str(tmp_path / "files"))


def admission(tmp_path: Path, most: str | None = None) -> Admission:
    state = str(tmp_path / "files")
    return Admission(LandingOptions(path="/in", state=state, max_bytes_per_trigger=most))


@pytest.mark.parametrize("most", [None, 2, 5])
@pytest.mark.parametrize("start", [3, 4])
def test_files_that_were_found_right_now_are_taken_as_the_table_would_tell_them(
    tmp_path: Path, table: FilesTable, most: int | None, start: int
) -> None:
    new = [file(seq) for seq in range(3, 8)]
    table.append(new)
    told, asked = admission(tmp_path, "35 B"), admission(tmp_path, "35 B")
    end = told.end(start, 8, most, new)
    assert end == asked.end(start, 8, most, [])
    assert told.files(start, end) == asked.files(start, end) != []


def test_a_batch_of_new_files_alone_reads_no_table(
    tmp_path: Path, table: FilesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.append([file(0)])
    batches = admission(tmp_path)
    assert batches.end(0, 1, None, [file(0)]) == 1

    def read(*_: object) -> list[KnownFile]:
        raise AssertionError("the table was read")

    monkeypatch.setattr(FilesTable, "between", read)
    assert batches.end(1, 3, 10, [file(1), file(2)]) == 3
    assert [one.seq for one in batches.files(1, 3)] == [1, 2]


def test_files_that_waited_before_come_first_though_others_are_new(
    tmp_path: Path, table: FilesTable
) -> None:
    table.append([file(seq) for seq in range(5)])
    batches = admission(tmp_path)
    assert batches.end(0, 5, 3, [file(3), file(4)]) == 3
    assert [one.seq for one in batches.files(0, 3)] == [0, 1, 2]
