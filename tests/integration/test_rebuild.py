"""A new index beside the live one: searchable all the time, switched at once, safe to kill."""

import json
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import lancedb
import pytest
from pyspark.sql import SparkSession

from freshet import Pipeline, Settings
from freshet.errors import (
    IndexRebuiltError,
    ModelMismatchError,
    RebuildActiveError,
    SchemaMismatchError,
    StreamFailedError,
    TableMissingError,
)
from freshet.monitor import RebuildStatus
from freshet.pipeline.rebuild_report import Progress, RebuildReport, RebuildStep

pytestmark = pytest.mark.timeout(600)

MakeSettings = Callable[..., Settings]
CHUNKS = {"16": 2, "8": 4}
"""Words in a piece → pieces of an article of 32 words."""


class KilledError(Exception):
    """What a test does to a rebuild."""


def article(key: str, version: int, **more: Any) -> dict[str, Any]:
    body = " ".join(f"{key}v{version}w{n}" for n in range(30))
    made = {"id": key, "record_version": version, "title": f"on {key}", "body": body}
    return made | {"section": "s"} | more


def pieces_of(words: int) -> dict[str, Any]:
    return {"chunk_tokens": words, "chunk_overlap": 0}


def land(folder: Path, name: str, *records: dict[str, Any]) -> None:
    (folder / "landing").mkdir(exist_ok=True)
    hidden = folder / "landing" / f".{name}"
    hidden.write_text("".join(json.dumps(record) + "\n" for record in records))
    hidden.rename(folder / "landing" / name)


def opened(folder: Path) -> Any:
    """The index, as its users open it."""
    return lancedb.connect(folder / "home" / "index").open_table("docs")


def rows_of(folder: Path) -> dict[tuple[str, int], str]:
    rows = opened(folder).to_arrow()
    columns = [rows.column(name).to_pylist() for name in ("key", "chunk", "text")]
    found = {(key, chunk): text for key, chunk, text in zip(*columns, strict=True)}
    assert len(found) == rows.num_rows, "a piece stands twice"
    return found


def keys_of(folder: Path) -> set[str]:
    if not list((folder / "home/index").glob("docs.lance/_versions/*")):
        return set()
    return {key for key, _ in rows_of(folder)}


def left_beside(folder: Path) -> list[str]:
    """What a rebuild has left."""
    home = folder / "home"
    places = [
        *home.glob("index/docs_rebuild*"),
        home / "checkpoints/rebuild",
        home / "rebuild.json",
    ]
    return [place.name for place in places if place.exists()]


def killed_at(step: RebuildStep, *, after_events: int = 0) -> Callable[[Progress], None]:
    def kill(progress: Progress) -> None:
        if progress.step is step and progress.events >= after_events:
            raise KilledError(step)

    return kill


@dataclass
class Reader:
    """Opens the index over and over; every look must show a whole index of one kind."""

    folder: Path
    keys: set[str]
    looks: int = 0
    kinds: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def look(self) -> None:
        table = opened(self.folder)
        rows = table.to_arrow().select(["key", "chunk", "text"]).to_pylist()
        kind = table.schema.metadata[b"freshet.chunk_tokens"].decode()
        pieces: dict[str, int] = {}
        for row in rows:
            pieces[row["key"]] = pieces.get(row["key"], 0) + 1
        self.looks += 1
        if kind not in self.kinds:
            self.kinds.append(kind)
        if missing := self.keys - pieces.keys():
            self.problems.append(f"{len(missing)} keys are missing at version {table.version}")
        if mixed := {key for key, count in pieces.items() if count != CHUNKS[kind]}:
            self.problems.append(f"{len(mixed)} keys have not {CHUNKS[kind]} pieces of {kind}")

    @contextmanager
    def reading(self) -> Any:
        ended = threading.Event()

        def read() -> None:
            while not ended.wait(0.02):
                self.look()

        thread = threading.Thread(target=read)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


