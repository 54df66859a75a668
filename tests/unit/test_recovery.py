"""Backups, findings and what is made anew, without Spark: the tables are real, the runs are not."""

import json
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from drivers import Driver
from freshet import schemas
from freshet.errors import StoreError, TableMissingError
from freshet.layout import Home
from freshet.pipeline.recovering import Schedule
from freshet.recovery import Backup, Backups, Landed, backup, backups_in, inspect, is_well, rebuild
from freshet.recovery import restore as put_back
from freshet.recovery.decisions import Plan, decide
from freshet.recovery.facts import Facts, IndexTable, NumberedTable, gather
from freshet.recovery.findings import Level, about_backups, in_step
from freshet.recovery.rebuild import put_in_place, unread_from
from freshet.sink.continuity import Position, position
from freshet.sink.target import Mode, Target
from freshet.stores import checkpoints, copies
from freshet.stores.checkpoints import Checkpoint, Planned
from freshet.stores.delta_tables import SmallTable, create
from servers import moto_server

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
QUERY = "11111111-1111-1111-1111-111111111111"


reconcile = partial(rebuild.reconcile, pause_s=0)
restore = partial(put_back, pause_s=0)


def clock() -> datetime:
    return NOW


def nothing_landed() -> Landed | None:
    return None


# --- a home without Spark ------------------------------------------------------------------------


