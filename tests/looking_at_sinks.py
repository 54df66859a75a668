"""A pipeline with three further sinks: its settings, and what its tables hold, without Spark."""

from pathlib import Path

import lance
import psycopg
from deltalake import DeltaTable

from postgres_server import Server

SinkRows = dict[str, tuple[str, str]]
"""Text and section by key."""

_SETTINGS = """\
[pipeline]
name = "docs"
home = "./home"
trigger = "1 second"
max_rows_per_batch = 2000
[landing]
path = "./landing"
max_files_per_trigger = 10
[changes]
envelope = "plain"
key = ["id"]
version = "record_version"
[gold]
text = ["title", "body"]
attributes = ["section"]
[embedding]
provider = "fake"
[spark]
master = "local[2]"
conf = {{ "spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1" }}
[[sinks]]
name = "rows"
kind = "lance"
path = "./rows.lance"
[[sinks]]
name = "lake"
kind = "delta"
path = "./lake"
[[sinks]]
name = "database"
kind = "postgres"
address = "{address}"
table = "docs"
"""


def settings_text(folder: Path, address: str) -> str:
    """The settings of a pipeline in a folder, as a file has them."""
    return _SETTINGS.format(address=address)


def in_lance(folder: Path) -> SinkRows:
    """What the sink `rows` holds; fails on a key that stands twice."""
    return _by_key(lance.dataset(str(folder / "rows.lance")).to_table().to_pylist())


def in_delta(folder: Path) -> SinkRows:
    """What the sink `lake` holds."""
    return _by_key(DeltaTable(folder / "lake").to_pyarrow_table().to_pylist())


def in_postgres(server: Server) -> SinkRows:
    """What the sink `database` holds."""
    with psycopg.connect(server.address) as connection:
        found = connection.execute("SELECT key, text, section FROM docs").fetchall()
    return _by_key([dict(zip(("key", "text", "section"), row, strict=True)) for row in found])


def _by_key(rows: list[dict[str, str]]) -> SinkRows:
    assert len(rows) == len({row["key"] for row in rows}), "a key stands twice"
    return {row["key"]: (row["text"], row["section"]) for row in rows}
