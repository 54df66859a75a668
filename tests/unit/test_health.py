"""How the index fares: looks, what the optimizer's records come to, the picture, old rows."""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from freshet.errors import PlotError
from freshet.layout import Home
from freshet.monitor import (
    ActionStatus,
    ActionTimes,
    History,
    IndexStatus,
    OptimizerStatus,
    ProbeStatus,
    plot,
)
from freshet.monitor.ways import Way
from freshet.optimizer import Done, Kind, Records
from freshet.optimizer.health import Health, HealthRecords
from freshet.optimizer.records import DONE, FAILED, LOST
from freshet.pipeline.monitoring import Monitoring
from freshet.pipeline.optimizing import KEPT_FOR, Optimizing
from freshet.search.probe import Probe
from freshet.settings import Settings
from freshet.stores.lance_shape import (
    FragmentShape,
    IndexShape,
    PartShape,
    TableShape,
    shape_of,
)
from freshet.stores.lance_versions import Version
from indexes import SmallIndex

MakeSettings = Callable[..., Settings]
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
PROBE = Probe(0.97, 1.0, 2.0, 3.0, samples=16, rows=5, version=9)


def ago(**time: float) -> datetime:
    return NOW - timedelta(**time)


def health(at: datetime = NOW, **told: Any) -> Health:
    figures = dict.fromkeys(
        (
            *("version", "rows", "deleted_rows", "fragments", "unindexed_rows"),
            *("index_parts", "versions", "bytes", "manifest_bytes"),
        ),
        1,
    )
    return Health(pipeline="docs", at=at, **figures | told)


def probed(at: datetime, recall: float) -> Health:
    return health(at, query_p50_ms=1.0, query_p95_ms=2.0, query_p99_ms=3.0, recall=recall)


def done(at: datetime = NOW, action: str = Kind.EXTEND, **told: Any) -> Done:
    row = Done(
        pipeline="docs",
        run_id="r",
        action=action,
        target="vector_idx",
        reasons="unindexed_rows=1000>=1000",
        status=DONE,
        rows=1_000,
        seconds=2.0,
        memory_bytes=None,
        version_before=1,
        fragments_before=1,
        bytes_before=1,
        error=None,
        started_at=at,
        finished_at=at,
    )
    return replace(row, **told)


def history(looks: list[Health] | None = None, actions: list[Done] | None = None) -> History:
    return History(
        ago(days=7), NOW, [asdict(look) for look in looks or []], [*map(asdict, actions or [])]
    )


def failed(at: datetime, action: str = Kind.MERGE, **told: Any) -> Done:
    return done(at, action, status=FAILED, error="StoreError: the disk is full", **told)


# --- a look --------------------------------------------------------------------------------------


def test_a_look_tells_what_the_shape_and_the_probe_told() -> None:
    fragments = (FragmentShape(0, 10, 3, 100), FragmentShape(1, 5, 0, 50))
    parts = (PartShape(6, 6, 10), PartShape(4, 4, 10))
    shape = TableShape(
        version=9,
        fragments=fragments,
        indexes=(IndexShape("vector_idx", "vector", "IVF_HNSW_SQ", parts, 2, 1),),
        versions=(Version(8, NOW), Version(9, NOW)),
        bytes=1_000,
        manifest_bytes=77,
    )
    assert Health.of("docs", NOW, shape, PROBE) == Health(
        pipeline="docs",
        at=NOW,
        version=9,
        rows=12,
        deleted_rows=3,
        fragments=2,
        unindexed_rows=2,
        index_parts=2,
        versions=2,
        bytes=1_000,
        manifest_bytes=77,
        query_p50_ms=1.0,
        query_p95_ms=2.0,
        query_p99_ms=3.0,
        recall=0.97,
    )


