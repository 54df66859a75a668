"""A pipeline with three further sinks: its settings, and what its tables hold, without Spark."""

from pathlib import Path

import lance
import psycopg
from deltalake import DeltaTable

from histories import settings_text
from postgres_server import Server

SinkRows = dict[str, tuple[str, str]]
"""Text and section by key."""

_SINKS = """\
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


def settings_with_sinks(address: str) -> str:
    """The settings of such a pipeline, as a file has them."""
    return settings_text() + _SINKS.format(address=address)


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
