"""The ways of change files, what they come to, and targets: pure."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from threading import Event, Thread

import pytest

from freshet.errors import SettingsError, StoreError
from freshet.monitor.freshness import Freshness, Spread, Timed, Waiting, percentile
from freshet.monitor.slo import Verdict, judge
from freshet.monitor.ways import (
    Arrival,
    Covering,
    IndexBatch,
    Place,
    Stage,
    Way,
    trace,
    unindexed,
)
from freshet.pipeline.slo_watch import SloWatch
from freshet.settings import SloSettings, from_values
from freshet.stores.delta_commits import Bunch, DataCommit

START = datetime(2026, 1, 31, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def arrival(seq: int, landed: float, discovered: float | None = None) -> Arrival:
    return Arrival(seq, 100, at(landed), at(landed + 1 if discovered is None else discovered))


def commit(version: int, time: float, *bunches: Bunch) -> DataCommit:
    return DataCommit(version, at(time), bunches)


def bunch(first: int, last: int, place: int = 0, oldest: float | None = None) -> Bunch:
    return Bunch(first, last, place, 10, 1_000, None if oldest is None else at(oldest))


def batch(time: float, version: int, file: int = -1, table_version: int = 1) -> IndexBatch:
    return IndexBatch(at(time), Place(version, file), table_version)


def way(landed: float, searchable: float, **told: object) -> Way:
    moments = {
        "discovered_at": at(landed + 1),
        "bronze_at": at(landed + 2),
        "searchable_at": at(searchable),
    }
    return Way(seq=0, bytes=1, landed_at=at(landed), **moments | told)  # type: ignore[arg-type]


def timed(*ways: Way, until: float = 1_000, **told: object) -> Timed:
    return Timed(at(0), at(until), ways, **told)  # type: ignore[arg-type]


# --- ways ----------------------------------------------------------------------------------------


def test_every_moment_of_a_way_is_found_where_it_stands() -> None:
    [found] = trace(
        [arrival(7, landed=10, discovered=12)],
        [commit(3, 15, bunch(7, 7, oldest=4))],
        [batch(21, version=4, table_version=9)],
        [Covering(at(30), at(33), version_before=9)],
    )
    assert {stage: found.seconds(stage) for stage in Stage} == {
        "changed_to_landed": 6,
        "landed_to_discovered": 2,
        "discovered_to_bronze": 3,
        "bronze_to_searchable": 6,
        "searchable_to_indexed": 12,
        "landed_to_searchable": 11,
        "changed_to_searchable": 17,
    }


def test_a_large_commit_is_searchable_file_by_file() -> None:
    """Eight data files are a batch: what lies in the ninth is found with the next one."""
    parts = [bunch(0, 0, place=7), bunch(1, 1, place=8), bunch(2, 3, place=9)]
    found = trace(
        [arrival(seq, 0) for seq in range(4)],
        [commit(1, 5, *parts)],
        [batch(10, 1, file=7), batch(20, 1, file=8), batch(30, 2)],
    )
    assert [(one.seq, one.searchable_at) for one in found] == [
        (0, at(10)),
        (1, at(20)),
        (2, at(30)),
        (3, at(30)),
    ]


def test_a_file_is_searchable_when_the_last_of_its_data_files_is() -> None:
    parts = [bunch(0, 1, place=5), bunch(1, 1, place=2)]
    batches = [batch(10, 1, file=2), batch(20, 1, file=5)]
    found = trace([arrival(0, 0), arrival(1, 0)], [commit(1, 5, *parts)], batches)
    assert [one.searchable_at for one in found] == [at(20), at(20)]


def test_what_no_batch_has_reached_has_no_way() -> None:
    reached = commit(1, 5, bunch(0, 0))
    beyond = commit(2, 6, bunch(1, 1))
    files = [arrival(0, 0), arrival(1, 0)]
    assert [one.seq for one in trace(files, [reached, beyond], [batch(9, 2)])] == [0]
    assert list(trace(files, [reached, beyond], [])) == []


def test_a_file_without_records_has_no_way_though_others_around_it_have() -> None:
    commits = [commit(1, 5, bunch(0, 0), bunch(2, 2, place=1)), commit(2, 9, bunch(4, 4))]
    files = [arrival(seq, 0) for seq in range(5)]
    assert [one.seq for one in trace(files, commits, [batch(10, 3)])] == [0, 2, 4]


def test_a_file_that_is_read_again_is_not_timed_again() -> None:
    """A retry brings the number of the first reading, beside those that are new."""
    commits = [commit(1, 5, bunch(0, 3)), commit(2, 50, bunch(1, 5))]
    files = [arrival(seq, 0) for seq in range(6)]
    found = {one.seq: one.bronze_at for one in trace(files, commits, [batch(60, 3)])}
    assert found == {0: at(5), 1: at(5), 2: at(5), 3: at(5), 4: at(50), 5: at(50)}
    later = trace(files, commits[1:], [batch(60, 3)], below=3)
    assert [one.seq for one in later] == [4, 5]


def test_a_batch_that_is_run_anew_does_not_make_things_searchable_later() -> None:
    batches = [batch(10, 2), batch(20, 3), batch(90, 2), batch(99, 3)]
    commits = [commit(1, 5, bunch(0, 0)), commit(2, 15, bunch(1, 1))]
    found = trace([arrival(0, 0), arrival(1, 0)], commits, batches)
    assert [one.searchable_at for one in found] == [at(10), at(20)]


def test_the_oldest_change_of_several_files_is_told_once() -> None:
    """The log tells one for a data file: which of its files it is of, it does not."""
    found = list(
        trace(
            [arrival(seq, 10) for seq in range(3)],
            [commit(1, 15, bunch(0, 2, oldest=3), bunch(1, 1, place=1, oldest=8))],
            [batch(20, 2)],
        )
    )
    assert [one.changed_at for one in found] == [at(3), at(8), None]
    assert found[2].seconds(Stage.CHANGED_TO_SEARCHABLE) is None


def test_an_action_that_began_before_the_batch_does_not_cover_it() -> None:
    coverings = [
        Covering(at(5), at(25), version_before=9),
        Covering(at(30), at(31), version_before=8),
        Covering(at(40), at(44), version_before=9),
    ]
    [found] = trace(
        [arrival(0, 0)], [commit(1, 5, bunch(0, 0))], [batch(20, 2, table_version=9)], coverings
    )
    assert found.indexed_at == at(44)


def test_clocks_that_differ_make_no_stage_shorter_than_no_time() -> None:
    found = way(10, 20, changed_at=at(15))
    assert found.seconds(Stage.CHANGED_TO_LANDED) == 0.0


def test_what_a_batch_has_left_of_a_commit_is_what_waits() -> None:
    whole = commit(4, 5, bunch(0, 0, place=3), bunch(1, 1, place=9))
    assert unindexed(whole, None) == whole
    assert unindexed(whole, Place(4, -1)) == whole
    assert unindexed(whole, Place(4, 3)) == commit(4, 5, bunch(1, 1, place=9))
    assert unindexed(whole, Place(4, 9)) is None
    assert unindexed(whole, Place(5, -1)) is None


# --- figures -------------------------------------------------------------------------------------


def test_a_percentile_is_a_figure_that_was_found() -> None:
    figures = [float(number) for number in range(1, 101)]
    assert [percentile(figures, share) for share in (1, 50, 95, 99, 100)] == [1, 50, 95, 99, 100]
    assert percentile([4.0, 8.0], 95) == 8.0
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(3, 2.0, 3.0, 3.0, 3.0)
    assert Spread.of([]) is None


def test_a_backfill_is_counted_and_spoils_no_figure() -> None:
    found = Freshness.of(
        timed(way(-90_000, 500, is_backfill=True), way(490, 500)),
        SloSettings(landed_to_searchable="1 minute"),
    )
    assert (found.files, found.backfill) == (1, 1)
    assert found.stages["landed_to_searchable"] == Spread(1, 10.0, 10.0, 10.0, 10.0)
    assert "changed_to_landed" not in found.stages
    assert not found.missed


def test_files_from_before_the_first_discovery_are_a_backfill() -> None:
    found = trace(
        [arrival(0, -500), arrival(1, 0), arrival(2, 1)],
        [commit(1, 5, bunch(0, 2))],
        [batch(9, 2)],
        began_at=at(0),
    )
    assert [one.is_backfill for one in found] == [True, True, False]


# --- targets -------------------------------------------------------------------------------------


def test_without_targets_there_is_no_verdict() -> None:
    assert Freshness.of(timed(way(0, 900)), SloSettings()).verdicts == ()


@pytest.mark.parametrize(("slow", "is_missed"), [(1, False), (2, True)])
def test_a_target_is_missed_when_its_percentile_is_above_it(slow: int, is_missed: bool) -> None:
    ways = [way(100, 110)] * (20 - slow) + [way(100, 200)] * slow
    [verdict] = Freshness.of(timed(*ways), SloSettings(landed_to_searchable="10 seconds")).verdicts
    assert verdict.is_missed is is_missed
    assert verdict.found_s == (100.0 if is_missed else 10.0)


def test_a_pipeline_that_stands_still_misses_its_target_though_nothing_ends() -> None:
    waiting = Waiting(files=1, landed_at=at(900))
    slo = SloSettings(landed_to_searchable="1 minute", changed_to_searchable="3 minutes")
    found = Freshness.of(timed(waiting=waiting, until=1_000), slo)
    assert [(one.target, one.found_s, one.waiting_s) for one in found.missed] == [
        ("landed_to_searchable", None, 100.0)
    ]
    later = Freshness.of(timed(waiting=waiting, until=1_081), slo)
    assert len(later.missed) == 2, "what has landed was changed before that"
    told = Waiting(files=1, landed_at=at(900), changed_at=at(700))
    assert len(Freshness.of(timed(waiting=told, until=1_000), slo).missed) == 2


def test_rows_that_wait_for_the_vector_index_count_where_there_is_one() -> None:
    slo = SloSettings(searchable_to_indexed="5 minutes")
    ways = [way(0, 10, indexed_at=at(20)), way(500, 600)]
    [verdict] = Freshness.of(timed(*ways, until=1_000, has_vector_index=True), slo).verdicts
    assert (verdict.found_s, verdict.waiting_s, verdict.is_missed) == (10.0, 400.0, True)
    [verdict] = Freshness.of(timed(*ways, until=1_000), slo).verdicts
    assert (verdict.waiting_s, verdict.is_missed) == (None, False)


def test_a_verdict_says_which_target_and_by_how_much() -> None:
    missed = judge("landed_to_searchable", 60, 95, found_s=75.5, waiting_s=61.0)
    assert missed.sentence == (
        "landed_to_searchable missed by 15.5 s: p95 75.5 s, the oldest waiting for 61.0 s; "
        "target 60.0 s"
    )
    quiet = judge("landed_to_searchable", 60, 95, found_s=None, waiting_s=None)
    assert quiet.sentence == "landed_to_searchable met: nothing in the window; target 60.0 s"


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ({"landed_to_serchable": "1 minute"}, 'did you mean "landed_to_searchable"'),
        ({"landed_to_searchable": "0 seconds"}, "it takes some time"),
        ({"landed_to_searchable": "soon"}, "not of the expected form"),
        ({"percentile": 101}, "slo.percentile"),
        ({"searchable_to_indexed": "1 hour"}, "window must be longer"),
    ],
)
def test_targets_that_cannot_be_judged_are_refused(
    section: dict[str, object], complaint: str
) -> None:
    needed: dict[str, dict[str, object]] = {
        "pipeline": {"name": "docs", "home": "home"},
        "landing": {"path": "landing"},
        "changes": {"key": "id"},
        "gold": {"text": ["title"]},
    }
    with pytest.raises(SettingsError, match=complaint):
        from_values(needed | {"slo": section})


# --- the watch -----------------------------------------------------------------------------------


class Script:
    """Verdicts one after another; an error is raised."""

    def __init__(self, *found: float | Exception) -> None:
        self._found = list(found)

    def __call__(self) -> Sequence[Verdict]:
        one = self._found.pop(0)
        if isinstance(one, Exception):
            raise one
        return [judge("landed_to_searchable", 60, 95, found_s=one, waiting_s=None)]


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.message) for record in caplog.records]


def test_a_missed_target_is_told_once_and_once_that_it_is_met_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watch = SloWatch(Script(10, 70, 80, 90, 50, 40, 70), every_s=1)
    with caplog.at_level(logging.INFO, "freshet"):
        for _ in range(7):
            watch.look()
    assert told(caplog) == [
        ("WARNING", "slo_missed"),
        ("INFO", "slo_met"),
        ("WARNING", "slo_missed"),
    ]
    assert caplog.records[0].__dict__["fields"] == {
        "target": "landed_to_searchable",
        "target_s": 60,
        "percentile": 95,
        "found_s": 70,
        "waiting_s": None,
    }


def test_a_watch_that_cannot_see_says_so_once_and_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = StoreError("read", "ledger", "no way")
    watch = SloWatch(Script(broken, RuntimeError("odd"), 70, broken), every_s=1)
    with caplog.at_level(logging.INFO, "freshet"):
        for _ in range(4):
            watch.look()
    assert told(caplog) == [
        ("WARNING", "slo_not_known"),
        ("WARNING", "slo_missed"),
        ("WARNING", "slo_not_known"),
    ]


def test_a_watch_ends_when_it_is_told_to() -> None:
    looks: list[None] = []
    stop = Event()

    def look() -> Sequence[Verdict]:
        looks.append(None)
        if len(looks) == 3:
            stop.set()
        return ()

    thread = Thread(target=SloWatch(look, every_s=0.001).watch, args=(stop,))
    thread.start()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert len(looks) == 3
