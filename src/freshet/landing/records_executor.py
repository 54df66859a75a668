"""Reads the records of one file, on an executor: raw texts with their ordinals, batch by batch.

What cannot be read becomes a row that says why; nothing is dropped. Only trouble that may pass by
itself is raised, so that Spark tries again.
"""

from collections.abc import Callable, Iterator

import pyarrow as pa

from freshet.landing.batches_executor import UnreadableError, failure, may_pass
from freshet.landing.read_options import ReadOptions


def read_records(uri: str, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """The records of a file as batches of `record`, `row` and `error`.

    `row` counts from 0 and rises: lines for JSON lines, elements for arrays, rows for the rest. It
    is the same whenever the same content is read. A row with an `error` has as its record what can
    be shown of the text, if any, and may stand for the whole rest of the file.
    """
    own = options.for_file(uri)
    if own is None:
        yield failure(0, f"the name tells no format: {uri.rpartition('/')[2]}")
        return
    row = 0
    try:
        for batch in _reader(own.format)(uri, own):
            if batch.num_rows:
                yield batch
                row = batch.column("row")[-1].as_py() + 1
    except Exception as error:
        # On bad content the libraries raise all sorts; a file must not end the stream.
        if may_pass(error) or isinstance(error, ImportError | NameError):
            raise
        yield _failure_of(error, row, own.format)


def _failure_of(error: Exception, row: int, file_format: str) -> pa.RecordBatch:
    """The reason in words; some libraries give none but the name of the error."""
    record = error.record if isinstance(error, UnreadableError) else None
    match error:
        case FileNotFoundError():
            return failure(row, "the file is gone")
        case EOFError():
            reason = "it breaks off"
        case UnreadableError() | OSError() | ValueError() if str(error):
            reason = str(error)
        case _:
            reason = repr(error)
    return failure(row, f"not readable as {file_format}: {reason}", record)


def _reader(file_format: str) -> Callable[[str, ReadOptions], Iterator[pa.RecordBatch]]:
    """Imports only what the format needs: every Python worker pays for it."""
    match file_format:
        case "csv":
            from freshet.landing.csv_executor import read_csv

            return read_csv
        case "parquet":
            from freshet.landing.columnar_executor import read_parquet

            return read_parquet
        case "orc":
            from freshet.landing.columnar_executor import read_orc

            return read_orc
        case "avro":
            from freshet.landing.avro_executor import read_avro

            return read_avro
    from freshet.landing.json_executor import read_json

    return read_json
