"""Landing zone and home on S3, command by command, each in a process of its own.

Spark needs further jars there, so these tests do not share the session of all others.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from histories import indexed, recount, settings_text, shuffled_history
from servers import counting_s3_server

pytestmark = pytest.mark.timeout(900)

BUCKET = "remote"
HOME, ZONE = f"s3://{BUCKET}/a/home", f"s3://{BUCKET}/in"
FRESHET = [sys.executable, "-c", "from freshet.cli import main; main()"]

RACE = """\
import os, sys
from pathlib import Path
from deltalake import DeltaTable, write_deltalake
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from freshet.settings import SparkSettings
from freshet.spark import start_session
from freshet.stores.s3_access import let_in
conf = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
settings = SparkSettings(master="local[2]", conf=conf)
spark = start_session(settings, name="race", log_file=Path("spark.log"), has_s3=True)
home = sys.argv[1]
let_in([home])
jvm, hadoop = spark._jvm, spark._jsc.hadoopConfiguration()

def created(uri):
    path = jvm.org.apache.hadoop.fs.Path(uri)
    return path.getFileSystem(hadoop).create(path, False)

def outcome(close):
    try:
        close()
    except Py4JJavaError as error:
        return error.java_exception.getClass().getName()
    return "written"

# Of a Delta table: Spark is about to commit a version that delta-rs then commits first.
table = f"{home}/race"
write_deltalake(table, pa.table({"a": [1]}))
late = created(f"{table}/_delta_log/00000000000000000001.json")
write_deltalake(table, pa.table({"a": [2]}), mode="append")
print(outcome(late.close))
spark.range(3, 5).selectExpr("id as a").write.format("delta").mode("append").save(table)
print(sorted(DeltaTable(table).to_pyarrow_table()["a"].to_pylist()), DeltaTable(table).version())

# Of a checkpoint: two drivers plan the same batch.
manager = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
path = jvm.org.apache.hadoop.fs.Path(f"{home}/checkpoint/offsets/7")
hadoop.set("spark.sql.streaming.checkpointFileManagerClass", "freshet.S3Checkpoints")
files = manager.create(path, hadoop)
one, two = files.createAtomic(path, False), files.createAtomic(path, False)
two.write(bytearray(b"second"))
print(outcome(two.close), outcome(one.close), files.exists(path))
given_up = files.createAtomic(jvm.org.apache.hadoop.fs.Path(f"{home}/checkpoint/offsets/8"), False)
given_up.write(bytearray(b"half"))
given_up.cancel()
print(files.exists(jvm.org.apache.hadoop.fs.Path(f"{home}/checkpoint/offsets/8")))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with counting_s3_server() as running:
        running.make_bucket(BUCKET)
        yield running


def environment(server: Any, **more: str) -> dict[str, str]:
    """That of a person who knows nothing but the server and the keys."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return {**own, **server.access, **more}


@pytest.fixture(scope="module")
def folder(server: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Settings, and a pipeline that has run once."""
    place = tmp_path_factory.mktemp("remote")
    told: dict[str, dict[str, Any]] = {"pipeline": {"home": HOME}, "landing": {"path": ZONE}}
    (place / "freshet.toml").write_text(settings_text(**told))
    shuffled_history(keys=200, events=600, files=3, seed=9, unreadable=1).land(place / "landing")
    for file in (place / "landing").glob("*.json"):
        server.put(BUCKET, f"in/{file.name}", file.read_bytes())
    freshet(server, place, "run", "--once")
    return place


def freshet(server: Any, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [*FRESHET, *arguments],
        cwd=folder,
        env=environment(server),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    return done.stdout


def told(server: Any, folder: Path, *arguments: str) -> Any:
    return json.loads(freshet(server, folder, *arguments, "--json"))


def reading(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**server.access, "AWS_ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(name, value)


def test_what_landed_on_s3_is_in_the_index_there_and_commands_tell_of_it(
    server: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading(server, monkeypatch)
    expected = recount(folder / "landing")
    assert indexed(HOME) == expected
    status = told(server, folder, "status")
    assert status["files"] == {"seen": 3, "waiting": 0, "waiting_bytes": 0}
    assert (status["bronze"]["rows"], status["bronze"]["errors"]) == (601, 1)
    key, (text, _) = next(iter(expected.items()))
    hits = told(server, folder, "search", text, "--k", "1", "--mode", "vector")
    assert [hit["key"] for hit in (hits if isinstance(hits, list) else hits["hits"])] == [key]
    files = told(server, folder, "files")
    assert len(files if isinstance(files, list) else files["files"]) == 3
    assert "broken" in freshet(server, folder, "quarantine", "list")
    assert "title" in freshet(server, folder, "schema", "history", "--json")
    assert HOME in freshet(server, folder, "checkpoint", "backup")
    assert "index and ledger" in freshet(server, folder, "checkpoint", "verify")
    freshet(server, folder, "optimize")
    assert not (folder / "s3:").exists(), "an address was taken for a folder"


@pytest.mark.long
def test_the_commands_that_need_spark_work_on_s3(server: Any, folder: Path) -> None:
    assert told(server, folder, "verify")["ok"] is True
    freshet(server, folder, "profile", "--seconds", "1")
    freshet(server, folder, "rebuild")
    assert told(server, folder, "verify")["ok"] is True
    freshet(server, folder, "quarantine", "retry")
    freshet(server, folder, "run", "--once")
    freshet(server, folder, "checkpoint", "restore", "--force")
    freshet(server, folder, "run", "--once")
    assert told(server, folder, "verify")["ok"] is True


def test_on_s3_spark_knows_that_another_came_first(server: Any, tmp_path: Path) -> None:
    place = f"s3://{BUCKET}/race"
    done = subprocess.run(
        [sys.executable, "-c", RACE, place],
        cwd=tmp_path,
        env=environment(server),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    assert done.stdout.splitlines() == [
        "org.apache.hadoop.fs.FileAlreadyExistsException",
        "[1, 2, 3, 4] 2",
        "written org.apache.hadoop.fs.FileAlreadyExistsException True",
        "False",
    ]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, f"{HOME}/"),
        ({"FRESHET_LANDING__PATH": "s3://no-such-bucket/in"}, "s3://no-such-bucket/in"),
    ],
)
def test_a_store_that_cannot_be_reached_is_told_in_one_sentence(
    server: Any, folder: Path, more: dict[str, str], sentence: str
) -> None:
    done = subprocess.run(
        [*FRESHET, "run", "--once"],
        cwd=folder,
        env=environment(server, **more),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {1, 2}
    assert "Traceback" not in done.stderr
    assert sentence in done.stderr.replace("\n", " ")
