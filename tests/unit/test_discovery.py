"""Which files are new: by path, never by date, and never twice."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from freshet.errors import FileOverwrittenError, StoreError
from freshet.landing import discovery
from freshet.landing.admission import Admission
from freshet.landing.files import KnownFile, Retries
from freshet.landing.report import backlog, files
from freshet.landing.source import LandingReader, spread
from freshet.stores.file_events import FileHint
from landings import NOW, Clock, LandingZone


@pytest.fixture
def zone(tmp_path: Path) -> LandingZone:
    return LandingZone(tmp_path)


def test_files_are_numbered_by_age_and_then_by_name(zone: LandingZone) -> None:
    zone.land("b.json", 2_000)
    zone.land("c.json", 1_000)
    zone.land("a.json", 2_000)
    assert zone.discovery().discover() == 3
    assert zone.names() == ["c.json", "a.json", "b.json"]


def test_a_late_file_with_an_old_date_is_found(zone: LandingZone) -> None:
    zone.land("new.json", NOW.timestamp() - 10)
    found = zone.discovery()
    found.discover()
    zone.land("old.json", 1_000)
    assert found.discover() == 2
    assert zone.names() == ["new.json", "old.json"]


def test_a_file_dated_tomorrow_is_read_when_it_was_still_for_long_enough(zone: LandingZone) -> None:
    clock = Clock()
    found = zone.discovery(clock)
    zone.land("tomorrow.json", NOW.timestamp() + 86_400)
    assert found.discover() == 0
    assert found.held_back == 1
    clock.seconds = 1.1
    assert found.discover() == 1


def test_a_restart_finds_nothing_twice(zone: LandingZone) -> None:
    zone.land("a.json")
    assert zone.discovery().discover() == 1
    assert zone.discovery().discover() == 1
    zone.land("b.json")
    assert zone.discovery().discover() == 2
    assert zone.names() == ["a.json", "b.json"]


@pytest.mark.parametrize("is_restarted", [True, False])
def test_a_file_that_is_moved_away_and_back_is_still_known(
    zone: LandingZone, is_restarted: bool
) -> None:
    file, clock = zone.land("a.json"), Clock()
    found = zone.discovery(clock)
    found.discover()
    file.unlink()
    zone.land("b.json")
    clock.seconds = 3_600  # the next listing forgets what is not here
    found.discover()
    zone.land("a.json")
    found = zone.discovery(clock) if is_restarted else found
    assert found.discover() == 2
    assert zone.names() == ["a.json", "b.json"]


def test_names_of_files_that_are_being_made_are_not_ready(zone: LandingZone) -> None:
    for name in (".a.json", "_a.json", "_tmp/b.json", "day=1/.c.json", "x.tmp", "y.json.part"):
        zone.land(name)
    zone.land("day=1/d.json")
    zone.discovery().discover()
    assert zone.names() == ["day=1/d.json"]


def test_an_idle_landing_zone_writes_nothing(zone: LandingZone) -> None:
    zone.land("a.json")
    found = zone.discovery()
    found.discover()
    log = zone.folder / "files" / "_delta_log"
    before = sorted(log.iterdir())
    found.discover()
    assert sorted(log.iterdir()) == before


def test_a_landing_zone_that_vanishes_is_an_error_and_not_an_empty_one(zone: LandingZone) -> None:
    found = zone.discovery()
    zone.path.rmdir()
    with pytest.raises(StoreError, match="could not list"):
        found.discover()


# --- what counts -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["a.csv", "a.json", "x/b.json", "x/y/c.json"]),
        ({"recursive": False}, ["a.csv", "a.json"]),
        ({"include": ("*.json",)}, ["a.json", "x/b.json", "x/y/c.json"]),
        ({"include": ("/x/*.json",)}, ["x/b.json"]),
        ({"include": ("x/**",), "exclude": ("y/",)}, ["x/b.json"]),
        ({"exclude": ("*.csv", "x/**/c.*")}, ["a.json", "x/b.json"]),
    ],
)
def test_patterns_and_depth_choose_files(
    zone: LandingZone, options: dict[str, object], names: list[str]
) -> None:
    for name in ("a.json", "a.csv", "x/b.json", "x/y/c.json"):
        zone.land(name)
    zone.discovery(**options).discover()
    assert sorted(zone.names()) == names


def test_a_folder_named_like_a_file_is_a_folder(zone: LandingZone) -> None:
    zone.land("looks.json/inside.json")
    zone.discovery().discover()
    assert zone.names() == ["looks.json/inside.json"]


def test_where_names_sort_old_folders_are_listed_only_by_the_backfill(zone: LandingZone) -> None:
    clock = Clock()
    zone.land("2026/01/01/a.json")
    zone.land("2026/01/02/b.json")
    found = zone.discovery(clock, names_sort=True, backfill_interval="1 minute")
    found.discover()
    zone.land("2026/01/02/c.json")
    zone.land("2026/02/01/d.json")
    assert found.discover() == 4
    zone.land("2026/01/01/late.json")
    assert found.discover() == 4, "an old folder was listed"
    clock.seconds = 61
    assert found.discover() == 5
    assert sorted(zone.names())[1] == "2026/01/01/late.json"


def test_files_that_were_there_before_can_be_left_out_for_ever(zone: LandingZone) -> None:
    zone.land("old.json")
    options = zone.options(include_existing=False)
    assert LandingReader(options).initialOffset() == {"seq": 1, "batch": 0}
    zone.land("new.json", 1_000)
    again = LandingReader(options)
    assert again.initialOffset() == {"seq": 1, "batch": 0}
    again.prepareForTriggerAvailableNow()
    assert [(file.path[-8:], file.how) for file in zone.known()] == [
        ("old.json", "existing"),
        ("new.json", "listing"),
    ]


def test_an_empty_first_start_does_not_make_later_files_existing_ones(zone: LandingZone) -> None:
    options = zone.options(include_existing=False)
    assert LandingReader(options).initialOffset() == {"seq": 0, "batch": 0}
    zone.land("new.json", 1_000)
    again = LandingReader(options)
    assert again.initialOffset() == {"seq": 0, "batch": 0}
    again.prepareForTriggerAvailableNow()
    assert [file.how for file in zone.known()] == ["listing"]


class DeadQueue:
    """A queue that cannot be reached."""

    def poll(self, limit: int) -> list[FileHint]:
        raise StoreError("receive messages from", "queue", "no answer")

    def done(self, hints: Sequence[FileHint]) -> None:
        raise StoreError("delete messages from", "queue", "no answer")

    def waiting(self) -> int | None:
        return None

    def close(self) -> None:
        """Nothing to end."""


def test_while_events_cannot_be_had_files_are_found_by_listing(
    zone: LandingZone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "open_events", lambda *_, **__: DeadQueue())
    found = zone.discovery(discovery="notification")
    assert found.discover() == 0
    zone.land("a.json")
    assert found.discover() == 1
    assert found.discover() == 1


def test_the_events_of_the_file_system_tell_of_new_files_without_a_listing(
    zone: LandingZone,
) -> None:
    found = zone.discovery(discovery="notification")
    found.discover()
    zone.land("deep/a.json")
    zone.land("deep/_hidden.json")
    deadline = time.monotonic() + 10
    while found.discover() == 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    found.close()
    assert [(file.how, Path(file.path).name) for file in zone.known()] == [("event", "a.json")]


# --- half-written and overwritten files ----------------------------------------------------------


def test_a_file_is_ready_when_it_has_not_changed_for_the_settle_time(zone: LandingZone) -> None:
    clock = Clock()
    found = zone.discovery(clock, settle="5 seconds")
    zone.land("a.json", NOW.timestamp())
    assert found.discover() == 0
    clock.seconds = 4
    zone.land("a.json", NOW.timestamp() + 4, '{"more":1}\n{}\n')
    assert found.discover() == 0
    clock.seconds = 8
    assert found.discover() == 0
    clock.seconds = 9
    assert found.discover() == 1
    assert zone.known()[0].size == len('{"more":1}\n{}\n')


def test_a_file_that_ends_inside_a_record_is_tried_again_before_it_counts_as_bad(
    zone: LandingZone,
) -> None:
    clock = Clock()
    found = zone.discovery(clock, patience="30 seconds")
    zone.land("cut.json", NOW.timestamp(), '{"a":1}\n{"a":')
    zone.land("bad.json", NOW.timestamp(), '{"a":1}\n{"a":')
    clock.seconds = 10
    assert found.discover() == 0
    assert found.held_back == 2
    zone.land("cut.json", NOW.timestamp() + 10, '{"a":1}\n{"a":2}\n')
    clock.seconds = 12
    assert found.discover() == 1
    clock.seconds = 31
    assert found.discover() == 2
    assert zone.names() == ["cut.json", "bad.json"]


def test_a_file_that_a_process_has_open_for_writing_is_not_ready(zone: LandingZone) -> None:
    clock = Clock()
    found = zone.discovery(clock)
    zone.path.mkdir(exist_ok=True)
    with (zone.path / "slow.json").open("w") as slow:
        slow.write('{"a":1}\n')
        slow.flush()
        os.utime(slow.fileno(), (NOW.timestamp(), NOW.timestamp()))
        clock.seconds = 10
        assert found.discover() == 0
        slow.write('{"a":2}\n')
    os.utime(zone.path / "slow.json", (NOW.timestamp(), NOW.timestamp()))
    assert found.discover() == 1
    assert zone.known()[0].size == 16


def test_a_file_that_changes_after_it_was_read_is_ignored_unless_asked(zone: LandingZone) -> None:
    zone.land("a.json")
    found = zone.discovery()
    found.discover()
    zone.land("a.json", 1_700_000_001, "{}\n{}\n")
    assert found.discover() == 1
    assert [file.state for file in files(zone.options(), 1, ())] == ["changed"]


@pytest.mark.parametrize("is_restarted", [True, False])
def test_an_overwritten_file_can_be_read_again_as_a_new_one(
    zone: LandingZone, is_restarted: bool
) -> None:
    zone.land("a.json")
    found = zone.discovery(overwrites="reread")
    found.discover()
    zone.land("a.json", 1_700_000_001, "{}\n{}\n")
    found = zone.discovery(overwrites="reread") if is_restarted else found
    assert found.discover() == 2
    assert found.discover() == 2
    assert [file.size for file in zone.known()] == [3, 6]


def test_an_overwritten_file_can_be_refused(zone: LandingZone) -> None:
    zone.land("a.json")
    found = zone.discovery(overwrites="refuse")
    assert found.discover() == 1
    assert found.discover() == 1
    zone.land("a.json", 1_700_000_001, "{}\n{}\n")
    with pytest.raises(FileOverwrittenError, match=r"a\.json .* changed after it was read"):
        found.discover()
    assert len(zone.known()) == 1


# --- reading again -------------------------------------------------------------------------------


def test_a_file_that_somebody_asks_for_is_read_again_in_its_old_place(zone: LandingZone) -> None:
    clock = Clock()
    file = zone.land("a.json")
    found = zone.discovery(clock)
    found.discover()
    Retries(zone.state).ask({0: str(file)}, clock.now())
    clock.seconds = 10
    assert found.discover() == 2
    clock.seconds = 20
    assert found.discover() == 2, "one request, one reading"
    assert zone.discovery(clock).discover() == 2, "also after a restart"
    again = zone.known()[1]
    assert (again.seq, again.arrival, again.reading, again.how) == (1, 0, 1, "retry")


# --- batches and backlog -------------------------------------------------------------------------


def test_a_batch_ends_at_the_lower_of_two_limits_but_takes_one_file(zone: LandingZone) -> None:
    for number, size in enumerate([10, 10, 500, 10, 10, 10]):
        zone.land(f"{number}.json", 1_000 + number, "x" * (size - 1) + "\n")
    newest = zone.discovery().discover()
    admission = Admission(zone.options(max_bytes_per_trigger="25 B"))
    ends = [0]
    while ends[-1] < newest:
        ends.append(admission.end(ends[-1], newest, 3, ()))
    assert ends == [0, 2, 3, 5, 6]
    assert [file.seq for file in admission.files(3, 5)] == [3, 4]
    admission = Admission(zone.options())
    assert admission.end(0, newest, 4, ()) == 4
    assert (admission.waiting.files, admission.waiting.bytes) == (2, 20)


def test_the_backlog_counts_what_no_batch_has_read(zone: LandingZone) -> None:
    zone.land("a.json")
    zone.land("b.json")
    zone.discovery().discover()
    zone.land("c.json", content="{}\n{}\n")
    counted = backlog(zone.options(), read_up_to=1)
    assert (counted.seen, counted.waiting, counted.waiting_bytes) == (2, 2, 9)


def test_the_states_of_files_are_told_newest_first(zone: LandingZone) -> None:
    for number, name in enumerate(("read", "gone", "waiting")):
        zone.land(f"{name}.json", 1_000 + number)
    zone.discovery().discover()
    (zone.path / "gone.json").unlink()
    zone.land("new.json")
    told = [(Path(file.path).stem, file.state) for file in files(zone.options(), 2, ())]
    assert told == [
        ("new", "waiting"),
        ("waiting", "waiting"),
        ("gone", "missing"),
        ("read", "read"),
    ]
    assert [file.seq for file in files(zone.options(), 2, ("waiting",))] == [None, 2]


def test_tasks_get_like_shares_and_every_file_once() -> None:
    known = [
        KnownFile(seq, f"f{seq}", size, NOW, None, NOW, "listing")
        for seq, size in enumerate([9, 1, 1, 8, 1])
    ]
    groups = spread(known, 2)
    assert sorted(file.seq for group in groups for file in group) == [0, 1, 2, 3, 4]
    assert sorted(sum(file.size for file in group) for group in groups) == [10, 10]
    assert spread(known[:1], 8) == [[known[0]]]
    assert spread([], 8) == []
