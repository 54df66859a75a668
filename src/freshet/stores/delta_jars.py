"""Delta's connector for Spark: seven jars, fetched once by Spark's own Ivy, checked, and kept.

With the jars at hand Spark starts without a look at any repository, so a second start needs no
network. Everything else that the connector asks for is part of Spark already. Kafka's connector
is fetched in the same way, but only for those who ask for it, and so are S3's (`s3_jars`).
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pyspark

from freshet.errors import SetupError


class Jar(NamedTuple):
    """One artifact of the connector."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        """Its name in the cache."""
        return f"{self.name}-{self.version}.jar"


JARS: Final = (
    Jar(
        "io.delta",
        "delta-spark_4.2_2.13",
        "4.4.0",
        "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    ),
    Jar(
        "io.delta",
        "delta-storage",
        "4.4.0",
        "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    ),
    Jar(
        "io.delta",
        "delta-kernel-api",
        "4.4.0",
        "ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11",
    ),
    Jar(
        "io.delta",
        "delta-kernel-defaults",
        "4.4.0",
        "225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b",
    ),
    Jar(
        "io.delta",
        "delta-kernel-unitycatalog",
        "4.4.0",
        "cea22dfb4ac562b3cd27bf652697750e8336009d73fb06631363aaaad5345ffa",
    ),
    Jar(
        "io.unitycatalog",
        "unitycatalog-client",
        "0.6.0",
        "48257499a86b801a3e2372cec55ac226ca1c1c7eabe5c118e7302f29a1fdbc19",
    ),
    Jar(
        "io.unitycatalog",
        "unitycatalog-hadoop",
        "0.6.0",
        "c47b63c961c87102b9e1d63809a0915ba4c86b7652f57c8d39ca3a05b441a150",
    ),
)


KAFKA: Final = (
    Jar(
        "org.apache.spark",
        "spark-sql-kafka-0-10_2.13",
        "4.2.0",
        "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    ),
    # There is none of 4.2.0, which the connector asks for; it uses nothing that has changed.
    Jar(
        "org.apache.spark",
        "spark-token-provider-kafka-0-10_2.13",
        "4.0.0",
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    ),
    Jar(
        "org.apache.kafka",
        "kafka-clients",
        "3.9.2",
        "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
    ),
    Jar(
        "org.apache.commons",
        "commons-pool2",
        "2.13.1",
        "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
    ),
)


def cache_folder() -> Path:
    """Where jars are kept: `$XDG_CACHE_HOME/freshet/jars`, by default below `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "freshet" / "jars"


def fetched(java: str) -> list[Path]:
    """Delta's jars on this machine; fetches those that are missing, with the given Java."""
    return kept(java, JARS, "Delta's jars could not be fetched, and Bronze needs them")


def kafka_jars(java: str = "java") -> list[Path]:
    """Kafka's jars on this machine; fetches those that are missing, with the given Java."""
    return kept(java, KAFKA, "Kafka's jars could not be fetched")


def kept(java: str, jars: Sequence[Jar], problem: str) -> list[Path]:
    """Some jars on this machine; fetches those that are missing, or says the problem."""
    folder = cache_folder()
    missing = [jar for jar in jars if not _is_whole(folder / jar.file, jar)]
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        _fetch(java, missing, folder, problem)
    return [folder / jar.file for jar in jars]


def _is_whole(file: Path, jar: Jar) -> bool:
    return file.exists() and hashlib.sha256(file.read_bytes()).hexdigest() == jar.sha256


def _fetch(java: str, jars: Iterable[Jar], folder: Path, problem: str) -> None:
    with tempfile.TemporaryDirectory(prefix="freshet-ivy-") as name:
        scratch = Path(name)
        (scratch / "ivy.xml").write_text(_ivy_file(jars), encoding="utf-8")
        _run_ivy(java, scratch, problem)
        for jar in jars:
            arrived = scratch / jar.file
            if not _is_whole(arrived, jar):
                raise SetupError(f"{jar.file} did not arrive whole: try again")
            # Moved into place in one step, so that two starts at once do no harm.
            partial = folder / f".{jar.file}.{os.getpid()}"
            shutil.move(arrived, partial)
            partial.replace(folder / jar.file)


def _run_ivy(java: str, scratch: Path, problem: str) -> None:
    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    command = [java, "-jar", str(ivy), "-cache", str(scratch / "cache"), "-ivy"]
    command += [str(scratch / "ivy.xml"), "-retrieve"]
    command += [str(scratch / "[artifact]-[revision].[ext]")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = next((line for line in done.stdout.splitlines() if "not found" in line), "")
        raise SetupError(
            f"{problem}. The first start needs Maven Central; later ones do not. {reason.strip()}"
        )


def _ivy_file(jars: Iterable[Jar]) -> str:
    wanted = "".join(
        f'<dependency org="{jar.group}" name="{jar.name}" rev="{jar.version}"'
        ' conf="default->master" transitive="false"/>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="freshet" module="jars"/>'
        f"<dependencies>{wanted}</dependencies></ivy-module>"
    )
