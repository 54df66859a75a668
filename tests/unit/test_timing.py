"""Ways from real tables: the log of Bronze, the files table, the ledger."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from freshet import schemas
from freshet.landing.files import FilesTable, KnownFile, Oldest
from freshet.monitor.ways import Stage
from freshet.optimizer import Done, Records
from freshet.pipeline import freshness
from freshet.pipeline.freshness import Timing
from freshet.pipeline.sla import decision_record
from freshet.settings import Settings
from freshet.sink import BatchReport, Counts, Ledger
from freshet.stores import copies, delta_commits, delta_facts, delta_upkeep
from freshet.stores.delta_commits import Bunch, CommitLog

MakeSettings = Callable[..., Settings]
NOW = datetime.now(UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def rows(numbers: Mapping[int, int], changed_at: datetime | None = None) -> pa.Table:
    """Events of some files, as many of each as is said."""
    told = [
        {"seq": seq, "row": row, "key": f"{seq}-{row}", "changed_at": changed_at}
        for seq, count in numbers.items()
        for row in range(count)
    ]
    return pa.Table.from_pylist(told, schema=schemas.BRONZE)


@dataclass
class Stream:
    """A pipeline's tables, filled by hand; batches end at what Bronze has."""

    settings: Settings
    _batches: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.bronze = self.settings.home.bronze
        self.timing = Timing(self.settings, lambda: NOW)

    def discover(
        self, landed: float, discovered: float, *numbers: int, how: str = "listing"
    ) -> None:
        FilesTable(self.settings.home.files).append(
            [
                KnownFile(seq, f"/l/{seq}", 100, ago(landed), None, ago(discovered), how)
                for seq in numbers
            ]
        )

    def ingest(self, changed_at: datetime | None = None, **numbers: int) -> None:
        told = {int(name[1:]): count for name, count in numbers.items()}
        write_deltalake(self.bronze, rows(told, changed_at), mode="append")

    def index(self, finished: float, version: int | None = None, file: int = -1) -> None:
        table = DeltaTable(self.bronze)
        version = table.version() + 1 if version is None else version
        offset = (
            f'{{"sourceVersion":1,"reservoirId":"{table.metadata().id}",'
            f'"reservoirVersion":{version},"index":{file},"isStartingVersion":false}}'
        )
        self._batches += 1
        Ledger(self.settings.home.ledger).record(
            BatchReport(
                pipeline="docs",
                sink="index",
                query_id="q",
                batch_id=self._batches,
                status="committed",
                table_version=self._batches,
                counts=Counts(rows_in=10),
                embed_s=0.5,
                write_s=0.1,
                commit_s=0.1,
                total_s=1.0,
                started_at=ago(finished + 1),
                finished_at=ago(finished),
                offsets=f"1 [{offset}]",
            )
        )

    def found(self) -> dict[int, float | None]:
        """By number: from landing until it could be searched."""
        ways = self.timing.look().ways
        return {way.seq: way.seconds(Stage.LANDED_TO_SEARCHABLE) for way in ways}


@pytest.fixture
def stream(settings: MakeSettings) -> Stream:
    made = Stream(settings(slo={"landed_to_searchable": "1 minute"}))
    made.discover(90_000, 80_000, 0)
    made.ingest(f0=1)
    return made


# --- the log -------------------------------------------------------------------------------------


def test_a_commit_tells_bounds_rows_and_the_oldest_change(tmp_path: Path) -> None:
    uri, before = str(tmp_path / "bronze"), datetime.now(UTC)
    old = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
    write_deltalake(uri, rows({3: 2, 5: 1}, old))
    write_deltalake(uri, rows({6: 4}), mode="append")
    log = CommitLog(uri, "seq", "changed_at")
    end = log.end()
    assert end is not None
    assert end.version == 1
    first, second = log.between(0, end.version)
    assert (first.version, second.version) == (0, 1)
    [bunch] = first.bunches
    assert (bunch.first, bunch.last, bunch.place, bunch.rows) == (3, 5, 0, 3)
    assert bunch.oldest is not None
    assert timedelta(0) <= old - bunch.oldest < timedelta(milliseconds=1)
    assert second.bunches[0].oldest is None
    assert before - timedelta(milliseconds=1) <= first.at <= second.at <= datetime.now(UTC)


def test_folding_files_brings_nothing_and_changes_nothing_that_is_told(tmp_path: Path) -> None:
    uri = str(tmp_path / "bronze")
    for seq in range(3):
        write_deltalake(uri, rows({seq: 2}), mode="append")
    before = CommitLog(uri, "seq", "changed_at").between(0, 2)
    delta_upkeep.fold(uri, 1 << 20)
    log = CommitLog(uri, "seq", "changed_at")
    end = log.end()
    assert end is not None
    assert end.version > 2, "it was folded"
    assert log.between(0, end.version) == before


