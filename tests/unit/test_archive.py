"""Files are moved away after their batch is committed, in their time, and never a changed one."""

from datetime import timedelta
from pathlib import Path

import pytest

from freshet.landing.archive import Archive
from freshet.landing.files import READ, FilesHistory, Step
from freshet.landing.options import LandingOptions
from freshet.landing.report import files
from landings import NOW, LandingZone


@pytest.fixture
def zone(tmp_path: Path) -> LandingZone:
    made = LandingZone(tmp_path)
    for number, name in enumerate(("a.json", "x/b.json", "c.json")):
        made.land(name, 1_000 + number)
    made.discovery().discover()
    return made


def archiving(zone: LandingZone, **options: str) -> LandingOptions:
    chosen = {"after_read": "archive", "retention": "1 hour"} | options
    return zone.options(archive_path=str(zone.folder / "archive"), **chosen)


def archive(options: LandingOptions, *read: Step) -> Archive:
    made = Archive(options, FilesHistory(options.state))
    for step in read:
        made.read_up_to(step)
    return made


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


READ_TWO = Step(READ, 0, 2, 0, NOW)
LATER = NOW + timedelta(hours=2)


def test_only_files_of_committed_batches_are_archived(zone: LandingZone) -> None:
    options = archiving(zone)
    archive(options, READ_TWO).step(LATER)
    assert tree(zone.folder / "archive") == ["a.json", "x/b.json"]
    assert tree(zone.path) == ["c.json"]
    states = {file.seq: file.state for file in files(options, 2, ())}
    assert states == {0: "archived", 1: "archived", 2: "waiting"}


def test_nothing_is_archived_before_its_retention_is_over(zone: LandingZone) -> None:
    moving = archive(archiving(zone), READ_TWO)
    moving.step(NOW + timedelta(minutes=59))
    assert tree(zone.path) == ["a.json", "c.json", "x/b.json"]
    moving.step(NOW + timedelta(minutes=61))
    assert tree(zone.path) == ["c.json"]


def test_files_can_be_deleted_instead(zone: LandingZone) -> None:
    options = archiving(zone, after_read="delete")
    archive(options, READ_TWO).step(LATER)
    assert tree(zone.path) == ["c.json"]
    assert [file.state for file in files(options, 2, ("deleted",))] == ["deleted", "deleted"]


def test_files_stay_unless_asked(zone: LandingZone) -> None:
    archive(zone.options(), READ_TWO).step(LATER)
    assert tree(zone.path) == ["a.json", "c.json", "x/b.json"]


def test_a_file_that_changed_since_it_was_read_stays_where_it_is(zone: LandingZone) -> None:
    zone.land("a.json", 5_000, "{}\n{}\n")
    archive(archiving(zone), READ_TWO).step(LATER)
    assert tree(zone.folder / "archive") == ["x/b.json"]
    assert "a.json" in tree(zone.path)


def test_a_restart_goes_on_where_the_history_ends(zone: LandingZone) -> None:
    options = archiving(zone)
    FilesHistory(options.state).append(READ_TWO)
    archive(options).step(LATER)
    assert tree(zone.path) == ["c.json"]
    read_three = Step(READ, 2, 3, 1, NOW)
    again = archive(options, read_three)
    again.step(LATER)
    assert tree(zone.folder / "archive") == ["a.json", "c.json", "x/b.json"]


def test_versions_of_one_path_do_not_overwrite_each_other_in_the_archive(zone: LandingZone) -> None:
    options = archiving(zone, overwrites="reread")
    archive(options, READ_TWO).step(LATER)
    zone.land("a.json", 9_000, "{}\n{}\n")
    zone.discovery(overwrites="reread").discover()
    archive(options, Step(READ, 2, 4, 1, NOW)).step(LATER)
    assert tree(zone.folder / "archive") == ["a.json.0", "a.json.3", "c.json.2", "x/b.json.1"]


def test_a_file_whose_name_comes_back_after_archiving_is_known(zone: LandingZone) -> None:
    options = archiving(zone)
    archive(options, READ_TWO).step(LATER)
    zone.land("a.json", 9_000, "{}\n{}\n")
    assert zone.discovery().discover() == 3
