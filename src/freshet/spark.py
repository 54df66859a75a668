"""The Spark session that the command line starts: with Delta, quiet, fit for small batches."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from freshet.errors import SetupError
from freshet.settings import SparkSettings
from freshet.stores import delta_jars, local_files
from freshet.stores.s3_access import S3Access
from freshet.stores.s3_jars import s3_jars

_OLDEST_JAVA: Final = 17
_COMPILE_ALL: Final = "-XX:-DontCompileHugeMethods"
_LARGEST_LOG_BYTES: Final = 16 << 20


def start_session(
    settings: SparkSettings,
    *,
    name: str,
    log_file: Path,
    has_kafka: bool = False,
    has_s3: bool = False,
) -> SparkSession:
    """The session of this process, started if there is none; what Spark prints goes to the log."""
    if SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate()
    java = find_java()
    jars = [*delta_jars.fetched(java), *(delta_jars.kafka_jars(java) if has_kafka else ())]
    jars += s3_jars(java) if has_s3 else ()
    access = S3Access.of(os.environ).spark_conf() if has_s3 else {}
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("LANCE_LOG", "error")
    conf = SparkConf().setAll(list(configuration(settings, name, jars, access).items()))
    _start_context(conf, log_file)
    return SparkSession.builder.getOrCreate()


def configuration(
    settings: SparkSettings, name: str, jars: list[Path], access: Mapping[str, str]
) -> dict[str, str]:
    """All Spark settings, and how to get to a store; those of `freshet.toml` win."""
    cores = _cores(settings.master)
    own = {
        "spark.app.name": f"freshet {name}",
        "spark.master": settings.master,
        "spark.driver.memory": settings.driver_memory,
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        # Re-planning between stages costs a small batch more than it saves, and would merge the
        # partitions that the model is to run on side by side.
        "spark.sql.adaptive.enabled": "false",
        # TCP to the Python workers waits 40 ms for delayed acknowledgements now and then.
        "spark.python.unix.domain.socket.enabled": "true",
        # To remember for each expression which line of Python made it doubles the time that a plan
        # takes to be built.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.databricks.delta.snapshotPartitions": "2",
        # The JVM would leave the methods that Spark makes of long plans uncompiled.
        "spark.driver.extraJavaOptions": _COMPILE_ALL,
        "spark.executor.extraJavaOptions": _COMPILE_ALL,
        # Ingest must not wait behind a batch that is being embedded.
        "spark.scheduler.mode": "FAIR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.executorEnv.LANCE_LOG": "error",
    }
    if settings.master.startswith("local"):
        own |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    conf = {**own, **access, **settings.conf}
    is_one_process = settings.master == "local" or settings.master.startswith("local[")
    return local_files.added_to(conf) if is_one_process else conf


def find_java() -> str:
    """The Java to run; a clear sentence if there is none, or none new enough."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
    if java is None:
        place = f"below JAVA_HOME ({home})" if home else "on the PATH"
        raise SetupError(f"Java {_OLDEST_JAVA} or newer is needed, and there is none {place}")
    version = _java_version(java)
    if version < _OLDEST_JAVA:
        raise SetupError(
            f"Java {_OLDEST_JAVA} or newer is needed, but {java} is Java {version}: install a "
            "newer one, and set JAVA_HOME if there are several"
        )
    return java


def _java_version(java: str) -> int:
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is None:
        raise SetupError(f"{java} does not say which Java it is: {said.strip()[:200]}")
    return int(found.group(1))


def _start_context(conf: SparkConf, log_file: Path) -> None:
    """Starts the JVM in a process group of its own, so that Ctrl-C reaches this process alone."""
    log_file.parent.mkdir(parents=True, exist_ok=True)
    if log_file.exists() and log_file.stat().st_size > _LARGEST_LOG_BYTES:
        log_file.replace(log_file.with_suffix(".log.1"))
    with log_file.open("ab") as log:
        printing = {"stdout": log, "stderr": log, "start_new_session": True}
        gateway = launch_gateway(conf, printing)  # type: ignore[no-untyped-call]
    SparkContext(conf=conf, gateway=gateway)


def _cores(master: str) -> int:
    found = re.fullmatch(r"local\[(\d+)(?:, *\d+)?\]", master)
    return int(found.group(1)) if found else os.cpu_count() or 1