def test_files_of_the_same_bounds_are_one_bunch_with_the_last_ones_place(tmp_path: Path) -> None:
    uri = str(tmp_path / "bronze")
    actions = "\n".join(
        [
            '{"commitInfo":{"timestamp":1000}}',
            *(
                f'{{"add":{{"path":"{n}","size":7,"dataChange":true,"stats":'
                f'"{{\\"numRecords\\":5,\\"minValues\\":{{\\"seq\\":1}},'
                f'\\"maxValues\\":{{\\"seq\\":{last}}}}}"}}}}'
                for n, last in enumerate((1, 1, 2, 1))
            ),
            '{"add":{"path":"x","size":7,"dataChange":false,"stats":"{}"}}',
        ]
    )
    copies.write(f"{uri}/_delta_log/{0:020}.json", actions.encode())
    [commit] = CommitLog(uri, "seq", "changed_at").between(0, 0)
    assert set(commit.bunches) == {Bunch(1, 1, 3, 15, 21), Bunch(1, 2, 2, 5, 7)}
    assert (commit.last, commit.rows) == (2, 20)


def test_a_commit_is_read_once_and_those_that_are_gone_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "bronze")
    for seq in range(3):
        write_deltalake(uri, rows({seq: 1}), mode="append")
    log = CommitLog(uri, "seq", "changed_at")
    assert [commit.version for commit in log.between(1, 2)] == [1, 2]
    (tmp_path / f"bronze/_delta_log/{0:020}.json").unlink()
    (tmp_path / f"bronze/_delta_log/{2:020}.json").unlink()
    assert [commit.version for commit in log.between(0, 2)] == [1, 2]
    monkeypatch.setattr(delta_commits, "MOST_COMMITS", 1)
    assert [commit.version for commit in log.between(0, 2)] == [2]


def test_where_there_is_no_table_there_is_no_end(tmp_path: Path) -> None:
    assert CommitLog(str(tmp_path / "none"), "seq", "changed_at").end() is None
    assert delta_facts.earliest(str(tmp_path / "none"), "at") is None


# --- the tables together -------------------------------------------------------------------------


def test_a_file_is_timed_from_landing_to_the_batch_that_took_it(stream: Stream) -> None:
    stream.discover(100, 95, 1, 2)
    stream.ingest(f1=3, f2=1)
    stream.index(40)
    stream.discover(30, 29, 3)
    stream.ingest(changed_at=ago(33), f3=1)
    stream.index(10)
    found = stream.timing.look()
    assert {way.seq: way.seconds(Stage.LANDED_TO_SEARCHABLE) for way in found.live} == {
        1: 60.0,
        2: 60.0,
        3: 20.0,
    }
    assert [way.seq for way in found.ways if way.is_backfill] == [0]
    assert found.live[0].seconds(Stage.LANDED_TO_DISCOVERED) == 5.0
    changed_s = found.live[2].seconds(Stage.CHANGED_TO_LANDED)
    assert changed_s == pytest.approx(3.0, abs=0.002)
    assert found.waiting.files == 0
    assert found.waiting.landed_at is None


def test_what_became_searchable_before_the_window_is_not_timed(stream: Stream) -> None:
    stream.index(50_000)
    stream.discover(30_000, 29_000, 1)
    stream.ingest(f1=1)
    stream.index(20_000)
    stream.discover(9_000, 8_990, 2)
    stream.ingest(f2=1)
    stream.index(100)
    assert stream.found() == {2: 8_900.0}


def test_what_a_batch_before_the_window_took_of_a_commit_is_not_timed(stream: Stream) -> None:
    stream.index(50_000)
    stream.discover(30_000, 29_000, 1)
    stream.ingest(f1=1)
    stream.index(20_000, version=DeltaTable(stream.bronze).version(), file=0)
    stream.discover(100, 90, 2)
    stream.ingest(f2=1)
    stream.index(10)
    assert stream.found() == {2: 90.0}


def test_a_file_of_long_ago_that_is_read_again_is_not_timed_anew(stream: Stream) -> None:
    stream.discover(30_000, 29_000, 1, 2)
    stream.ingest(f1=1, f2=1)
    stream.index(20_000)
    stream.discover(100, 90, 3)
    stream.ingest(f1=1, f3=1)
    stream.index(10)
    assert stream.found() == {3: 90.0}


def test_files_wait_in_the_landing_zone_and_in_bronze(stream: Stream) -> None:
    stream.index(50_000)
    assert stream.timing.look().waiting.files == 0
    stream.discover(500, 490, 1)
    waiting = stream.timing.look().waiting
    assert (waiting.files, waiting.landed_at) == (1, ago(500))
    stream.ingest(changed_at=ago(600), f1=1)
    stream.discover(90, 80, 2)
    waiting = stream.timing.look().waiting
    assert (waiting.files, waiting.landed_at) == (2, ago(500))
    assert waiting.changed_at is not None
    undiscovered = Oldest(2, ago(700))
    waiting = stream.timing.look(undiscovered=undiscovered).waiting
    assert (waiting.files, waiting.landed_at) == (4, ago(700))
    [verdict] = stream.timing.verdicts()
    assert (verdict.is_missed, verdict.waiting_s) == (True, 500.0)
    stream.index(5)
    waiting = stream.timing.look().waiting
    assert (waiting.files, waiting.landed_at, waiting.changed_at) == (1, ago(90), None)