@dataclass
class World:
    """A home whose Bronze and small tables are written as a run writes them."""

    folder: Path

    @property
    def home(self) -> Home:
        return Home(str(self.folder / "home"), "docs")

    @property
    def files(self) -> SmallTable:
        return SmallTable(self.home.files, schemas.FILES)

    @property
    def history(self) -> SmallTable:
        return SmallTable(f"{self.home.files}_history", schemas.FILES_HISTORY)

    def ingest(self, batch: int, *numbers: int, records: int = 2, query: str = QUERY) -> None:
        """One batch: its files are numbered, planned, in Bronze, and finished."""
        end = max(numbers) + 1
        self.number(*numbers)
        self.plan(batch, end)
        rows = [
            {"seq": number, "file": self.path(number), "row": row, "ingested_at": NOW}
            for number in numbers
            for row in range(records)
        ]
        create(self.home.bronze, schemas.BRONZE)
        write_deltalake(
            self.home.bronze,
            pa.Table.from_pylist(rows, schema=schemas.BRONZE),
            mode="append",
            commit_properties=CommitProperties(app_transactions=[Transaction(query, batch)]),
        )
        self.finish(batch)

    def number(self, *numbers: int, **values: Any) -> None:
        row = {"size": 10, "modified_at": NOW, "how": "listing", "reading": 0} | values
        self.files.append([{"seq": n, "path": self.path(n)} | row for n in numbers])

    def plan(self, batch: int, end: int) -> None:
        about = {"batchWatermarkMs": 0, "batchTimestampMs": 1_700_000_000_000, "conf": {"a": "b"}}
        text = f"v1\n{json.dumps(about)}\n{json.dumps({'seq': end, 'batch': batch + 1})}"
        self.write("metadata", json.dumps({"id": QUERY}))
        self.write(f"offsets/{batch}", text)

    def finish(self, batch: int) -> None:
        self.write(f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')

    def write(self, name: str, text: str) -> None:
        file = self.checkpoint / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    @property
    def checkpoint(self) -> Path:
        return Path(self.home.checkpoint("ingest"))

    def path(self, number: int) -> str:
        return str(self.folder / f"landing/{number}.json")

    def known(self) -> dict[int, str]:
        rows = self.files.read(["seq", "path"])
        assert len(rows) == len({row["seq"] for row in rows}), "a number is given twice"
        return {row["seq"]: row["path"] for row in rows}

    def end(self) -> Any:
        found = checkpoints.read(str(self.checkpoint))
        return found.end(found.newest_commit)

    def reconcile(self) -> list[str]:
        done = reconcile(self.home, position=nothing_landed, clock=clock)
        return [one.what for one in done]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Three batches: files 0 and 1, 2, 3."""
    (tmp_path / "landing").mkdir()
    made = World(tmp_path)
    made.ingest(0, 0, 1)
    made.ingest(1, 2)
    made.ingest(2, 3)
    return made


# --- reading checkpoints -------------------------------------------------------------------------


def read(world: World, **options: bool) -> Checkpoint:
    return checkpoints.read(str(world.checkpoint), **options)


def test_a_checkpoint_tells_its_query_its_batches_and_where_they_end(world: World) -> None:
    found = read(world, thoroughly=True)
    assert (found.query_id, found.newest, found.newest_commit) == (QUERY, 2, 2)
    assert found.end(2) == {"seq": 4, "batch": 3}
    assert found.end(0) == {"seq": 2, "batch": 1}
    assert not found.problems
    assert not found.flaws
    assert not checkpoints.read(str(world.folder / "nowhere")).is_there


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("offsets/2", 'v1\n{"batchWaterm', "offsets/2 is cut off or damaged"),
        ("offsets/2", "", "offsets/2 is cut off or damaged"),
        ("offsets/2", "v9\n{}\n{}", "offsets/2 is of the unknown version 'v9'"),
        ("commits/2", "v1", "commits/2 is cut off or damaged"),
        ("metadata", '{"id', "metadata cannot be read"),
        ("metadata", None, "there are batches, but no metadata"),
        ("offsets/2", None, "batch 2 is finished, but was never planned"),
        ("offsets/1", None, "offsets/1 is missing"),
        ("offsets/9", "v1\n{}\n{}", "batch 9 is planned, but batch 8 is not finished"),
    ],
)
def test_what_spark_could_not_go_on_from_is_a_problem(
    world: World, name: str, content: str | None, problem: str
) -> None:
    if content is None:
        (world.checkpoint / name).unlink()
    else:
        world.write(name, content)
    assert problem in read(world).problems
    assert "ingest" in world.reconcile()
    assert not read(world).problems


def test_what_spark_does_not_look_at_any_more_is_a_flaw_and_no_problem(world: World) -> None:
    world.ingest(3, 4)
    (world.checkpoint / "offsets/1").unlink()
    world.write("offsets/0", "v1")
    found = read(world, thoroughly=True)
    assert not found.problems
    assert list(found.flaws) == [
        "offsets has a gap between 0 and 2",
        "offsets/0 is cut off or damaged",
    ]
    assert world.reconcile() == []


def test_a_file_that_does_not_fit_hadoops_checksum_is_a_problem(world: World) -> None:
    data = (world.checkpoint / "offsets/2").read_bytes()
    crc = world.checkpoint / "offsets/.2.crc"
    crc.write_bytes(b"crc\0" + struct.pack(">II", 512, zlib.crc32(data)))
    assert not read(world).problems
    world.write("offsets/2", data.decode().replace('"seq": 4', '"seq": 3'))
    assert read(world).problems == ["offsets/2 does not fit its checksum"]


# --- deciding ------------------------------------------------------------------------------------


def facts(**changed: Any) -> Facts:
    """A healthy state: batches up to 4 and files up to 10, and an index that has come as far."""
    ends = {3: '{"seq": 8}', 4: '{"seq": 10}'}
    place = '{"reservoirId": "bronze", "reservoirVersion": 6}'
    plans = {number: Planned(end, NOW) for number, end in ends.items()}
    well = Facts(
        ingest=Checkpoint(QUERY, [3, 4], [3, 4], plans),
        index=Checkpoint("other", [6], [6], {6: Planned(place, NOW)}),
        bronze=NumberedTable("bronze", 5, 100, 0, 10, 4),
        files=NumberedTable("files", 5, 10, 0, 10),
        index_table=IndexTable("index", 20),
    )
    return replace(well, **changed)


def planned(newest: int, end: int, finished: int) -> Checkpoint:
    numbers = list(range(newest + 1))
    ends = {
        finished: Planned(json.dumps({"seq": end - 2}), NOW),
        newest: Planned(json.dumps({"seq": end}), NOW),
    }
    return Checkpoint(QUERY, numbers, numbers[: finished + 1], ends)


def bronze(end: int, transaction: int | None, version: int = 5) -> NumberedTable:
    return NumberedTable("bronze", version, 100, 0, end, transaction)


def test_a_healthy_state_is_kept() -> None:
    assert decide(facts()) == Plan()


@pytest.mark.parametrize(
    "changed",
    [
        {"ingest": planned(5, 12, 4), "files": NumberedTable("f", 1, 12, 0, 12)},
        {
            "ingest": planned(5, 12, 4),
            "files": NumberedTable("f", 1, 12, 0, 12),
            "bronze": bronze(12, 5),
        },
        {"bronze": bronze(9, 4)},
        {"files": NumberedTable("files", 5, 14, 0, 14)},
        {"bronze": NumberedTable(), "ingest": Checkpoint(), "files": NumberedTable()}
        | {"index": Checkpoint(), "index_table": None},
        {"bronze": NumberedTable("b", 0), "ingest": Checkpoint(QUERY), "index": Checkpoint()},
        {"index": Checkpoint("other")},
    ],
    ids=[
        "a batch is planned and not in Bronze",
        "a batch is in Bronze and not finished",
        "the last file has no records",
        "files are waiting",
        "nothing has run yet",
        "nothing has been read yet",
        "the index starts from the beginning of Bronze",
    ],
)
def test_what_a_crash_or_an_empty_file_leaves_is_kept(changed: dict[str, Any]) -> None:
    assert decide(facts(**changed)) == Plan()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"ingest": Checkpoint()}, "there is no checkpoint, but files have been read"),
        ({"ingest": Checkpoint(QUERY)}, "there is no checkpoint, but files have been read"),
        ({"bronze": bronze(12, 4)}, "Bronze has files up to 12, the checkpoint ends at 10"),
        # Delta would skip batch 5, since it has seen that number: of an empty file, perhaps.
        ({"bronze": bronze(10, 5)}, "Bronze has batch 5, the checkpoint ends with 4"),
        # The next file would get a number below the checkpoint's end, and never be read.
        (
            {"files": NumberedTable("f", 1, 9, 0, 9), "bronze": bronze(9, 4)},
            "the files table ends at 9, the checkpoint at 10",
        ),
        # Its last batch would be run again, and has files that another query has read.
        (
            {"ingest": planned(4, 10, 3), "bronze": bronze(9, 3)},
            "Bronze has files up to 9, batch 4 starts at 8",
        ),
        ({"bronze": bronze(8, 3)}, "Bronze ends at 8, but files up to 10 were read"),
        ({"bronze": NumberedTable("b", 0)}, "Bronze ends at 0, but files up to 10 were read"),
    ],
)
def test_an_ingest_checkpoint_that_could_lose_or_double_files_is_made_anew(
    changed: dict[str, Any], reason: str
) -> None:
    assert reason in decide(facts(**changed)).ingest


@pytest.mark.parametrize(
    ("changed", "reasons"),
    [
        ({"index": Checkpoint()}, ["there is no checkpoint, but there is an index"]),
        ({"index": Checkpoint(problems=["damaged"])}, ["damaged"]),
        (
            {"bronze": bronze(10, 4, version=3)},
            ["Bronze is at version 3, the checkpoint at 6"],
        ),
        ({"bronze": replace(bronze(10, 4), table_id="another")}, []),
        (
            {"bronze": replace(bronze(10, 4), table_id="another"), "index_table": None},
            ["Bronze is another table, and there is no index yet"],
        ),
    ],
)
def test_an_index_checkpoint_that_cannot_be_gone_on_from_is_made_anew(
    changed: dict[str, Any], reasons: list[str]
) -> None:
    assert list(decide(facts(**changed)).index) == reasons


# --- made anew from Bronze -----------------------------------------------------------------------


def test_a_healthy_home_is_left_alone(world: World) -> None:
    before = {file: file.stat().st_mtime_ns for file in world.folder.rglob("*")}
    assert world.reconcile() == []
    assert before == {file: file.stat().st_mtime_ns for file in world.folder.rglob("*")}


def test_a_lost_files_table_is_filled_from_bronze(world: World) -> None:
    there = Path(world.path(3))
    there.write_text("{}")
    os.utime(there, (NOW.timestamp() - 60,) * 2)
    changed = Path(world.path(2))
    changed.write_text("{}")
    os.utime(changed, (NOW.timestamp() + 60,) * 2)
    copies.delete_folder(world.home.files)
    assert world.reconcile() == ["files"]
    assert world.known() == {number: world.path(number) for number in range(4)}
    rows = {row["seq"]: row for row in world.files.read()}
    assert rows[3]["size"] == 2
    assert rows[3]["modified_at"] == NOW - timedelta(seconds=60)
    # It may not be the version that was read, so it must not be taken for it.
    assert rows[2]["size"] is None
    assert rows[1]["size"] is None
    assert {row["how"] for row in rows.values()} == {"bronze"}
    assert rows[0]["discovered_at"] == NOW


def test_only_what_a_files_table_lacks_is_added(world: World) -> None:
    """Also below its own end: a running discovery may have begun a table that was deleted."""
    copies.delete_folder(world.home.files)
    world.number(2, 4, 5)
    assert world.reconcile() == ["files"]
    assert sorted(world.known()) == [0, 1, 2, 3, 4, 5]
    assert world.reconcile() == []


def test_numbers_of_files_without_records_stay_free(world: World) -> None:
    world.ingest(3, 4, records=0)
    world.ingest(4, 5)
    copies.delete_folder(world.home.files)
    assert world.reconcile() == ["files"]
    assert sorted(world.known()) == [0, 1, 2, 3, 5]
    assert world.reconcile() == []


def test_a_lost_ingest_checkpoint_ends_where_bronze_ends_under_a_new_query(world: World) -> None:
    world.number(4, 5)
    copies.delete_folder(str(world.checkpoint))
    assert world.reconcile() == ["ingest"]
    found = read(world)
    assert world.end() == {"seq": 4, "batch": 0}
    assert found.query_id not in (None, QUERY)
    assert (found.newest, found.newest_commit) == (0, 0)
    assert world.reconcile() == []


def test_what_is_replaced_is_moved_aside_whole(world: World) -> None:
    world.write("offsets/2", "v1")
    before = sorted(copies.files_below(str(world.checkpoint)))
    world.reconcile()
    (aside,) = world.checkpoint.parent.glob("ingest.replaced-20261115T120000Z")
    assert sorted(copies.files_below(str(aside))) == before
    assert world.end()["batch"] == 2, "counted on from what could be read"


@pytest.mark.parametrize(
    ("rows", "noted", "end"),
    [
        ([{}], 0, 4),
        ([{}], 5, 4),
        ([{"size": 0}], 5, 5),
        ([{"size": 0}], 4, 4),
        ([{"retry_of": 1, "how": "retry"}], 5, 5),
        ([{"retry_of": 1, "how": "retry"}, {}], 6, 5),
        ([{}, {"retry_of": 1, "how": "retry"}], 6, 4),
        ([{"how": "existing"}, {"how": "existing"}], 0, 6),
    ],
    ids=[
        "a file waits",
        "a file that left no row is read again",
        "an empty file that was read",
        "an empty file that was not",
        "a retry that was read",
        "a retry, and then a file",
        "a file, and then a retry",
        "files that are not to be read",
    ],
)
def test_reading_goes_on_behind_what_leaves_no_trace_in_bronze(
    world: World, rows: list[dict[str, Any]], noted: int, end: int
) -> None:
    for number, row in enumerate(rows, 4):
        world.number(number, **row)
    assert unread_from(world.home, 4, noted) == end


def test_an_empty_bronze_has_read_nothing_whatever_was_noted(world: World) -> None:
    """And what is read again must not be moved away as read long ago."""
    read_step = {"what": "read", "first_seq": 0, "end_seq": 4, "batch": 2, "at": NOW}
    moved_step = {"what": "archived", "first_seq": 0, "end_seq": 2, "at": NOW, "place": "a"}
    world.history.append([read_step, moved_step])
    copies.delete_folder(world.home.bronze)
    create(world.home.bronze, schemas.BRONZE)
    assert world.reconcile() == ["ingest"]
    assert world.end() == {"seq": 0, "batch": 3}
    assert [row["what"] for row in world.history.read()] == ["archived"]


def test_a_bronze_that_was_set_back_is_noted_as_read_only_so_far(world: World) -> None:
    world.history.append(
        [
            {"what": "read", "first_seq": 0, "end_seq": 2, "batch": 0, "at": NOW},
            {"what": "read", "first_seq": 2, "end_seq": 6, "batch": 1, "at": NOW},
        ]
    )
    world.number(4, 5)
    world.plan(3, 6)
    world.finish(3)
    assert world.reconcile() == ["ingest"]
    assert world.end() == {"seq": 4, "batch": 4}
    assert sorted(row["end_seq"] for row in world.history.read()) == [2, 4]


def test_an_index_checkpoint_goes_on_as_the_same_query_with_its_next_batch(world: World) -> None:
    found = gather(world.home).bronze
    end = json.dumps({"reservoirId": found.table_id, "reservoirVersion": 3, "index": -1})
    place = world.home.checkpoint("index")
    copies.write(f"{place}/offsets/7", b"v1")

    def at_seven() -> Landed:
        return Landed("the query", 7, end)

    (done,) = reconcile(world.home, position=at_seven, clock=clock)
    assert done.done == "goes on after batch 7, at version 3 of Bronze"
    made = checkpoints.read(place)
    assert (made.query_id, made.planned, made.committed) == ("the query", [6, 7], [7])
    assert made.batches[7].end == end


@pytest.mark.parametrize("version", [3, 99])
def test_an_index_checkpoint_whose_end_bronze_does_not_have_starts_over(
    world: World, version: int
) -> None:
    table_id = "another" if version == 3 else gather(world.home).bronze.table_id
    end = json.dumps({"reservoirId": table_id, "reservoirVersion": version})
    place = world.home.checkpoint("index")
    copies.write(f"{place}/offsets/7", b"v1")
    (done,) = reconcile(world.home, position=lambda: Landed("q", 7, end), clock=clock)
    assert done.done == "Bronze is read from its beginning"
    assert not checkpoints.read(place).is_there


def test_a_checkpoint_that_only_seemed_behind_since_a_run_is_active_is_left_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bronze was looked at after the checkpoint, and a batch was committed between the looks."""
    before = [gather(world.home)]
    world.ingest(3, 4)
    assert decide(replace(before[0], bronze=gather(world.home).bronze)).ingest

    def look(home: Home) -> Facts:
        now = gather(home)
        return replace(before.pop(), bronze=now.bronze) if before else now

    monkeypatch.setattr(rebuild, "gather", look)
    assert world.reconcile() == []
    assert read(world).query_id == QUERY


def test_a_state_that_does_not_stand_still_is_not_replaced(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter(range(100))

    def look(home: Home) -> Facts:
        return replace(gather(home), ingest=Checkpoint(problems=[f"moved {next(numbers)} times"]))

    monkeypatch.setattr(rebuild, "gather", look)
    with pytest.raises(StoreError, match="another run seems to be active"):
        world.reconcile()
    assert read(world).query_id == QUERY


# --- killed on the way ---------------------------------------------------------------------------


class KilledError(BaseException):
    """Stands for SIGKILL: nothing of Freshet catches it."""


@pytest.fixture
def killed_at(monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Runs something, and kills it before or after its n-th change of the disk."""
    names = ["write", "copy", "move_folder", "delete_folder"]
    original = {name: getattr(copies, name) for name in names} | {"append": SmallTable.append}

    def run(action: Callable[[], object], at: int, *, after: bool) -> bool:
        calls = iter(range(10_000))

        def breaking(do: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                is_it = next(calls) == at
                if is_it and not after:
                    raise KilledError
                result = do(*arguments, **options)
                if is_it:
                    raise KilledError
                return result

            return call

        with monkeypatch.context() as patch:
            for name in names:
                patch.setattr(copies, name, breaking(original[name]))
            patch.setattr(SmallTable, "append", breaking(original["append"]))
            try:
                action()
            except KilledError:
                return True
        return False

    return run


def is_mended(world: World) -> None:
    world.reconcile()
    assert decide(gather(world.home)).ingest == ()
    assert world.reconcile() == []
    assert sorted(world.known()) == [0, 1, 2, 3]
    assert world.end()["seq"] == 4
    assert not list(world.checkpoint.parent.glob("*.new"))


@pytest.mark.parametrize("after", [False, True])
def test_a_kill_at_any_moment_of_rebuilding_is_mended_by_the_next_start(
    tmp_path: Path, killed_at: Callable[..., bool], after: bool
) -> None:
    for at in range(100):
        world = World(tmp_path / str(at))
        world.ingest(0, 0, 1)
        world.ingest(1, 2)
        world.ingest(2, 3)
        copies.delete_folder(world.home.files)
        world.write("offsets/2", "v1")
        was_killed = killed_at(world.reconcile, at, after=after)
        is_mended(world)
        if not was_killed:
            break
    assert at > 5


@pytest.mark.parametrize("after", [False, True])
def test_a_kill_at_any_moment_of_restoring_is_mended_by_the_next_start(
    tmp_path: Path, killed_at: Callable[..., bool], after: bool
) -> None:
    for at in range(100):
        world = World(tmp_path / str(at))
        world.ingest(0, 0, 1)
        made = backup(world.home, world.home.backups, keep=1, clock=clock)
        world.ingest(1, 2)
        world.ingest(2, 3)

        def restored(world: World = world, made: Backup = made) -> None:
            restore(made, world.home, position=nothing_landed, clock=clock)

        was_killed = killed_at(restored, at, after=after)
        is_mended(world)
        if not was_killed:
            break
    assert at > 10


# --- backups -------------------------------------------------------------------------------------


def back_up(world: World, *, keep: int = 7, at: datetime = NOW, place: str = "") -> Backup:
    return backup(world.home, place or world.home.backups, keep=keep, clock=lambda: at)


def test_a_backup_holds_checkpoints_and_tables_and_says_what_they_belong_to(world: World) -> None:
    made = back_up(world)
    again = Backup.open(made.uri)
    assert again == made
    assert again.damage() == []
    assert again.name == "20261115T120000Z"
    assert again.manifest.queries["ingest"].end == {"seq": 4, "batch": 3}
    assert again.manifest.queries["ingest"].batch_id == 2
    assert again.manifest.tables["files"].rows == 4
    assert again.manifest.bronze is not None
    assert again.manifest.bronze.end == 4
    assert again.manifest.index is None
    assert "checkpoints/ingest/commits/2" in again.manifest.files


def test_a_backup_of_what_never_ran_is_a_sentence_and_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(TableMissingError, match=r"there is no checkpoint at .* yet"):
        back_up(World(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_checkpoint_is_not_backed_up_over_good_ones(world: World) -> None:
    back_up(world, keep=1)
    world.write("offsets/2", "v1")
    with pytest.raises(StoreError, match="offsets/2 is cut off"):
        back_up(world, keep=1, at=NOW + timedelta(hours=1))
    assert [made.name for made in backups_in(world.home.backups, "docs")] == ["20261115T120000Z"]


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("tables/files.parquet", lambda data: data[:-1], "files.parquet does not fit its checksum"),
        ("checkpoints/ingest/commits/2", None, "commits/2 is missing"),
        ("manifest.json", lambda data: data.replace(b"docs", b"other"), "manifest was changed"),
        ("manifest.json", lambda data: data[:-10], "manifest is damaged"),
        ("manifest.json", lambda data: data.replace(b'"format": 1', b'"format": 2'), "format 2"),
        ("manifest.json", None, "it has no manifest.json"),
    ],
)
def test_a_backup_that_was_tampered_with_is_refused_and_nothing_is_touched(
    world: World, name: str, change: Callable[[bytes], bytes] | None, sentence: str
) -> None:
    made = back_up(world)
    file = Path(made.uri, name)
    if change is None:
        file.unlink()
    else:
        file.write_bytes(change(file.read_bytes()))
    with pytest.raises(StoreError, match=sentence):
        restore(Backup.open(made.uri), world.home, position=nothing_landed, clock=clock, force=True)
    assert not list(Path(world.home.root).glob("replaced-*"))
    assert world.reconcile() == []


def test_the_newest_backups_are_kept_and_those_of_other_pipelines_too(world: World) -> None:
    place = str(world.folder / "backups")
    other = World(world.folder / "other")
    other.ingest(0, 0)
    foreign = backup(replace(other.home, name="other"), place, keep=1, clock=clock)
    for hour in range(1, 5):
        back_up(world, keep=2, at=NOW + timedelta(hours=hour), place=place)
    names = [made.name for made in backups_in(place, "docs")]
    assert names == ["20261115T150000Z", "20261115T160000Z"]
    assert [made.name for made in backups_in(place, "other")] == [foreign.name]
    assert len(copies.folders_in(place)) == 3


def test_a_copy_without_a_manifest_is_no_backup_and_goes_when_it_is_old(world: World) -> None:
    for name in ("20261101T000000Z", "20261115T115900Z", "mine"):
        copies.write(f"{world.home.backups}/{name}/tables/files.parquet", b"half")
    back_up(world)
    assert copies.folders_in(world.home.backups) == [
        "20261115T115900Z",
        "20261115T120000Z",
        "mine",
    ]
    assert len(backups_in(world.home.backups, "docs")) == 1


def test_two_backups_of_one_second_have_two_places(world: World) -> None:
    assert [back_up(world).name for _ in range(2)] == ["20261115T120000Z", "20261115T120000Z-2"]


def test_a_batch_that_begins_during_a_backup_does_not_spoil_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark plans and finishes a batch, and removes an old one, between two copied files."""
    copy, began = copies.copy, []

    def copy_and_go_on(uri: str, target: str) -> Any:
        if uri.endswith("commits/1") and not began:
            began.append(True)
            world.ingest(3, 4)
            (world.checkpoint / "offsets/0").unlink()
            (world.checkpoint / "commits/0").unlink(missing_ok=True)
        return copy(uri, target)

    monkeypatch.setattr(copies, "copy", copy_and_go_on)
    made = back_up(world)
    assert began
    found = checkpoints.read(f"{made.uri}/checkpoints/ingest", thoroughly=True)
    assert not found.problems
    assert made.manifest.tables["files"].rows == 5
    assert made.damage() == []


def test_restored_it_is_as_it_was_and_the_rest_lies_aside(world: World) -> None:
    made = back_up(world)
    world.number(4)
    done = restore(made, world.home, position=nothing_landed, clock=clock)
    assert done.rebuilt == ()
    assert done.tables == {"files": 4}
    assert sorted(world.known()) == [0, 1, 2, 3]
    assert done.aside is not None
    assert sorted(path.name for path in Path(done.aside).iterdir()) == ["checkpoints", "files"]
    assert read(world).query_id == QUERY


def test_a_backup_from_before_files_were_numbered_anew_gives_way_to_bronze(world: World) -> None:
    """Files 4 and 5 waited when the backup was made; a rebuild since gave them other numbers."""
    first, second = world.path(4), world.path(5)
    world.files.append([{"seq": 4, "path": first}, {"seq": 5, "path": second}])
    world.plan(3, 6)
    made = back_up(world)
    copies.delete_folder(world.home.files)
    world.files.append([{"seq": 4, "path": second}])
    rows = [{"seq": 4, "file": second, "row": 0, "ingested_at": NOW}]
    write_deltalake(
        world.home.bronze, pa.Table.from_pylist(rows, schema=schemas.BRONZE), mode="append"
    )
    done = restore(made, world.home, position=nothing_landed, clock=clock, force=True)
    assert [one.what for one in done.rebuilt] == ["files", "ingest"]
    assert world.known() == {number: world.path(number) for number in range(4)} | {4: second}
    assert world.end()["seq"] == 5


def test_the_backup_of_another_pipeline_is_refused(world: World) -> None:
    made = back_up(world)
    with pytest.raises(StoreError, match="it is of the pipeline docs, not of blogs"):
        restore(made, replace(world.home, name="blogs"), position=nothing_landed, clock=clock)


def test_a_driver_that_lives_on_this_machine_counts_as_a_run(world: World) -> None:
    made = back_up(world)
    leases = SmallTable(f"{world.home.ledger}_leases", schemas.LEASES)
    host = f"process {os.getppid()} on {os.uname().nodename}"
    leases.append([{"pipeline": "docs", "sink": "index", "host": host, "taken_at": NOW}])
    with pytest.raises(StoreError, match="holds the lease and is alive"):
        restore(made, world.home, position=nothing_landed, clock=clock)
    restore(made, world.home, position=nothing_landed, clock=clock, force=True)


# --- looking -------------------------------------------------------------------------------------


def test_a_home_in_step_is_well_and_says_so(world: World) -> None:
    back_up(world)
    found = inspect(world.home, Backups(world.home.backups), position=nothing_landed, clock=clock)
    assert is_well(found)
    assert {one.level for one in found} == {Level.OK}
    assert "4 files, none missing" in [one.found for one in found]


def test_what_is_lost_is_an_error_with_a_next_step(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    copies.delete_folder(world.home.files)
    found = inspect(world.home, Backups(world.home.backups), position=nothing_landed, clock=clock)
    errors = [one for one in found if one.level is Level.ERROR]
    assert "4 files that Bronze has are not in the files table" in [one.found for one in errors]
    assert all(one.next for one in errors)
    assert [one.level for one in found if one.what == "backup"] == [Level.WARNING]


@pytest.mark.parametrize(
    ("landed", "level"),
    [
        (Landed("other", 6, table_version=20), Level.OK),
        (Landed("other", 7, table_version=20), Level.OK),
        (Landed("other", 5, table_version=20), Level.ERROR),
        (Landed("other", 6, table_version=21), Level.ERROR),
        (Landed("a third", 6), Level.WARNING),
        (None, Level.WARNING),
    ],
)
def test_ledger_and_index_are_compared_with_the_checkpoint(
    landed: Landed | None, level: Level
) -> None:
    assert list(in_step(facts(), landed, 0))[-1].level is level


def test_a_backup_that_is_too_old_is_a_warning(world: World) -> None:
    made = back_up(world)
    late = NOW + timedelta(hours=3)
    assert about_backups([made], timedelta(hours=1), late).level is Level.WARNING
    assert about_backups([made], timedelta(hours=2), late).level is Level.OK
    assert about_backups([made], None, late).level is Level.OK


# --- the schedule --------------------------------------------------------------------------------


def test_backups_are_made_when_due_and_a_failure_is_tried_again_soon(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now, made = [NOW], list[datetime]()

    def make() -> None:
        made.append(now[0])
        if len(made) == 2:
            raise StoreError("copy", "somewhere", "the disk is full")

    schedule = Schedule(timedelta(hours=1), make, lambda: now[0], NOW)

    def tick(seconds: int) -> None:
        now[0] = NOW + timedelta(seconds=seconds)
        schedule.tick()
        if schedule._running is not None:
            schedule._running.join()

    for seconds in (0, 10, 3_600, 3_630, 3_660, 3_700):
        tick(seconds)
    assert [(at - NOW).total_seconds() for at in made] == [0, 3_600, 3_660]
    assert caplog.messages == ["backup_failed"]


# --- how far the index has come ------------------------------------------------------------------


def offsets(version: int) -> str:
    return f'1700000000000 [{{"reservoirId":"b","reservoirVersion":{version}}}]'


def place_of(driver: Driver) -> Position | None:
    return position(Target(driver.uri, "tests", "index", Mode.UPDATE, "key"), driver.ledger)


def test_the_position_is_the_newest_landed_batch_by_ledger_or_by_stamp(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    assert place_of(driver) is None
    driver.write(0, "a", offsets=offsets(1))
    driver.write(1, "b", offsets=offsets(2))
    driver.write(2, offsets=offsets(3))  # nothing to commit: only the ledger knows
    end = '{"reservoirId":"b","reservoirVersion":3}'
    assert place_of(driver) == Position("query", 2, end, driver.version())
    copies.delete_folder(str(tmp_path / "ledger"))
    by_stamp = place_of(Driver(tmp_path))
    assert by_stamp is not None
    assert (by_stamp.batch_id, by_stamp.end) == (1, end.replace("3", "2"))


def test_a_table_that_was_set_back_or_ends_that_were_not_kept_tell_no_position(
    tmp_path: Path,
) -> None:
    driver = Driver(tmp_path)
    driver.write(0, "a", offsets="0123456789abcdef")
    assert place_of(driver) is None
    driver.write(1, "b", offsets=offsets(2))
    assert place_of(driver) is not None
    import lance

    lance.dataset(driver.uri, version=driver.version() - 1).restore()
    assert place_of(driver) is None


def test_a_batch_of_a_known_number_that_was_planned_anew_is_written_though_its_row_is_lost(
    tmp_path: Path,
) -> None:
    """Ledger and checkpoint were put back to a time before it; only its stamp is newer."""
    Driver(tmp_path).write(0, "a", offsets="first")
    old = {name: (tmp_path / name) for name in ("ledger",)}
    saved = tmp_path / "saved"
    for name, folder in old.items():
        copies.move_folder(str(folder), str(saved / name))
        for file in copies.files_below(str(saved / name)):
            copies.copy(str(saved / name / file), str(folder / file))
    Driver(tmp_path).write(1, "b", offsets="then")
    copies.delete_folder(str(tmp_path / "ledger"))
    copies.move_folder(str(saved / "ledger"), str(tmp_path / "ledger"))
    driver = Driver(tmp_path)
    driver.write(1, "b", "c", offsets="anew")
    assert set(driver.contents()) == {"a", "b", "c"}
    assert driver.tries() == [(0, "committed"), (1, "replayed")]


# --- facts written twice -------------------------------------------------------------------------


def test_names_that_stages_share_are_the_same_in_both() -> None:
    from freshet import layout, pipeline, schemas
    from freshet.landing.files import READ
    from freshet.recovery import inspection
    from freshet.sink import ledger

    assert (layout.INGEST, layout.INDEX) == (pipeline.INGEST, pipeline.INDEX)
    assert schemas.FILE_READ == READ
    assert inspection._FAILED == ledger.FAILED


# --- an object store -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A bucket of a stand-in for S3."""
    settings = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with moto_server() as endpoint, pytest.MonkeyPatch.context() as patch:
        for name, value in (settings | {"AWS_ENDPOINT_URL": endpoint}).items():
            patch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket="state")
        yield "s3://state"


def test_on_an_object_store_a_checkpoint_is_replaced_metadata_last(
    bucket: str, killed_at: Callable[..., bool]
) -> None:
    place = f"{bucket}/home/checkpoints/ingest"
    old = dict(checkpoints.contents(QUERY, 3, '{"seq": 4}', NOW))
    new = dict(checkpoints.contents("new", 0, '{"seq": 9}', NOW))
    assert put_in_place(place, old, NOW) is None
    for at in range(2, 5):  # the old one is moved away; the new one is being written
        assert killed_at(lambda: put_in_place(place, new, NOW), at, after=False)
        found = checkpoints.read(place)
        assert found.problems or not found.is_there
        put_in_place(place, old, NOW)
        assert checkpoints.read(place).newest == 3
    assert put_in_place(place, new, NOW) == f"{place}.replaced-20261115T120000Z-6"
    found = checkpoints.read(place)
    assert (found.query_id, found.newest, found.problems) == ("new", 0, [])
    assert len(copies.files_below(f"{place}.replaced-20261115T120000Z")) == len(old)
