"""The decision record: what can be promised follows from what was timed."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from freshet.monitor.freshness import Freshness, Timed
from freshet.monitor.sla import Contract, Feed, Floor, Record, Rhythm, Source, Work, contract
from freshet.monitor.sla_text import markdown
from freshet.monitor.ways import Way
from freshet.settings import SloSettings

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
RHYTHM = Rhythm(trigger_s=10.0, bronze_s=1.0, settle_s=1.0, discovery="listing")
SOURCE = Source("searchable", "/home/ledger", "version 7, 40 batches")


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def way(number: int, *, looked: float = 4.0, ingest: float = 1.0, index: float = 3.0) -> Way:
    """A file every 20 seconds: so long until it was found, was in Bronze, could be searched."""
    landed = 20.0 * number
    return Way(
        seq=number,
        bytes=1_000 + number,
        landed_at=at(landed),
        discovered_at=at(landed + looked),
        bronze_at=at(landed + looked + ingest),
        searchable_at=at(landed + looked + ingest + index),
    )


def rows(count: int = 40, total_s: float = 2.0, embed_s: float = 0.5) -> list[dict[str, Any]]:
    return [{"total_s": total_s, "embed_s": embed_s, "rows_in": 30}] * count


def made(
    *ways: Way, rhythm: Rhythm = RHYTHM, work: Work | None = None, share: int = 95
) -> tuple[Contract, Record]:
    timed = Timed(at(0), at(3_600), ways)
    found = Freshness.of(timed, SloSettings(landed_to_searchable="1 minute"))
    work = work or Work.of(rows(len(ways)))
    built = contract(timed, found, rhythm, work, share)
    assert built is not None
    return built, Record("docs", at(3_600), found, rhythm, work, (SOURCE,), built)


def test_the_cadence_is_that_of_the_landings() -> None:
    ways = [way(number) for number in (3, 1, 2, 10)]
    feed = Feed.of(ways, events_per_file=30.0)
    assert feed.gap is not None
    assert (feed.files, feed.gap.p50_s, feed.gap.max_s) == (4, 20.0, 140.0)
    assert (feed.bytes_p50, feed.bytes_p95) == (1_002, 1_010)
    assert Feed.of([way(1)], 1.0).gap is None


def test_the_shares_are_of_the_mean_and_add_up() -> None:
    built, _ = made(*(way(number) for number in range(30)))
    assert built.shares == {
        "landed_to_discovered": pytest.approx(0.5),
        "discovered_to_bronze": pytest.approx(0.125),
        "bronze_to_searchable": pytest.approx(0.375),
    }


def test_the_floor_is_looks_settling_and_the_batches_own_time() -> None:
    floor = Floor.of(RHYTHM, ingest_s=1.0, index_s=2.0)
    assert (floor.least_s, floor.most_s) == (4.0, 15.0)
    remote = Floor.of(Rhythm(10.0, 2.5, 0.0, "notification"), ingest_s=1.0, index_s=2.0)
    assert (remote.least_s, remote.most_s) == (3.0, 15.5)
    assert not any("settle" in part.what for part in remote.parts)


def test_a_promise_has_a_margin_and_is_not_below_the_floor() -> None:
    quick, _ = made(*(way(number) for number in range(100)))
    assert [(one.percentile, one.found_s, one.within) for one in quick.promises] == [
        (95, 8.0, "15 seconds"),
        (99, 8.0, "15 seconds"),
    ]
    slow, _ = made(*(way(number, index=35.0) for number in range(100)))
    assert [one.within for one in slow.promises] == ["50 seconds", "50 seconds"]


def test_of_few_files_nothing_is_promised() -> None:
    few, _ = made(*(way(number) for number in range(19)))
    assert [one.within for one in few.promises] == [None, None]
    some, _ = made(*(way(number) for number in range(20)))
    assert [one.within for one in some.promises] == ["15 seconds", None]
    median, _ = made(*(way(number) for number in range(10)), share=50)
    assert [(one.percentile, one.within) for one in median.promises] == [
        (50, "15 seconds"),
        (99, None),
    ]


def test_a_shorter_trigger_is_advised_where_batches_leave_room_for_it() -> None:
    built, _ = made(*(way(number) for number in range(30)))
    assert built.better[0].startswith('`pipeline.trigger = "3 seconds"`')
    assert "7.3 s instead of 15.0 s" in built.better[0]
    full = Work.of(rows(30, total_s=9.0))
    tight, _ = made(*(way(number, index=10.0) for number in range(30)), work=full)
    assert not any("trigger =" in sentence for sentence in tight.better)


def test_what_is_advised_is_what_takes_the_time() -> None:
    rare, _ = made(*(way(number, looked=600.0) for number in range(30)))
    assert len(rare.better) == 1
    assert "589.0 s longer than settling and the trigger explain" in rare.better[0]
    heavy = Work.of(rows(30, total_s=9.0, embed_s=8.0))
    model, _ = made(*(way(number, index=10.0) for number in range(30)), work=heavy)
    assert model.better[0].startswith("Embedding takes 8.0 s of a batch")
    behind, _ = made(*(way(number, index=300.0) for number in range(30)))
    assert "297.0 s longer in Bronze" in behind.better[0]
    busy = Work.of(rows(30, total_s=9.0, embed_s=0.5))
    plain, told = made(*(way(number, index=10.0) for number in range(30)), work=busy)
    assert plain.better == ()
    assert "No single cause stands out" in markdown(told)


def test_the_text_says_the_figures_of_the_record() -> None:
    built, told = made(*(way(number) for number in range(30)))
    text = markdown(told)
    assert "30 change files, 900 events in 30 batches" in text
    assert "A file every 20.0 s (median; 95 % of the gaps are at most 20.0 s" in text
    assert "| landed → discovered | 30 | 4.00 s | 4.00 s | 4.00 s | 50 % |" in text
    assert "| **together** | **4.00 s** | **15.0 s** |" in text
    assert "**95 % of the change files are searchable within 15 seconds of their landing**" in text
    assert "99 %: no promise, of so few files (p99 was 8.00 s)" in text
    assert "landed_to_searchable met: p95 8.0 s; target 60.0 s" in text
    assert all(sentence in text for sentence in built.better)
    assert "| searchable | `/home/ledger` | version 7, 40 batches |" in text
    assert re.findall(r"^#+ (.+)$", text, re.MULTILINE) == [
        "Freshness of `docs`: what can be promised",
        "Context",
        "The feed's cadence",
        "Where the time goes",
        "The floor",
        "The contract",
        "What would make it better",
        "Evidence",
    ]
    other = markdown(made(*(way(number, looked=5.0) for number in range(30)))[1])
    assert other != text
    assert "| landed → discovered | 30 | 5.00 s |" in other


def test_where_nothing_was_timed_nothing_is_promised() -> None:
    timed = Timed(at(0), at(3_600))
    found = Freshness.of(timed, SloSettings())
    work = Work.of([])
    assert contract(timed, found, RHYTHM, work, 95) is None
    text = markdown(Record("docs", at(0), found, RHYTHM, work, (SOURCE,), None))
    assert "Nothing can be promised" in text
    assert "searchable within" not in text


def test_the_form_for_scripts_has_the_floors_ends() -> None:
    _, told = made(*(way(number) for number in range(30)))
    plain = told.as_dict()
    assert plain["contract"]["floor"]["least_s"] == 4.0
    assert plain["contract"]["floor"]["most_s"] == 15.0
    assert plain["freshness"]["stages"]["landed_to_searchable"]["p95_s"] == 8.0
