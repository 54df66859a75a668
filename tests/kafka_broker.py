"""A Kafka broker of the test's own: one process that is broker and controller (KRaft)."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from maven_jars import java, kept_jars
from servers import answers, end, free_port

VERSION: Final = "4.1.0"
_FORMAT_S: Final = 60
_CLUSTER: Final = "MkU3OEVBNTcwNTJENDM2Qg"
_SETTINGS: Final = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
num.partitions=2
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=true
"""
_JAVA_OPTIONS: Final = ("-Xmx256m", "-XX:TieredStopAtLevel=1")


@contextmanager
def kafka_broker() -> Iterator[str]:
    """A broker by its address, empty at first; skips the test where Kafka cannot be had."""
    jars = kept_jars(f"kafka-{VERSION}", [("org.apache.kafka", "kafka_2.13", VERSION)])
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="freshet-kafka-", ignore_cleanup_errors=True) as name:
        file = Path(name) / "server.properties"
        file.write_text(_SETTINGS.format(port=port, controller=free_port(), folder=name))
        command = [java(), *_JAVA_OPTIONS, "-cp", f"{jars}/*"]
        storage = [*command, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(file)]
        subprocess.run(storage, cwd=name, check=True, capture_output=True, timeout=_FORMAT_S)
        with (Path(name) / "log").open("w+") as log:
            process = subprocess.Popen(
                [*command, "kafka.Kafka", str(file)], cwd=name, stdout=log, stderr=log
            )
            try:
                if not answers(process, port):
                    log.seek(0)
                    raise RuntimeError(f"Kafka does not answer: {log.read()[-2_000:]}")
                yield f"127.0.0.1:{port}"
            finally:
                end(process)