def test_without_a_vector_index_a_search_compares_all_rows() -> None:
    found = Health.of("docs", NOW, TableShape(1, (FragmentShape(0, 10, 3, 100),)))
    assert (found.unindexed_rows, found.index_parts) == (7, 0)
    assert found.recall is None
    empty = Health.of("docs", NOW, TableShape(1))
    assert (empty.rows, empty.fragments, empty.unindexed_rows, empty.versions) == (0, 0, 0, 0)


def test_the_status_of_an_index_is_what_a_look_at_it_finds(tmp_path: Path) -> None:
    uri = str(tmp_path / "i.lance")
    assert IndexStatus.of(uri, held=3) == IndexStatus(held=3)
    index = SmallIndex(uri)
    index.add({f"k{n}": f"river {n}" for n in range(300)})
    index.make_indexes()
    index.add({"new": "a brook"})
    index.delete("k7")
    status, look = IndexStatus.of(uri), asdict(Health.of("docs", NOW, shape_of(uri)))
    assert (status.rows, status.keys, status.deleted_rows) == (300, 300, 1)
    assert (status.unindexed_rows, status.index_parts) == (1, 1)
    assert {name: look[name] for name in vars(status) if name in look} == {
        name: value for name, value in vars(status).items() if name in look
    }
    assert status.versions == status.version  # nothing was cleaned away
    index.clean([1, 2])
    assert IndexStatus.of(uri).versions == status.versions - 2


def test_looks_come_oldest_first_and_only_of_the_time_asked_for(tmp_path: Path) -> None:
    records = HealthRecords(str(tmp_path / "health"), "docs")
    assert records.latest(NOW) == []
    older, newer = health(ago(hours=2)), probed(ago(hours=1), 0.9)
    for look in (newer, health(ago(days=2)), older, replace(newer, pipeline="other")):
        records.add(look)
    assert records.latest(NOW) == [older, newer]
    assert records.latest(NOW, timedelta(minutes=90)) == [newer]


# --- what the records come to --------------------------------------------------------------------


def test_where_nothing_ever_ran_the_status_is_empty() -> None:
    assert OptimizerStatus.of(history()) == OptimizerStatus()
    assert ProbeStatus.of(history()) is None


def test_the_newest_probe_is_told_though_looks_came_after_it() -> None:
    looks = [probed(ago(hours=3), 0.5), probed(ago(hours=2), 0.9), health(ago(hours=1))]
    assert ProbeStatus.of(history(looks)) == ProbeStatus(ago(hours=2), 1.0, 2.0, 3.0, 0.9)
    assert ProbeStatus.of(history(looks[2:])) is None
    assert OptimizerStatus.of(history(looks)).looked_at == ago(hours=1)


def test_times_are_those_of_what_was_done_within_a_day() -> None:
    status = OptimizerStatus.of(
        history(
            actions=[
                done(ago(days=2), seconds=100.0),
                done(ago(hours=5), seconds=1.0),
                done(ago(hours=4), seconds=9.0),
                done(ago(hours=3), seconds=2.0),
                done(ago(hours=2), Kind.COMPACT, seconds=0.5),
                done(ago(hours=1), Kind.COMPACT, seconds=50.0, status=LOST),
            ]
        )
    )
    assert status.times == {"compact": ActionTimes(1, 0.5, 0.5), "extend": ActionTimes(3, 2.0, 9.0)}
    assert status.last is not None
    assert (status.last.action, status.last.at) == ("compact", ago(hours=2))


def test_what_was_done_long_ago_is_still_the_last_that_was_done() -> None:
    status = OptimizerStatus.of(history(actions=[done(ago(days=3))]))
    assert status.times == {}
    assert status.last == ActionStatus(
        ago(days=3), "extend", "vector_idx", 2.0, "unindexed_rows=1000>=1000"
    )


