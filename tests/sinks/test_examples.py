"""The examples of `docs/examples.md` run as they stand there, and do what the page says."""

import json
import os
import re
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from postgres_server import Server

PAGE = Path(__file__).parent.parent.parent / "docs/examples.md"
FILES = [
    "ann /home 200 10:00, ann /buy 500 10:04, bob /home 200 10:07",
    "bob /home 200 10:09, ann /home 200 10:12, bob /buy 200 12:00",
    "ann /home 200 12:03",
    "cat /home 200 10:01",  # too late
]


def land(folder: Path) -> None:
    """Puts the clicks where the page reads them, in their order."""
    (folder / "clicks").mkdir()
    for number, told in enumerate(FILES):
        file = folder / "clicks" / f"{number}.json"
        with file.open("w") as lines:
            for click in told.split(", "):
                user, page, status, at = click.split()
                row = {"user": user, "page": page, "status": int(status)}
                lines.write(json.dumps(row | {"at": f"2026-05-01T{at}:00Z"}) + "\n")
        os.utime(file, (1_700_000_000 + number,) * 2)


def blocks(section: str) -> list[str]:
    """The code of a section of the page."""
    sections = re.split(r"^##? ", PAGE.read_text(), flags=re.MULTILINE)
    [text] = [one for one in sections if one.startswith(f"{section}\n")]
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def run(spark: SparkSession, folder: Path, code: list[str], server: str = "") -> None:
    """Runs code of the page until it has read all clicks; the server takes the place of its own."""
    text = "\n".join([*blocks("Examples"), *code]).replace('"/lake', f'"{folder}')
    text = re.sub(r'"[^"]*\.example\.org[^"]*"', f'"{server}"', text)
    try:
        exec(compile(text, "docs/examples.md", "exec"), {"spark": spark})  # noqa: S102 - our own
        [query] = spark.streams.active
        query.processAllAvailable()
    finally:
        for query in spark.streams.active:
            query.stop()


def test_a_filter_to_files(spark: SparkSession, tmp_path: Path) -> None:
    land(tmp_path)
    run(spark, tmp_path, blocks("Filter to files"))
    rows = spark.read.parquet(str(tmp_path / "failures")).select("user", "page", "status")
    assert [tuple(row) for row in rows.collect()] == [("ann", "/buy", 500)]


def test_windows_to_delta(spark: SparkSession, tmp_path: Path) -> None:
    land(tmp_path)
    run(spark, tmp_path, blocks("Windows to Delta"))
    rows = spark.read.format("delta").load(str(tmp_path / "visits"))
    found = {(f"{row['since']:%H:%M}", row["page"], row["count"]) for row in rows.collect()}
    assert found == {
        ("10:00", "/home", 3),
        ("10:00", "/buy", 1),
        ("10:10", "/home", 1),
        ("12:00", "/buy", 1),
        ("12:00", "/home", 1),
    }
    assert rows.count() == 5


def test_windows_to_postgres(spark: SparkSession, tmp_path: Path, database: Server) -> None:
    land(tmp_path)
    run(spark, tmp_path, blocks("Windows to PostgreSQL"), database.address)
    rows = database.run("SELECT hour, requests, failures FROM hours ORDER BY hour")
    assert rows == ["2026-05-01 10:00:00|5|1", "2026-05-01 12:00:00|2|0"]


def test_sessions_to_files(spark: SparkSession, tmp_path: Path) -> None:
    land(tmp_path)
    sessions, to_files, _ = blocks("Sessions to files, or to Kafka")
    run(spark, tmp_path, [sessions, to_files])
    rows = spark.read.json(str(tmp_path / "sessions")).collect()
    check_sessions([row.asDict() for row in rows])


def check_sessions(rows: list[dict[str, Any]]) -> None:
    """Those that are closed, once; of bob at 12:00 and ann at 12:03 more may come."""
    found = sorted(
        (row["user"], row["start"][11:16], row["end"][11:16], row["clicks"]) for row in rows
    )
    assert found == [("ann", "10:00", "10:42", 3), ("bob", "10:07", "10:39", 2)]


def test_a_table_for_a_dashboard(spark: SparkSession, tmp_path: Path, database: Server) -> None:
    land(tmp_path)
    run(spark, tmp_path, blocks("A table for a dashboard"), database.address)
    rows = database.run("SELECT page, visits, users FROM top_pages ORDER BY visits DESC")
    assert rows == ["/home|6|3", "/buy|2|2"]
