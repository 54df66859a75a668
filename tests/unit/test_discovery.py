"""Which files are new: by path, never by date, and never twice."""

import os
from datetime import UTC, datetime
from pathlib import Path

from freshet.landing.discovery import Discovery, backlog, files_table
from freshet.landing.source import NumberedFile, spread

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def discovery(tmp_path: Path) -> Discovery:
    return Discovery(str(tmp_path / "landing"), str(tmp_path / "files"), clock=lambda: NOW)


def land(tmp_path: Path, name: str, modified: int = 1_700_000_000) -> Path:
    file = tmp_path / "landing" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{}\n")
    os.utime(file, (modified, modified))
    return file


def known(tmp_path: Path) -> dict[str, int]:
    rows = files_table(str(tmp_path / "files")).read(["seq", "path"])
    return {Path(row["path"]).name: row["seq"] for row in rows}


def test_files_are_numbered_by_age_and_then_by_name(tmp_path: Path) -> None:
    land(tmp_path, "b.json", 2_000)
    land(tmp_path, "c.json", 1_000)
    land(tmp_path, "a.json", 2_000)
    assert discovery(tmp_path).discover() == 3
    assert known(tmp_path) == {"c.json": 0, "a.json": 1, "b.json": 2}


def test_a_late_file_with_an_old_date_is_found(tmp_path: Path) -> None:
    land(tmp_path, "new.json", 2_000_000_000)
    found = discovery(tmp_path)
    found.discover()
    land(tmp_path, "old.json", 1_000)
    assert found.discover() == 2
    assert known(tmp_path) == {"new.json": 0, "old.json": 1}


def test_a_restart_finds_nothing_twice(tmp_path: Path) -> None:
    land(tmp_path, "a.json")
    assert discovery(tmp_path).discover() == 1
    assert discovery(tmp_path).discover() == 1
    land(tmp_path, "b.json")
    assert discovery(tmp_path).discover() == 2
    assert known(tmp_path) == {"a.json": 0, "b.json": 1}


def test_a_file_that_is_moved_away_and_back_is_still_known(tmp_path: Path) -> None:
    file = land(tmp_path, "a.json")
    found = discovery(tmp_path)
    found.discover()
    file.unlink()
    land(tmp_path, "b.json")
    found.discover()
    land(tmp_path, "a.json")
    assert found.discover() == 2
    assert known(tmp_path) == {"a.json": 0, "b.json": 1}


def test_names_with_a_dot_or_an_underscore_are_not_ready(tmp_path: Path) -> None:
    for name in (".a.json", "_a.json", "_tmp/b.json", "day=1/.c.json", "day=1/d.json"):
        land(tmp_path, name)
    discovery(tmp_path).discover()
    assert list(known(tmp_path)) == ["d.json"]


def test_an_idle_landing_zone_writes_nothing(tmp_path: Path) -> None:
    land(tmp_path, "a.json")
    found = discovery(tmp_path)
    found.discover()
    log = tmp_path / "files" / "_delta_log"
    before = sorted(log.iterdir())
    found.discover()
    assert sorted(log.iterdir()) == before


def test_the_backlog_counts_what_no_batch_has_read(tmp_path: Path) -> None:
    land(tmp_path, "a.json")
    land(tmp_path, "b.json")
    discovery(tmp_path).discover()
    land(tmp_path, "c.json")
    counted = backlog(str(tmp_path / "landing"), str(tmp_path / "files"), read_up_to=1)
    assert (counted.seen, counted.waiting) == (2, 2)


def test_tasks_get_like_shares_and_every_file_once() -> None:
    files = [NumberedFile(seq, f"f{seq}", size, NOW) for seq, size in enumerate([9, 1, 1, 8, 1])]
    groups = spread(files, 2)
    assert sorted(file.seq for group in groups for file in group) == [0, 1, 2, 3, 4]
    assert sorted(sum(file.size for file in group) for group in groups) == [10, 10]
    assert spread(files[:1], 8) == [[files[0]]]
    assert spread([], 8) == []
