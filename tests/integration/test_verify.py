"""verify must find every way in which an index can be wrong, and repair must put it right.

All tests share one pipeline: each leaves an index that is right, which is what a repair is for.
"""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from freshet import Pipeline, Settings, schemas
from freshet.cli.app import app
from freshet.clock import utc_now
from freshet.errors import FencedError, SettingsError, SinkError
from freshet.pipeline.content import listed, sampled
from freshet.settings import from_values
from freshet.sink import Ledger, Step
from freshet.sink.leases import Lease
from freshet.sink.target import Target
from freshet.testing import FailAt, InjectedFaultError, Moment
from freshet.verify import Sample

LONG = " ".join(f"w{n}" for n in range(20))
KEYS = 12
"""Records of the first file; one more is long, and one is deleted."""
OLD = "P010 P010 P010"


def values_of(folder: Path) -> dict[str, dict[str, Any]]:
    return {
        "pipeline": {"name": "docs", "home": str(folder / "home")},
        "landing": {"path": str(folder / "landing"), "settle": "0 seconds"},
        "changes": {"envelope": "plain", "key": ["id"], "version": "record_version"},
        "gold": {
            "text": ["title", "body"],
            "attributes": ["section"],
            "chunk_tokens": 8,
            "chunk_overlap": 0,
        },
        "embedding": {"provider": "fake"},
    }


def record(key: str, version: int = 1, body: str = "b", **more: Any) -> dict[str, Any]:
    return {
        "id": key, "record_version": version, "title": "t", "body": body, "section": "s", **more
    }  # fmt: skip


def land(pipeline: Pipeline, name: str, records: list[dict[str, Any]]) -> None:
    lines = "".join(json.dumps(one) + "\n" for one in records)
    (Path(pipeline.settings.landing.path) / name).write_text(lines)


@pytest.fixture(scope="module")
def shared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    folder = tmp_path_factory.mktemp("verify")
    (folder / "landing").mkdir()
    made = Pipeline(from_values(values_of(folder)), spark=spark)
    records = [record(f"k{n}", body=f"b{n}") for n in range(KEYS)]
    gone = [record("gone"), record("gone", 2, is_deleted=True)]
    land(made, "a.json", [*records, record("long", body=LONG), *gone])
    made.run(once=True)
    return made


@pytest.fixture
def pipeline(shared: Pipeline) -> Iterator[Pipeline]:
    before = len(index_of(shared).to_table(columns=["key"]))
    yield shared
    assert len(index_of(shared).to_table(columns=["key"])) == before, "a test left it wrong"


def index_of(pipeline: Pipeline) -> lance.LanceDataset:
    return lance.dataset(pipeline.home.index)


def copy_row(pipeline: Pipeline, original: str, /, **changes: object) -> None:
    dataset = index_of(pipeline)
    [row] = dataset.to_table(filter=f"key = '{original}' AND chunk = 0").to_pylist()
    lance.write_dataset(
        pa.Table.from_pylist([row | changes], schema=dataset.schema), dataset, mode="append"
    )


def rows_of(pipeline: Pipeline) -> list[dict[str, Any]]:
    """All that an index should have in common with one that was never broken."""
    columns = ["key", "chunk", "text", "vector", "section", "record_version", "content_hash"]
    found = index_of(pipeline).to_table(columns=columns).to_pylist()
    return sorted(found, key=lambda row: (row["key"], row["chunk"]))


