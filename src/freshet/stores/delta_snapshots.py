"""Small Delta tables as single Parquet files."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import DeltaError

from freshet.errors import StoreError
from freshet.stores.copies import make_parents, resolve
from freshet.stores.delta_facts import batches_of


@dataclass(frozen=True)
class Exported:
    """A table in one file."""

    rows: int
    version: int
    configuration: Mapping[str, str]


def export(uri: str, target: str) -> Exported:
    """Writes the newest version of a table to a Parquet file, batch by batch."""
    system, path = resolve(target)
    rows = 0
    try:
        table = DeltaTable(uri)
        schema = pa.schema(table.schema().to_arrow())
        make_parents(system, path)
        with pq.ParquetWriter(path, schema, filesystem=system) as writer:
            for batch in batches_of(table, schema.names):
                rows += batch.num_rows
                writer.write_batch(batch.cast(schema))
        return Exported(rows, table.version(), dict(table.metadata().configuration))
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise StoreError("copy the table", uri, error) from error


def load(
    source: str, uri: str, configuration: Mapping[str, str], where: pc.Expression | None = None
) -> int:
    """Makes a table of a Parquet file, its rows in one commit; returns how many there are."""
    system, path = resolve(source)
    try:
        found = ds.dataset(path, filesystem=system, format="parquet")
        schema = Schema.from_arrow(found.schema)
        table = DeltaTable.create(uri, schema, configuration=dict(configuration))
        rows = int(found.count_rows(filter=where))
        if rows:
            write_deltalake(table, found.scanner(filter=where).to_reader(), mode="append")
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise StoreError("write the table", uri, error) from error
    return rows


def read_export(source: str, columns: list[str]) -> list[dict[str, Any]]:
    """Some columns of a table in a Parquet file."""
    system, path = resolve(source)
    try:
        rows: list[dict[str, Any]] = pq.read_table(
            path, columns=columns, filesystem=system
        ).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise StoreError("read", source, error) from error
    return rows
