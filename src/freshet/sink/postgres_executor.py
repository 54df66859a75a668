"""Tasks that bring rows to PostgreSQL, each over a connection of its own, by COPY."""

import io
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from pyarrow import csv

from freshet.errors import FreshetError, StoreError
from freshet.sink.batch_store import OvertakenError
from freshet.stores.postgres import Database, name
from freshet.stores.postgres_merge import PART

PARTS: Final = pa.schema(
    [
        ("part", pa.string()),
        ("rows", pa.int64()),
        ("seconds", pa.float64()),
        ("answer", pa.string()),
        ("error", pa.string()),
        ("is_overtaken", pa.bool_()),
    ]
)
"""What a task says: which rows are its own, and what came of them."""
_ALL_QUOTED: Final = csv.WriteOptions(include_header=False, quoting_style="all_valid")

Finish = Callable[[Any, str], str]
"""What else happens in the task's transaction, given its cursor and its part."""


@dataclass(frozen=True)
class Bringing:
    """Copies a task's rows to a staging table, in one transaction."""

    database: Database
    place: str
    staging: str
    columns: tuple[str, ...]
    begin: Callable[[Any], None] | None = None
    """What must happen first in the transaction."""
    finish: Finish | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row about the task."""
        part, started = uuid4().hex, time.perf_counter()
        rows, answer, problem, is_overtaken = 0, "", None, False
        try:
            with self.database.transaction("write to", self.place) as cursor:
                if self.begin is not None:
                    self.begin(cursor)
                rows = self._copied(cursor, batches, part)
                if self.finish is not None:
                    answer = self.finish(cursor, part)
        except FreshetError as error:
            # Spark would try again what cannot succeed, and wrap the sentence in stack traces.
            problem = error.reason if isinstance(error, StoreError) else str(error)
            is_overtaken = isinstance(error, OvertakenError)
        seconds = time.perf_counter() - started
        told = [[part], [rows], [seconds], [answer], [problem], [is_overtaken]]
        yield pa.RecordBatch.from_arrays(
            [pa.array(value, kind) for value, kind in zip(told, PARTS.types, strict=True)],
            schema=PARTS,
        )

    def _copied(self, cursor: Any, batches: Iterable[pa.RecordBatch], part: str) -> int:
        columns = ", ".join(map(name, (*self.columns, PART)))
        rows = 0
        with cursor.copy(f"COPY {self.staging} ({columns}) FROM STDIN (FORMAT csv)") as copy:
            for batch in batches:
                whole = batch.append_column(PART, pa.repeat(part, batch.num_rows))
                text = io.BytesIO()
                csv.write_csv(whole, text, _ALL_QUOTED)
                copy.write(text.getvalue())
                rows += batch.num_rows
        return rows