def test_every_kind_of_problem_is_found_and_repaired(pipeline: Pipeline) -> None:
    right = rows_of(pipeline)
    index_of(pipeline).delete("key = 'k0' OR key = 'k1'")
    copy_row(pipeline, "k2", key="ghost")
    copy_row(pipeline, "k2", key="gone")  # deleted in Gold, and come back
    index_of(pipeline).update({"record_version": f"'{OLD}'"}, where="key = 'k3'")
    index_of(pipeline).update({"record_version": "'Z'"}, where="key = 'k4'")
    index_of(pipeline).update({"section": "'elsewhere'"}, where="key = 'k5'")
    index_of(pipeline).update({"text": "'forged'"}, where="key = 'k6'")
    index_of(pipeline).update({"content_hash": "'forged'"}, where="key = 'k7'")
    index_of(pipeline).delete("key = 'long' AND chunk = 1")
    copy_row(pipeline, "k8")
    copy_row(pipeline, "k9", chunk=1)

    done = pipeline.repair()

    assert done.repair is not None
    before = done.repair.before
    assert before is not None
    assert {name: [one.key for one in some] for name, some in before.examples.items()} == {
        "missing": ["k0", "k1"],
        "orphan": ["ghost", "gone"],
        "stale": ["k3", "k4", "k5"],
        "wrong_text": ["k6", "k7", "k9", "long"],
        "duplicate": ["k8"],
    }
    counts = [before.missing, before.orphan, before.stale, before.wrong_text, before.duplicate]
    assert (before.ok, before.gold, before.index, counts) == (False, 13, 13, [2, 2, 3, 4, 1])
    said = {
        one.key: (one.expected, one.actual) for some in before.examples.values() for one in some
    }
    assert said["k0"][1] == said["ghost"][0] == "nothing"
    assert said["k3"][1] == f"version {OLD}"
    assert said["k5"] == ('attributes {"section":"s"}', 'attributes {"section":"elsewhere"}')
    assert said["k7"] == ("the hash of its text", "another hash")
    assert said["k8"] == ("every piece once", "1 rows too many")
    assert done.verdict.as_dict() == {
        "ok": True, "gold": 13, "index": 13, "missing": 0, "orphan": 0, "stale": 0,
        "wrong_text": 0, "duplicate": 0, "held": 0,
    }  # fmt: skip
    assert (done.repair.rounds, done.repair.keys) == (1, 12)
    assert (done.repair.written, done.repair.deleted) == (10, 2)
    assert rows_of(pipeline) == right


@pytest.mark.long
def test_a_run_goes_on_after_a_repair_and_what_was_deleted_stays_dead(pipeline: Pipeline) -> None:
    copy_row(pipeline, "k2", key="gone")
    lance.dataset(pipeline.home.tombstones).delete("key = 'gone'")
    batches = len(pipeline.ledger())
    assert pipeline.repair().verdict.ok
    land(pipeline, "b.json", [record("k2", 5, "changed"), record("gone", 1, "late")])
    pipeline.run(once=True)
    [new] = pipeline.ledger()[batches:]
    assert (new["status"], new["rows_upserted"], new["rows_stale"]) == ("committed", 1, 1)
    assert pipeline.verify().ok


@pytest.mark.long
@pytest.mark.parametrize("moment", ["after:commit:0", "after:bury:0"])
def test_a_repair_that_is_cut_off_does_no_harm(
    pipeline: Pipeline, spark: SparkSession, moment: str
) -> None:
    index_of(pipeline).delete("key = 'k1'")
    copy_row(pipeline, "k2", key="ghost")
    fault = FailAt(Moment.parse(moment))
    with pytest.raises(InjectedFaultError):
        Pipeline(pipeline.settings, spark=spark, probe=fault).repair()
    assert fault.struck
    version = len(pipeline.ledger())
    land(pipeline, f"{version}.json", [record("k3", version, "changed")])
    Pipeline(pipeline.settings, spark=spark).run(once=True)
    assert [row["status"] for row in pipeline.ledger()[version:]] == ["committed"]
    again = pipeline.repair()
    assert again.verdict.ok
    assert (again.repair is None) == (moment == "after:commit:0")


@pytest.mark.long
def test_rows_that_change_during_a_repair_are_compared_again(
    pipeline: Pipeline, spark: SparkSession
) -> None:
    def interfere(step: Step, when: str, batch_id: int) -> None:
        if (step, when) == (Step.PREPARE, "before") and not seen:
            seen.append(batch_id)
            index_of(pipeline).delete("key = 'k2' OR key = 'k3'")

    seen: list[int] = []
    index_of(pipeline).update({"section": "'x'"}, where="key = 'k3'")
    done = Pipeline(pipeline.settings, spark=spark, probe=interfere).repair()
    assert seen
    assert done.verdict.ok


