"""Tombstones: how long a delete is remembered, and the floor that is for all keys."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from freshet.sink.tombstones import Tombstones, buried

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def test_a_tombstone_is_forgotten_after_its_retention(tmp_path: Path) -> None:
    table = str(tmp_path / "docs.lance")
    Tombstones.beside(table, 30 * DAY).bury({"old": "1", "both": "1"}, NOW - 40 * DAY)
    Tombstones.beside(table, 30 * DAY).bury({"both": "2", "young": "3"}, NOW)
    uri = Tombstones.beside(table).uri
    assert buried(uri, ["old", "both", "young"]) == {"both": "2", "young": "3"}


def test_without_a_retention_nothing_is_forgotten(tmp_path: Path) -> None:
    table = str(tmp_path / "docs.lance")
    Tombstones.beside(table).bury({"old": "1"}, NOW - 4_000 * DAY)
    Tombstones.beside(table).bury({"young": "2"}, NOW)
    assert buried(Tombstones.beside(table).uri, ["old", "young"]) == {"old": "1", "young": "2"}


def test_the_floor_only_rises_and_is_never_forgotten(tmp_path: Path) -> None:
    table = str(tmp_path / "docs.lance")
    assert Tombstones.beside(table).floor() == ""
    first = Tombstones.beside(table, DAY)
    first.bury({}, NOW - 50 * DAY, floor="P015")
    first.bury({"a": "P017"}, NOW, floor="P013")
    assert first.floor() == "P015"
    later = Tombstones.beside(table, DAY)
    later.bury({"b": "P018"}, NOW)
    assert Tombstones.beside(table).floor() == "P015"
    assert buried(later.uri, ["a", "b", "c"]) == {"a": "P017", "b": "P018"}
