"""Where an event stands in its source's log, for each of Debezium's connectors.

A position has three components whatever the connector, so that those of one stream compare:

    Postgres     commit LSN before the transaction, LSN                  (`sequence`, else `lsn`)
    MySQL        number of the binlog file, position, row                (`file`, `pos`, `row`)
    SQL Server   commit LSN, change LSN, serial number of the event      (Db2, Informix: the same)
    Oracle       SCN of the commit, SCN, place in the redo log           (`rs_id`, `ssn`)
    MongoDB      time, ordinal in it, wall time                          (`ts_ms`, `ord`)
    others       time

A snapshot's row stands at the place in the log from which its snapshot was taken. Where a connector
gives it none (incremental snapshots of MySQL, SQL Server and Oracle), it sorts before all changes.
With GTIDs nothing better is known: they name transactions, but do not sort across servers.
"""

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from freshet import variants
from freshet.changes import versions

_NUMBERS: Final = ("lsn", "pos", "row", "event_serial_no", "ord", "wallTime", "ts_ms")
_TEXTS: Final = (
    "connector", "sequence", "file", "commit_lsn", "change_lsn",
    "scn", "commit_scn", "rs_id", "ssn",
)  # fmt: skip

_OF_TABLE: Final = ("db", "schema", "table")


def typed(prefix: str, *others: str) -> str:
    """The fields of `source` that a position is made of, and others, as those of a struct."""
    numbers = [f"`{prefix}{name}`:bigint" for name in _NUMBERS]
    return ",".join([*numbers, *(f"`{prefix}{name}`:string" for name in (*_TEXTS, *others))])


def source_type(*, with_table: bool) -> str:
    """The type of `source`; names are asked for only if a table is chosen, as each value costs."""
    return f"struct<{typed('', 'collection', *(_OF_TABLE if with_table else ()))}>"


Source = Callable[[str], Column]
"""Gives a field of `source`, null if it is not there."""


def lsns(source: Source) -> Column:
    """Both numbers of Postgres' `sequence`, and if it tells them at all: used more than once."""
    both = F.translate(source("sequence"), '[]" ', "")
    commit, own = (F.substring_index(both, ",", end).try_cast("bigint") for end in (1, -1))
    return variants.named(
        commit=commit, own=F.coalesce(own, source("lsn")), is_told=source("sequence").isNotNull()
    )


def position(source: Source, lsns: Column) -> Column:
    """The three components of an event's position, as one text; `lsns` as that function gives."""
    nothing = versions.nothing()
    return (
        F.when(lsns["is_told"] | source("lsn").isNotNull(), _postgres(lsns))
        .when(source("pos").isNotNull(), _mysql(source))
        .when(_is(source, "sqlserver", "commit_lsn"), _sql_server(source))
        .when(_is(source, "oracle", "scn"), _oracle(source))
        .when(source("ord").isNotNull(), _mongodb(source))
        .otherwise(versions.composed(versions.whole(source("ts_ms")), nothing, nothing))
    )


def _is(source: Source, connector: str, field: str) -> Column:
    return (source("connector") == connector) | source(field).isNotNull()


def _postgres(lsns: Column) -> Column:
    """Both numbers of `sequence`: a row that is written first and committed last has the older LSN.

    Rows of a snapshot, and of the first transaction after one, have no commit before them. They
    count as committed where they stand: after all that the log held before, and before the rest.
    """
    commit = F.when(lsns["is_told"], F.coalesce(lsns["commit"], lsns["own"]))
    return versions.composed(
        versions.whole(commit), versions.whole(lsns["own"]), versions.nothing()
    )


def _mysql(source: Source) -> Column:
    """The file by its number: `mysql-bin.999999` is followed by `mysql-bin.1000000`."""
    number = F.regexp_extract(source("file"), r"0*([0-9]+)$", 1)
    file = F.when(number != "", versions.whole(number)).when(
        source("file") != "", versions.words(source("file"))
    )
    return versions.composed(file, versions.whole(source("pos")), versions.whole(source("row")))


def _sql_server(source: Source) -> Column:
    return versions.composed(
        _number_or_text(source("commit_lsn")),
        _number_or_text(source("change_lsn")),
        versions.whole(source("event_serial_no")),
    )


def _oracle(source: Source) -> Column:
    """A snapshot's row has no commit of its own: it saw all commits up to its SCN."""
    redo = F.concat_ws(":", F.trim(source("rs_id")), F.lpad(source("ssn"), 20, "0"))
    return versions.composed(
        versions.whole(F.coalesce(_greatest_scn(source("commit_scn")), source("scn"))),
        versions.whole(source("scn")),
        F.when(redo != "", versions.words(redo)),
    )


def _mongodb(source: Source) -> Column:
    return versions.composed(
        *(versions.whole(source(name)) for name in ("ts_ms", "ord", "wallTime"))
    )


def _greatest_scn(said: Column) -> Column:
    """One number; or the greatest of several, `scn:thread:transactions,…`, one a redo thread."""
    scns = F.regexp_extract_all(said, F.lit(r"(?:^|,)([0-9]+)"), F.lit(1))
    several = F.array_max(scns.cast("array<decimal(38,0)>")).cast("string")
    return F.when(said.rlike("^[0-9]*$"), F.nullif(said, F.lit(""))).otherwise(several)


def _number_or_text(value: Column) -> Column:
    return F.when(value.rlike("^[0-9]+$"), versions.whole(value)).otherwise(versions.words(value))
