"""Spark's own sinks from plain options: files, console, memory, Kafka, and `format("lance")`."""

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import BinaryType, StringType

from freshet.errors import SettingsError, SetupError
from freshet.sink.modes import FILES, Kind, check
from freshet.sink.native import NAME, LanceSource

_OWN: Final = {Kind.LANCE: "LanceSink", Kind.DELTA: "DeltaSink", Kind.POSTGRES: "PostgresSink"}
_FOLDERS: Final = (*FILES, Kind.NATIVE_LANCE)
_CLASSES: Final = (
    "org.apache.spark.sql.kafka010.KafkaSourceProvider",
    "org.apache.spark.kafka010.KafkaTokenUtil",
    "org.apache.kafka.clients.producer.KafkaProducer",
    "org.apache.commons.pool2.PooledObject",
)
"""One of each jar that Kafka's connector is made of."""


def spark_writer(
    rows: DataFrame,
    kind: str,
    *,
    mode: str,
    checkpoint: str | None = None,
    path: str | None = None,
    name: str | None = None,
    topic: str | None = None,
    servers: str | None = None,
    key: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataStreamWriter:
    """A writer that is ready to be started; raises before anything runs if it could not be.

    Files and `native_lance` need a path, memory needs a name, and Kafka a topic and servers. Of
    `key` and the rows, records of Kafka are made: see `as_records`. Further `options` are Spark's
    own, and win.

    Guarantee: that of the pair in `modes`, and no more: exactly once for files, at least once for
    Kafka, none for console and memory.
    """
    sink, output = check(kind, mode)
    if sink in _OWN:
        raise SettingsError(f"{kind} is written by foreachBatch: use freshet.{_OWN[sink]}")
    needed = _needed(sink, path=path, name=name, topic=topic, servers=servers)
    if sink not in (Kind.CONSOLE, Kind.MEMORY):
        needed |= _given(sink, checkpointLocation=("a checkpoint", checkpoint))
    elif checkpoint is not None:
        needed["checkpointLocation"] = checkpoint
    if sink is Kind.KAFKA:
        check_connector(rows)
        rows = as_records(rows, key)
    if sink is Kind.NATIVE_LANCE:
        rows.sparkSession.dataSource.register(LanceSource)
    writer = rows.writeStream.format(NAME if sink is Kind.NATIVE_LANCE else sink)
    named = needed.pop("queryName", None)
    writer = writer if named is None else writer.queryName(named)
    return writer.outputMode(output).options(**{**needed, **(options or {})})


def as_records(rows: DataFrame, key: str | None = None) -> DataFrame:
    """Rows as records of Kafka: a key in text, if there is one, and a value.

    The key is the named column, or one that is called so. The value is a column `value` of text or
    bytes, and otherwise the whole row as JSON, with its nulls.
    """
    if key is not None and key not in rows.columns:
        raise SettingsError(f"there is no column {key} to be the key of Kafka's records")
    column = key or ("key" if "key" in rows.columns else None)
    own = next((field for field in rows.schema if field.name == "value"), None)
    if own is not None and isinstance(own.dataType, StringType | BinaryType):
        value = F.col("value")
    else:
        value = F.to_json(F.struct("*"), {"ignoreNullFields": "false"})
    keys = [] if column is None else [F.col(f"`{column}`").cast("string").alias("key")]
    return rows.select(*keys, value.alias("value"))


def check_connector(rows: DataFrame) -> None:
    """Raises if Spark was started without the jars of Kafka's connector."""
    jvm: Any = rows.sparkSession._jvm
    if all(jvm.org.apache.spark.util.Utils.classIsLoadable(name) for name in _CLASSES):
        return
    raise SetupError(
        "Spark was started without Kafka's connector: put the jars that "
        "freshet.stores.delta_jars.kafka_jars() fetches into spark.jars, beside those that are "
        "there, and start it again"
    )


def _needed(
    sink: Kind, *, path: str | None, name: str | None, topic: str | None, servers: str | None
) -> dict[str, str]:
    """Spark's options for where the rows go."""
    if sink in _FOLDERS:
        return _given(sink, path=("a path", path))
    if sink is Kind.MEMORY:
        return _given(sink, queryName=("a name, which its table gets", name))
    if sink is Kind.KAFKA:
        told = {"topic": ("a topic", topic), "kafka.bootstrap.servers": ("servers", servers)}
        return _given(sink, **told)
    return {}


def _given(sink: Kind, **told: tuple[str, str | None]) -> dict[str, str]:
    for what, value in told.values():
        if not value:
            raise SettingsError(f"a sink of the kind {sink} needs {what}")
    return {option: value for option, (_, value) in told.items() if value}