def test_lost_races_are_counted_with_the_time_that_they_cost() -> None:
    lost = [
        done(ago(hours=hours), Kind.COMPACT, status=LOST, seconds=1.5) for hours in (30, 3, 2, 1)
    ]
    status = OptimizerStatus.of(history(actions=lost))
    assert (status.lost, status.wasted_s) == (3, 4.5)
    assert status.last is None
    assert status.failure is None


def test_a_failure_is_told_until_the_same_thing_was_done() -> None:
    broken = failed(ago(hours=5))
    others = [
        done(ago(hours=4), Kind.MERGE, target="text_idx"),
        done(ago(hours=3), Kind.EXTEND),
        done(ago(hours=2), Kind.MERGE, status=LOST),
    ]
    told = OptimizerStatus.of(history(actions=[broken, *others])).failure
    assert told is not None
    assert (told.at, told.error) == (ago(hours=5), "StoreError: the disk is full")
    mended = done(ago(hours=1), Kind.MERGE)
    assert OptimizerStatus.of(history(actions=[broken, *others, mended])).failure is None


def test_of_several_failures_the_newest_that_is_not_mended_is_told() -> None:
    older = failed(ago(hours=5), target="text_idx")
    first, again = failed(ago(hours=6)), failed(ago(hours=4))
    newest = OptimizerStatus.of(history(actions=[first, older, again])).failure
    assert newest is not None
    assert newest.at == ago(hours=4)
    mended = done(ago(hours=3), Kind.MERGE)
    left = OptimizerStatus.of(history(actions=[first, older, again, mended])).failure
    assert left is not None
    assert left.target == "text_idx"


def test_a_compaction_of_other_fragments_mends_one_that_failed() -> None:
    broken = failed(ago(hours=2), Kind.COMPACT, target="16 fragments")
    mended = done(ago(hours=1), Kind.COMPACT, target="9 fragments")
    assert OptimizerStatus.of(history(actions=[broken, mended])).failure is None


def test_what_the_last_day_does_not_tell_the_week_does(tmp_path: Path) -> None:
    home = Home(str(tmp_path), "docs")
    monitoring = Monitoring(home, lambda: NOW)
    assert monitoring.newest().is_empty
    Records(home.optimizer, "docs").add(done(ago(days=3)))
    HealthRecords(home.health, "docs").add(probed(ago(days=3), 0.9))
    found = monitoring.newest()
    assert ProbeStatus.of(found) is not None
    assert OptimizerStatus.of(found).last is not None
    HealthRecords(home.health, "docs").add(health(ago(hours=1)))
    found = monitoring.newest()
    assert [look["at"] for look in found.looks] == [ago(hours=1)]
    assert [action["finished_at"] for action in found.actions] == [ago(days=3)]


# --- the picture ---------------------------------------------------------------------------------


def size_of(picture: bytes) -> tuple[int, ...]:
    from matplotlib.image import imread

    return tuple(imread(BytesIO(picture), format="png").shape)


BATCH: Mapping[str, Any] = {
    "finished_at": ago(hours=1),
    "total_s": 3.0,
    "commit_s": 0.1,
    "error": None,
}

WAY = Way(
    seq=0,
    bytes=10,
    landed_at=ago(hours=2),
    discovered_at=ago(hours=1.9),
    bronze_at=ago(hours=1.8),
    searchable_at=ago(hours=1.7),
)


@pytest.mark.parametrize(
    "told",
    [
        History(
            ago(days=1),
            NOW,
            [asdict(probed(ago(hours=hours), 0.9)) for hours in range(9, 0, -1)],
            [asdict(done(ago(hours=2))), asdict(failed(ago(hours=1)))],
            [BATCH, {**BATCH, "error": "no"}],
        ),
        History(ago(days=1), NOW, looks=[asdict(health(ago(hours=1)))]),
        History(ago(days=1), NOW, actions=[asdict(done(ago(hours=1), status=LOST))]),
        History(ago(days=1), NOW, batches=[BATCH]),
        History(ago(days=1), NOW, batches=[BATCH]).with_ways([WAY], target_s=60.0),
    ],
    ids=["everything", "one look", "one action", "one batch", "one change file"],
)
def test_whatever_is_on_record_can_be_drawn(told: History) -> None:
    picture = plot.png(told)
    assert picture.startswith(b"\x89PNG\r\n")
    assert size_of(picture) == (1_300, 1_500, 4)