@contextmanager
def running(pipeline: Pipeline) -> Any:
    """A continuous run in a thread, to be waited for; it must still be alive at the end."""
    stop, failures = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            pipeline.run(stop=stop)
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    def wait_until(is_done: Callable[[], bool], patience_s: float = 200) -> None:
        deadline = time.monotonic() + patience_s
        while not is_done():
            assert not failures, failures
            assert time.monotonic() < deadline, "it did not happen"
            time.sleep(0.05)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield wait_until
        assert not failures, failures
        assert thread.is_alive()
    finally:
        stop.set()
        thread.join()


def test_a_rebuild_beside_a_running_stream_is_seen_by_nobody_until_it_is_whole(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    """The run goes on by itself, once after a rebuild that died, and once after the switch."""
    quick = {"trigger": "200 milliseconds"}
    old = settings(pipeline=quick, gold=pieces_of(16))
    new = settings(pipeline=quick, gold=pieces_of(8))
    first = [article(f"k{n}", 2) for n in range(100)]
    land(tmp_path, "1.json", *first, article("dead", 1))
    live = Pipeline(old, spark=spark, reload=lambda: new)
    reader = Reader(tmp_path, {f"k{n}" for n in range(100)})
    with running(live) as wait_until:
        wait_until(lambda: "dead" in keys_of(tmp_path))
        land(tmp_path, "2.json", article("dead", 5, is_deleted=True))
        wait_until(lambda: "dead" not in keys_of(tmp_path))
        with reader.reading():
            with pytest.raises(KilledError):
                Pipeline(new, spark=spark).rebuild(on_progress=killed_at(RebuildStep.SWITCH))
            land(tmp_path, "3.json", article("after-the-dead-rebuild", 1))
            wait_until(lambda: "after-the-dead-rebuild" in keys_of(tmp_path))
            assert reader.kinds == ["16"]
            report = rebuilt_while_files_land(spark, tmp_path, new)
            assert report.is_continued
            land(tmp_path, "9.json", article("after-the-switch", 1), article("dead", 4))
            wait_until(lambda: "after-the-switch" in keys_of(tmp_path))
            reader.look()
    assert (reader.problems, reader.kinds) == ([], ["16", "8"])
    assert reader.looks > 20
    assert "dead" not in keys_of(tmp_path), "a late older event brought a deleted record back"
    assert Pipeline(new, spark=spark).verify().ok
    assert left_beside(tmp_path) == []
    check_old_version(tmp_path, report)
    check_table(tmp_path, live)


def rebuilt_while_files_land(spark: SparkSession, folder: Path, new: Settings) -> RebuildReport:
    names = iter(RebuildStep)

    def land_more(progress: Progress) -> None:
        with suppress(StopIteration):
            step = next(names)
            land(folder, f"at-{step}.json", article(f"at-{step}", 1), article("k1", 3 + len(step)))

    return Pipeline(new, spark=spark).rebuild(on_progress=land_more)


def check_old_version(folder: Path, report: RebuildReport) -> None:
    """It can be opened by its name, with its own columns and metadata."""
    old = opened(folder)
    old.checkout(report.old_name)
    assert old.version == report.old_version
    assert old.schema.metadata[b"freshet.chunk_tokens"] == b"16"
    keys = old.to_arrow().column("key").to_pylist()
    assert {key: keys.count(key) for key in ("k1", "k2")} == {"k1": 2, "k2": 2}
    assert "dead" not in keys


def check_table(folder: Path, live: Pipeline) -> None:
    """What a table must be for the sink to go on with it, and that no batch landed twice."""
    dataset = lance.dataset(str(folder / "home/index/docs.lance"))
    assert dataset.has_stable_row_ids
    assert [index.name for index in dataset.describe_indices()] == ["key_idx"]
    ids = dataset.to_table(columns=[], with_row_id=True).column("_rowid").to_pylist()
    assert len(ids) == len(set(ids))
    landed = [row["batch_id"] for row in live.ledger() if row["status"] != "failed"]
    assert landed == list(range(len(landed)))
    assert len({row["table_id"] for row in live.ledger() if row["table_id"]}) == 1


@pytest.mark.long
def test_a_rebuild_that_dies_leaves_the_index_as_it_was_and_the_next_one_ends_it(
    spark: SparkSession, tmp_path: Path, settings: MakeSettings
) -> None:
    small = {"max_rows_per_batch": 160}
    land(tmp_path, "1.json", *(article(f"k{n}", 1) for n in range(200)))
    land(tmp_path, "2.json", article("k0", 2, is_deleted=True), article("k1", 2))
    Pipeline(settings(pipeline=small, gold=pieces_of(16)), spark=spark).run(once=True)
    before, version = rows_of(tmp_path), opened(tmp_path).version
    other = settings(pipeline=small)
    with pytest.raises(ModelMismatchError, match=r"run `freshet rebuild`$"):
        Pipeline(other, spark=spark).run(once=True)
    with pytest.raises(StreamFailedError, match="stopped: fill"):
        Pipeline(other, spark=spark).rebuild(
            on_progress=killed_at(RebuildStep.FILL, after_events=1)
        )
    assert (rows_of(tmp_path), opened(tmp_path).version) == (before, version)

    # Other settings again: what there is of the first one is of no use.
    new = Pipeline(
        settings(pipeline=small, gold=pieces_of(8) | {"attributes": ["title", "section"]}),
        spark=spark,
    )
    with pytest.raises(SchemaMismatchError, match=r"run `freshet rebuild`$"):
        Pipeline(
            settings(pipeline=small, gold=pieces_of(16) | {"attributes": ["title"]}), spark=spark
        ).run(once=True)
    with pytest.raises(KilledError):
        new.rebuild(keep_old=timedelta(0), on_progress=another_and_then_killed(new))
    assert (rows_of(tmp_path), opened(tmp_path).version) == (before, version)
    assert new.status().rebuild == RebuildStatus(202, 202, is_active=False)

    # And once more, right after the commit.
    with pytest.raises(KilledError):
        new.rebuild(keep_old=timedelta(0), on_progress=killed_at(RebuildStep.CLEAR))
    assert opened(tmp_path).schema.names[5:7] == ["title", "section"]
    assert opened(tmp_path).tags.list() == {}, "the old one was not to be kept"
    assert "docs_rebuild.lance" in left_beside(tmp_path)
    switched = opened(tmp_path).version
    report = new.rebuild()
    assert (report.events, report.rows, report.is_continued) == (0, 199 * 4, True)
    assert opened(tmp_path).version == switched, "only clearing was left to do"
    assert left_beside(tmp_path) == []

    # A run goes on after it where its own checkpoint stood.
    land(tmp_path, "3.json", article("late", 1), article("k0", 1), article("k2", 2))
    new.run(once=True)
    last = new.ledger()[-1]
    assert (last["rows_in"], last["rows_upserted"], last["rows_stale"]) == (3, 2, 1)
    assert new.verify().ok
    assert keys_of(tmp_path) == {"late"} | {f"k{n}" for n in range(1, 200)}


def another_and_then_killed(pipeline: Pipeline) -> Callable[[Progress], None]:
    """A second rebuild is refused while one is under way."""

    def tell(progress: Progress) -> None:
        if progress.step is RebuildStep.SWITCH:
            with pytest.raises(RebuildActiveError, match="a rebuild is under way: process"):
                pipeline.rebuild()
            with pytest.raises(RebuildActiveError):
                pipeline.forget_rebuilds()
            status = pipeline.status().rebuild
            assert status is not None
            assert status.is_active
            raise KilledError

    return tell


def test_without_an_index_there_is_nothing_to_rebuild(
    tmp_path: Path, settings: MakeSettings
) -> None:
    with pytest.raises(TableMissingError, match="there is no index"):
        Pipeline(settings()).rebuild()
    assert not (tmp_path / "home").exists()


def test_a_run_that_cannot_load_its_settings_again_says_what_to_do(
    tmp_path: Path, settings: MakeSettings
) -> None:
    elsewhere = settings(pipeline={"home": str(tmp_path / "elsewhere")})
    for reload in (None, lambda: elsewhere):
        with pytest.raises(IndexRebuiltError, match="start the run again with the new settings"):
            Pipeline(settings(), reload=reload)._reloaded()