def test_a_repair_ends_when_a_run_takes_the_index(pipeline: Pipeline, spark: SparkSession) -> None:
    def take_over(step: Step, when: str, batch_id: int) -> None:
        if (step, when) == (Step.BURY, "before"):
            home = pipeline.home
            target = Target(home.index, home.name, "index")
            Lease.take(Ledger(home.ledger).leases, target, utc_now)

    version = index_of(pipeline).version
    copy_row(pipeline, "k2", key="ghost")
    with pytest.raises(FencedError):
        Pipeline(pipeline.settings, spark=spark, probe=take_over).repair()
    assert index_of(pipeline).version == version + 1  # nothing but the ghost
    index_of(pipeline).delete("key = 'ghost'")


def test_a_repair_refuses_to_end_a_run_unless_it_must(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = Ledger(pipeline.home.ledger).leases
    target = Target(pipeline.home.index, "docs", "index")
    with monkeypatch.context() as other:
        other.setattr("os.getpid", lambda: 1)  # which runs for ever
        Lease.take(leases, target, utc_now)
    with pytest.raises(SinkError, match=r"process 1 on .* is running.*Stop `freshet run` first"):
        pipeline.repair()
    with monkeypatch.context() as other:
        other.setattr("platform.node", lambda: "elsewhere")
        Lease.take(leases, target, utc_now)
    with pytest.raises(SinkError, match=r"on elsewhere was the last .* may be running"):
        pipeline.repair()
    index_of(pipeline).update({"section": "'x'"}, where="key = 'k3'")
    assert pipeline.repair(force=True).verdict.ok


def test_a_sample_says_what_it_shows_and_finds_what_is_in_it(pipeline: Pipeline) -> None:
    found = pipeline.verify(sample=0.5, seed=7)
    assert found.ok
    assert 0 < found.keys < 13
    assert found.gold == found.index == found.keys
    assert found.as_dict()["sample"] == {
        "share": 0.5, "seed": 7, "keys": found.keys, "of_keys": 13,
        "wrong_share_below": min(1.0, 3 / found.keys),
    }  # fmt: skip
    index_of(pipeline).update({"section": "'x'"}, where="true")
    bad = pipeline.repair(sample=6.5, seed=7)  # of 13 keys the same half
    assert bad.repair is not None
    assert bad.repair.before is not None
    assert bad.repair.before.stale == bad.repair.keys == found.keys
    assert bad.verdict.ok
    assert index_of(pipeline).count_rows("section = 'x' AND chunk = 0") == 13 - found.keys
    index_of(pipeline).update({"section": "'s'"}, where="true")
    with pytest.raises(SettingsError, match="a sample of 0 shows nothing"):
        pipeline.verify(sample=0)


def test_the_command_repairs_reports_and_tells_the_truth(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = []
    for name, section in values_of(Path(pipeline.home.root).parent).items():
        pairs = (f"{key} = {json.dumps(value)}" for key, value in section.items())
        lines += [f"[{name}]", *pairs]
    (tmp_path / "freshet.toml").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    run = lambda *words: CliRunner().invoke(app, ["verify", *words])  # noqa: E731
    reports = Path(pipeline.home.reports)
    index_of(pipeline).update({"section": "'x'"}, where="key = 'k3'")

    found = run("--json", "--no-report")
    assert (found.exit_code, json.loads(found.stdout)["stale"]) == (1, 1)
    assert not list(reports.glob("*.json"))
    found = run("--repair")
    assert found.exit_code == 0
    assert "repaired 1 records" in found.stdout
    assert "equal key by key" in found.stdout
    [report] = reports.glob("verify-*.json")
    assert str(report) in found.stdout.replace("\n", "")
    told = json.loads(report.read_text())
    assert (told["ok"], told["repair"]["first_keys"]) == (True, ["k3"])
    assert told["repair"]["before"]["examples"]["stale"][0]["key"] == "k3"
    assert told["index_version"] == index_of(pipeline).version
    assert told["bronze_version"] >= 1
    found = run("--sample", "0.5", "--seed", "7")
    assert found.exit_code == 0
    assert "with 95 % confidence" in found.stdout
    assert run("--force").exit_code == 2


def random_events(seed: int, events: int) -> list[dict[str, Any]]:
    """Events of a tool that leaves values out; records change their keys, and all are truncated."""
    chooser = random.Random(seed)
    made = []
    for number in range(events):
        key = f"k{chooser.randrange(30)}"
        old = f"k{chooser.randrange(30)}" if chooser.random() < 0.3 else None
        is_left_out, is_deleted = chooser.random() < 0.4, chooser.random() < 0.1
        image = {"id": key, "title": f"t{number}", "section": "s"}
        image |= {} if is_left_out else {"body": f"b{number}"}
        made.append(
            dict.fromkeys(schemas.CHANGES.names)
            | {
                "key": key, "record_version": f"P{number:04}", "is_deleted": is_deleted,
                "op": "d" if is_deleted else "u", "raw": json.dumps(image), "seq": 0,
                "row": number, "envelope": "debezium", "old_key": None if is_deleted else old,
                "unavailable": '["body"]' if is_left_out and not is_deleted else None,
            }
        )  # fmt: skip
    emptied = {"key": None, "record_version": "P0020", "is_deleted": False, "op": "truncate"}
    return [*made, dict.fromkeys(schemas.CHANGES.names) | emptied]


def test_gold_of_some_keys_is_gold_of_all_keys_seen_through_a_filter(
    spark: SparkSession, settings: Callable[..., Settings]
) -> None:
    chosen = settings(changes={"envelope": "debezium"})
    content = Pipeline(chosen, spark=spark)._index.content()
    rows = pa.Table.from_pylist(random_events(seed=3, events=150), schema=schemas.CHANGES)
    events = spark.createDataFrame(rows).persist()
    whole = {row["key"]: row for row in content.gold(events).collect()}
    wanted = {f"k{n}" for n in range(0, 30, 3)}
    some = content.gold(events, listed(spark, wanted)).collect()
    assert {row["key"]: row for row in some} == {k: whole[k] for k in wanted & whole.keys()}
    sample = Sample.of(0.4, keys=30, seed=1)
    assert sample is not None
    some = content.gold(events, sampled(sample)).collect()
    assert 0 < len(some) < len(whole)
    assert all(whole[row["key"]] == row for row in some)
    chosen_keys = spark.createDataFrame([(key,) for key in whole], "key string")
    assert len(some) == chosen_keys.where(sample.holds()).count()
    events.unpersist()


def test_events_that_are_not_indexed_yet_are_missing(
    pipeline: Pipeline, spark: SparkSession
) -> None:
    event = ("new", "P019", False, '{"title":"x"}', None)
    frame = spark.createDataFrame(
        [event], "key string, record_version string, is_deleted boolean, raw string, error string"
    )
    frame.write.format("delta").mode("append").save(pipeline.home.bronze)
    assert pipeline.verify().missing == 1


def test_records_of_another_envelope_stop_the_first_batch_and_are_not_indexed(
    spark: SparkSession, settings: Callable[..., Settings]
) -> None:
    chosen = settings()
    pipeline = Pipeline(chosen, spark=spark)
    pipeline.run(once=True)  # there is nothing to look at yet
    event = {"op": "c", "before": None, "after": record("a"), "source": {"lsn": 1}, "ts_ms": 1}
    land(pipeline, "a.json", [event])
    with pytest.raises(SettingsError, match=r"look like debezium.*remove the folder"):
        Pipeline(chosen, spark=spark).run(once=True)
    assert index_of(pipeline).count_rows() == 0
