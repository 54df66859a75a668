"""The marks of batches in the database that they were written to: one row a sink, for ever."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from freshet.stores.postgres import TableName

_TABLE: Final = "freshet_batches"


@dataclass(frozen=True)
class Written:
    """The newest batch of a sink."""

    number: int
    stamp: Mapping[str, str]


def make(cursor: Any, beside: TableName) -> None:
    """The table of marks, in the schema of the table that they are of; nothing if it is there."""
    marks = beside.beside(_TABLE)
    if marks.is_there(cursor):
        return
    cursor.execute(
        f"CREATE TABLE IF NOT EXISTS {marks} (pipeline text, sink text, "
        "number bigint NOT NULL, stamp jsonb NOT NULL, "
        "landed_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (pipeline, sink))"
    )


def newest(cursor: Any, beside: TableName, pipeline: str, sink: str) -> Written | None:
    """The mark of a sink; None if it has landed nothing."""
    marks = beside.beside(_TABLE)
    if not marks.is_there(cursor):
        return None
    cursor.execute(
        f"SELECT number, stamp FROM {marks} WHERE pipeline = %s AND sink = %s",
        [pipeline, sink],
    )
    found = cursor.fetchone()
    return None if found is None else Written(int(found[0]), dict(found[1]))


def move(
    cursor: Any, beside: TableName, sink: tuple[str, str], after: int, stamp: Mapping[str, str]
) -> bool:
    """Marks a batch as number `after + 1`; False if `after` is not the newest one's number."""
    marks = beside.beside(_TABLE)
    # The first batch of a sink has no row to lock: of two, the insert lets one through.
    told = [*sink, after + 1, json.dumps(dict(stamp))]
    cursor.execute(
        f"INSERT INTO {marks} AS m (pipeline, sink, number, stamp) VALUES (%s, %s, %s, %s) "
        "ON CONFLICT (pipeline, sink) DO UPDATE SET number = EXCLUDED.number, "
        "stamp = EXCLUDED.stamp, landed_at = now() WHERE m.number = EXCLUDED.number - 1",
        told,
    )
    return bool(cursor.rowcount)


def amend(cursor: Any, beside: TableName, sink: tuple[str, str], stamp: Mapping[str, str]) -> None:
    """Says more of the batch that was marked in this transaction."""
    cursor.execute(
        f"UPDATE {beside.beside(_TABLE)} SET stamp = %s WHERE pipeline = %s AND sink = %s",
        [json.dumps(dict(stamp)), *sink],
    )
