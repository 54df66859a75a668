"""Which version a search as of then means, and what it says where that one is gone."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from freshet.clock import utc_now
from freshet.errors import (
    AsOfError,
    ModelMismatchError,
    SearchError,
    TableMissingError,
    VersionMissingError,
)
from freshet.search import as_of_from
from freshet.search.as_of import version_as_of
from freshet.stores.lance_search import SearchableTable, Version
from freshet.stores.lance_tables import LanceTable
from indexes import SmallIndex

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def after(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def kept(*numbers: int) -> list[Version]:
    """Version n is committed n minutes after noon."""
    return [Version(number, after(number)) for number in numbers]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("12", 12),
        (" 12 ", 12),
        ("2026-11-16T12:00:00Z", NOON),
        ("2026-11-16 12:00", NOON),
        ("2026-11-16T13:00+01:00", NOON),
        ("2026-11-16", NOON - timedelta(hours=12)),
        ("10 minutes ago", NOON - timedelta(minutes=10)),
        ("1 second ago", NOON - timedelta(seconds=1)),
        ("2 days ago", NOON - timedelta(days=2)),
    ],
)
def test_what_people_write_is_understood(text: str, meant: int | datetime) -> None:
    assert as_of_from(text, NOON) == meant


@pytest.mark.parametrize(
    "text",
    [
        *("", "-1", "1.5", "yesterday", "10 minutes", "ago", "10 fortnights ago", "12:00"),
        *("2026-13-01", "999999999999 days ago", "99999999999999999999 days ago"),
    ],
)
def test_what_is_not_understood_is_said_with_examples(text: str) -> None:
    with pytest.raises(SearchError, match="is neither a version, such as 12, nor a moment"):
        as_of_from(text, NOON)


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        (after(3), 3),
        (after(3.5), 3),
        (after(4.99), 4),
        (after(5), 5),
        (after(60), 5),
        (after(3).replace(tzinfo=None), 3),
        (after(3).astimezone(timezone(timedelta(hours=-5))), 3),
    ],
)
def test_a_moment_means_the_newest_version_at_or_before_it(moment: datetime, number: int) -> None:
    assert version_as_of(moment, kept(3, 4, 5), after(60)) == number


def test_of_clocks_that_differ_the_newest_version_counts() -> None:
    versions = [Version(1, after(1)), Version(2, after(5)), Version(3, after(4))]
    assert version_as_of(after(4.5), versions, after(9)) == 3


@pytest.mark.parametrize(
    ("as_of", "problem"),
    [
        (1, "version 1 of the index was cleaned away"),
        (5, "version 5 of the index was cleaned away"),
        (10, "version 10 of the index has never been"),
        (0, "version 0 of the index has never been"),
        (after(2.9), "the index of 2026-11-16 12:02:54 UTC was cleaned away since"),
        (after(61), "2026-11-16 13:01:00 UTC is in the future"),
        (after(4), "12:04:00 UTC cannot be told: it was of version 4 or later, and those up to"),
        (after(6.5), "cannot be told: .* up to version 7 were cleaned away"),
    ],
)
def test_what_is_not_kept_is_an_error_that_says_what_is(
    as_of: int | datetime, problem: str
) -> None:
    told = r"Kept are 5 versions, 3 \(2026-11-16 12:03:00 UTC\) to 9 \(2026-11-16 12:09:00 UTC\); "
    with pytest.raises(AsOfError, match=f"{problem}.*{told}the setting optimizer.retention"):
        version_as_of(as_of, kept(3, 4, 7, 8, 9), after(60))


def test_before_the_first_version_there_was_no_index() -> None:
    with pytest.raises(AsOfError, match="had not been made yet"):
        version_as_of(after(0), kept(1, 2), after(60))


@pytest.fixture
def index(tmp_path: Path) -> SmallIndex:
    return SmallIndex(str(tmp_path / "i.lance"))


def test_the_answer_is_exactly_that_of_the_version(index: SmallIndex) -> None:
    first = index.add({"a": "red apples", "b": "green pears"})
    at_first = utc_now()
    index.delete("a")
    second = index.add({"c": "red apples and pears"})
    index.make_indexes()
    searcher = index.searcher()
    for mode in ("vector", "text", "hybrid"):
        before = searcher.search("red apples", k=5, mode=mode, as_of=first)
        assert "a" in {hit.key for hit in before}
        assert "c" not in {hit.key for hit in before}
        assert searcher.search("red apples", k=5, mode=mode, as_of=at_first) == before
        now = searcher.search("red apples", k=5, mode=mode, as_of=second)
        assert "a" not in {hit.key for hit in now}
        assert now[0].key == "c"
        again = searcher.search("red apples", k=5, mode=mode)
        assert [hit.key for hit in now] == [hit.key for hit in again]


def test_a_version_that_was_cleaned_away_is_not_a_missing_table(index: SmallIndex) -> None:
    versions = [index.add({key: "text"}) for key in "abc"]
    searcher = index.searcher()
    assert len(searcher.search("text", k=9, as_of=versions[0])) == 1
    index.clean(versions[:1])
    with pytest.raises(AsOfError, match=f"version {versions[0]} of the index was cleaned away"):
        searcher.search("text", k=9, as_of=versions[0])
    assert len(searcher.search("text", k=9, as_of=versions[1])) == 2
    with pytest.raises(VersionMissingError, match=f"open version {versions[0]} of"):
        LanceTable.open(index.uri, version=versions[0])
    with pytest.raises(TableMissingError):
        LanceTable.open(f"{index.uri}-none", version=1)
    with pytest.raises(TableMissingError, match="there is no index"):
        index.searcher(uri=f"{index.uri}-none").search("text", k=1, as_of=1)


def test_the_model_of_the_version_that_is_asked_counts(index: SmallIndex) -> None:
    old = index.add({"a": "red apples"})
    index.become_of_another_model("other/model")
    searcher = index.searcher()
    assert [hit.key for hit in searcher.search("apples", k=1, as_of=old)] == ["a"]
    with pytest.raises(ModelMismatchError, match="built with model other/model"):
        searcher.search("apples", k=1)
    with pytest.raises(ModelMismatchError, match="built with model fake/words-32"):
        index.searcher(model_id="other/model").search("apples", k=1, mode="hybrid", as_of=old)
    # Words can be compared whatever the model.
    assert [hit.key for hit in searcher.search("apples", k=1, mode="text")] == ["a"]


@pytest.fixture
def _in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_in_new_york")
def test_versions_tell_utc_wherever_the_machine_is(index: SmallIndex) -> None:
    before = utc_now()
    number = index.add({"a": "text"})
    newest = SearchableTable.open(index.uri).versions()[-1]
    assert newest.number == number
    assert before <= newest.committed_at <= utc_now()
    assert newest.committed_at.tzinfo is UTC
    with pytest.raises(AsOfError, match=re.escape("had not been made yet")):
        index.searcher().search("text", k=1, as_of=before - timedelta(minutes=1))