def test_nothing_to_draw_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    home = Home(str(tmp_path), "docs")
    monitoring = Monitoring(home, lambda: NOW)
    with pytest.raises(PlotError, match=r"nothing to draw since 2026-01-30 12:00 UTC.*freshet run"):
        monitoring.picture(86_400)
    HealthRecords(home.health, "docs").add(health(ago(hours=8)))
    with pytest.raises(PlotError, match="since 2026-01-31 06:00 UTC"):
        monitoring.picture(6 * 3_600)
    assert size_of(monitoring.picture(1e30)) == (1_300, 1_500, 4)


# --- old rows ------------------------------------------------------------------------------------


def test_rows_before_a_moment_are_forgotten_and_others_stay(tmp_path: Path) -> None:
    looks = HealthRecords(str(tmp_path / "health"), "docs")
    actions = Records(str(tmp_path / "optimizer"), "docs")
    for records in (looks, actions):
        records.forget_before(NOW)  # where nothing is
    assert not list(tmp_path.iterdir())
    for days in (40, 30, 20):
        HealthRecords(str(tmp_path / "health"), "docs").add(health(ago(days=days)))
        Records(str(tmp_path / "optimizer"), "docs").add(done(ago(days=days)))
    looks.forget_before(ago(days=30))
    actions.forget_before(ago(days=30))
    year = timedelta(days=365)
    kept = [ago(days=30), ago(days=20)]
    assert [look.at for look in looks.latest(NOW, year)] == kept
    assert [one.finished_at for one in actions.latest(NOW, year)] == kept
    looks.add(health())
    actions.add(done())
    assert len(looks.latest(NOW, year)) == len(actions.latest(NOW, year)) == 3


def test_the_first_look_of_a_day_forgets_what_is_too_old(settings: MakeSettings) -> None:
    chosen = settings()
    home, old = chosen.home, NOW - KEPT_FOR - timedelta(minutes=1)
    SmallIndex(home.index).add({f"k{n}": f"river {n}" for n in range(20)})
    year = timedelta(days=365)

    def run(now: datetime) -> list[datetime]:
        """Adds an old row to both tables, lets the optimizer run, and returns what is left."""
        HealthRecords(home.health, "docs").add(health(old))
        Records(home.optimizer, "docs").add(done(old))
        Optimizing(chosen, clock=lambda: now).run()
        actions = Records(home.optimizer, "docs").latest(now, year)
        looks = HealthRecords(home.health, "docs").latest(now, year)
        assert (old in [one.finished_at for one in actions]) == (old in [one.at for one in looks])
        assert actions[-1].finished_at in {NOW, old}
        return [look.at for look in looks]

    assert run(NOW) == [NOW]
    later, tomorrow = NOW + timedelta(hours=1), NOW + timedelta(days=1)
    assert run(later) == [old, NOW, later]  # once a day is enough
    assert run(tomorrow) == [NOW, later, tomorrow]


# --- the page ------------------------------------------------------------------------------------


def test_the_example_of_the_page_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = Path(__file__).parent.parent.parent / "docs/monitoring.md"
    [example] = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    home = Home("articles", "docs")
    Records(home.optimizer, "docs").add(done(seconds=7.5))
    HealthRecords(home.health, "docs").add(probed(ago(hours=1), 0.875))
    HealthRecords(home.health, "docs").add(health(NOW))
    exec(example, {})  # noqa: S102
    printed = capsys.readouterr().out
    assert "extend" in printed
    assert "7.5" in printed
    assert "0.875" in printed
