"""Kafka by a real broker: what each mode sends, and what a batch that is run again sends.

Spark gets Kafka's jars when it starts, so the queries run in a process of their own: this file.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from test_examples import blocks, check_sessions, land, run
from test_modes import CHANGES, COUNTED, EACH, Desk

from checkpoints import forget_newest_commit
from freshet.errors import SetupError
from freshet.settings import SparkSettings
from freshet.sink import Mode
from freshet.sink.modes import Kind, allowed
from freshet.spark import find_java, start_session
from freshet.stores import delta_jars
from kafka_broker import kafka_broker

TESTS = Path(__file__).parent.parent
AGAIN = "again"
SESSIONS = "sessions"
_JOB_S = 240

Sent = dict[str, list[dict[str, Any]]]
"""The records of each topic: those of a key are in their order."""


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sent]:
    folder = tmp_path_factory.mktemp("kafka")
    try:
        delta_jars.kafka_jars(find_java())
    except SetupError as error:
        pytest.skip(str(error))
    with kafka_broker() as servers:
        command = [sys.executable, __file__, servers, str(folder)]
        path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=_JOB_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3_000:]
        yield json.loads((folder / "sent.json").read_text())


@pytest.mark.parametrize("mode", allowed(Kind.KAFKA))
def test_kafka_is_sent_what_the_mode_says(sent: Sent, mode: str) -> None:
    records = sent[mode]
    rows = [json.loads(record["value"]) for record in records]
    assert [record["key"] for record in records] == [row["word"] for row in rows]
    if mode == Mode.APPEND:
        assert sorted(row["word"] for row in rows) == EACH
        return
    counts = [(row["word"], row["count"]) for row in rows]
    unchanged = [("b", 1)] if mode == Mode.COMPLETE else []
    assert sorted(counts) == sorted(CHANGES + unchanged)
    assert dict(counts) == COUNTED, "the last record of a key does not hold"


def test_a_batch_that_is_run_again_is_sent_again(sent: Sent) -> None:
    words = Counter(record["key"] for record in sent[AGAIN])
    assert words == Counter([*EACH, "c", "a"]), "the words of the second batch come twice"


def test_sessions_are_sent_when_they_are_closed(sent: Sent) -> None:
    records = sent[SESSIONS]
    assert sorted(record["key"] for record in records) == ["ann", "bob"]
    check_sessions([json.loads(record["value"]) for record in records])


def send(spark: SparkSession, servers: str, folder: Path) -> None:
    """Runs all queries; each has a topic of its own."""
    for topic in (*Mode, AGAIN):
        (folder / topic).mkdir()
        desk = Desk(spark, folder / topic)
        told = {"topic": topic, "servers": servers, "checkpoint": str(desk.checkpoint)}
        mode = Mode.APPEND if topic == AGAIN else topic
        desk.native("kafka", mode, key="word", **told)
        if topic == AGAIN:
            forget_newest_commit(desk.checkpoint)
            desk.native("kafka", mode, key="word", **told)
    land(folder)
    sessions, _, to_kafka = blocks("Sessions to files, or to Kafka")
    run(spark, folder, [sessions, to_kafka], servers)


def received(spark: SparkSession, servers: str) -> Sent:
    """All records of all topics."""
    topics = [*Mode, AGAIN, SESSIONS]
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", servers)
    records = source.option("subscribe", ",".join(topics)).load()
    texts = ["topic", "CAST(key AS STRING) key", "CAST(value AS STRING) value"]
    rows = records.orderBy("partition", "offset").selectExpr(*texts).collect()
    return {topic: [row.asDict() for row in rows if row["topic"] == topic] for topic in topics}


def main(servers: str, folder: Path) -> None:
    """The process of its own."""
    conf = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    settings = SparkSettings(master="local[2]", conf=conf)
    log_file = folder / "spark.log"
    spark = start_session(settings, name="kafka", log_file=log_file, has_kafka=True)
    try:
        send(spark, servers, folder)
        (folder / "sent.json").write_text(json.dumps(received(spark, servers)))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
