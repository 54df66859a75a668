"""What a Spark checkpoint tells without Spark: how far a streaming query has come."""

import json
from typing import Any

from freshet.stores import file_systems


def query_id(checkpoint: str) -> str | None:
    """The id that Spark gave the query of this checkpoint; None if it never started."""
    if "metadata" not in file_systems.list_names(checkpoint):
        return None
    value: str = json.loads(file_systems.read_text(f"{checkpoint}/metadata"))["id"]
    return value


def planned(checkpoint: str, batch_id: int) -> str | None:
    """When a batch was planned and where it ends in its sources; None if it never was."""
    if str(batch_id) not in file_systems.list_names(f"{checkpoint}/offsets"):
        return None
    _, metadata, *ends = file_systems.read_text(f"{checkpoint}/offsets/{batch_id}").split("\n")
    return f"{json.loads(metadata)['batchTimestampMs']} {ends}"


def committed_offset(checkpoint: str) -> Any | None:
    """Where the newest finished batch ended, as its (first) source writes it; None before any."""
    done = [
        int(name) for name in file_systems.list_names(f"{checkpoint}/commits") if name.isdigit()
    ]
    if not done:
        return None
    # An offset file is a version, the batch's metadata, and then one line a source.
    lines = file_systems.read_text(f"{checkpoint}/offsets/{max(done)}").split("\n")
    return json.loads(lines[2])