def test_what_is_not_news_neither_waits_nor_is_timed(stream: Stream) -> None:
    stream.index(50_000)
    stream.discover(70_000, 60_000, 1, how="existing")
    stream.discover(70_000, 60_000, 2, how="retry")
    stream.discover(70_000, 60_000, 3, how="bronze")
    assert stream.timing.look().waiting.files == 0
    stream.ingest(f1=1, f2=1, f3=1)
    stream.index(10)
    assert stream.found() == {}


def test_folding_bronze_changes_no_way(stream: Stream) -> None:
    for seq in range(1, 5):
        stream.discover(100 - seq, 90 - seq, seq)
        stream.ingest(**{f"f{seq}": 2})
        stream.index(50 - seq)
    before = stream.timing.look()
    delta_upkeep.fold(stream.bronze, 1 << 20)
    assert DeltaTable(stream.bronze).history(1)[0]["operation"] == "OPTIMIZE"
    assert stream.timing.look() == before
    assert Timing(stream.settings, lambda: NOW).look() == before
    stream.discover(9, 8, 5)
    stream.ingest(f5=1)
    stream.index(2)
    assert stream.found() == {**dict.fromkeys(range(1, 5), 50.0), 5: 7.0, 0: stream.found()[0]}


def test_batches_of_another_table_and_of_a_starting_snapshot_tell_no_place(
    stream: Stream,
) -> None:
    stream.discover(100, 95, 1)
    stream.ingest(f1=1)
    stream.index(40)
    assert set(stream.found()) == {0, 1}
    other = Stream(stream.settings)
    DeltaTable(stream.bronze).delete()
    assert set(other.found()) == {0, 1}, "rows that leave Bronze have had their way"
    ledger = stream.settings.home.ledger
    text = DeltaTable(ledger).to_pyarrow_table().column("offsets")[0].as_py()
    assert freshness._place(text, "another") is None
    assert freshness._place(text.replace("false", "true"), text.split('"')[5]) is None
    assert freshness._place("digest", "another") is None
    assert freshness._place(None, "another") is None


def test_of_too_many_files_the_newest_are_timed(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seq in range(1, 7):
        stream.discover(100 - seq, 90 - seq, seq)
        stream.ingest(**{f"f{seq}": 1})
        stream.index(50 - seq)
    monkeypatch.setattr(freshness, "MOST_FILES", 3)
    found = stream.timing.look()
    assert [way.seq for way in found.ways] == [4, 5, 6]
    assert found.since == ago(46)


def test_an_action_on_the_vector_index_covers_what_it_found(stream: Stream) -> None:
    stream.index(50_000)
    stream.discover(100, 95, 1)
    stream.ingest(f1=1)
    stream.index(40)
    records = Records(stream.settings.home.optimizer, "docs")
    for target, status, version, at in (
        ("text_idx", "done", 2, 39),
        ("vector_idx", "failed", 2, 38),
        ("vector_idx", "done", 1, 37),
        ("vector_idx", "done", 2, 30),
    ):
        records.add(
            Done(
                pipeline="docs",
                run_id="r",
                action="extend",
                target=target,
                reasons="",
                status=status,
                rows=1,
                seconds=1.0,
                memory_bytes=None,
                version_before=version,
                fragments_before=1,
                bytes_before=1,
                error=None,
                started_at=ago(at + 1),
                finished_at=ago(at),
            )
        )
    [way] = stream.timing.look().ways
    assert way.seconds(Stage.SEARCHABLE_TO_INDEXED) == 10.0


def test_where_nothing_ever_ran_nothing_is_timed_and_nothing_waits(
    settings: MakeSettings,
) -> None:
    found = Timing(settings(slo={"landed_to_searchable": "1 second"}), lambda: NOW).freshness()
    assert (found.files, found.backfill, found.waiting.files) == (0, 0, 0)
    assert not found.missed
    told = decision_record(settings(), Timing(settings(), lambda: NOW))
    assert told.contract is None


def test_the_cost_of_a_look_follows_the_window_and_not_the_streams_age(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred commits before the window: none but the last few of them is opened."""
    for seq in range(1, 201):
        stream.ingest(**{f"f{seq}": 1})
    stream.discover(50_000, 49_000, *range(1, 201))
    stream.index(40_000)
    for seq in range(201, 206):
        stream.discover(100, 95, seq)
        stream.ingest(**{f"f{seq}": 1})
    stream.index(40)
    opened: list[str] = []
    reading = copies.read

    def read(uri: str) -> bytes:
        opened.append(uri)
        return reading(uri)

    monkeypatch.setattr(copies, "read", read)
    assert set(stream.found()) == {201, 202, 203, 204, 205}
    assert 5 <= len([uri for uri in opened if "_delta_log" in uri]) <= 20
    opened.clear()
    assert len(stream.found()) == 5
    assert opened == []
