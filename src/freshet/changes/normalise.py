"""Records of a replication tool as changes: pure expressions, no Python on the executors."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from freshet import schemas, variants
from freshet.changes import debezium_shortcut, versions
from freshet.changes.airbyte import AIRBYTE
from freshet.changes.debezium import DEBEZIUM
from freshet.changes.debezium_flat import DEBEZIUM_FLAT
from freshet.changes.debezium_shortcut import SHORTCUT
from freshet.changes.decoding import check_types
from freshet.changes.delta_cdf import DELTA_CDF
from freshet.changes.dms import DMS
from freshet.changes.envelope import TOMBSTONE, WITHOUT_KEY, Chosen, Envelope, missing_key
from freshet.changes.estuary import ESTUARY
from freshet.changes.fivetran import FIVETRAN
from freshet.changes.maxwell import MAXWELL
from freshet.changes.plain import PLAIN
from freshet.errors import SettingsError
from freshet.settings import DEFAULT_DELETED_COLUMN, DEFAULT_PLACEHOLDER

AUTO: Final = "auto"
ENVELOPES: Final[Mapping[str, Envelope]] = {
    one.name: one
    for one in (DEBEZIUM, DEBEZIUM_FLAT, DELTA_CDF, ESTUARY, AIRBYTE, FIVETRAN, MAXWELL, DMS, PLAIN)
}
"""In the order in which `auto` tries them; what nothing else recognises is plain."""


def normalise(
    events: DataFrame,
    *,
    envelope: str = AUTO,
    key: Sequence[str],
    version: str | None = None,
    deleted: str = DEFAULT_DELETED_COLUMN,
    table: str | None = None,
    types: Mapping[str, str] | None = None,
    placeholder: str = DEFAULT_PLACEHOLDER,
) -> DataFrame:
    """Every record becomes one change; what is not understood keeps its text and says why.

    Takes the columns of the landing source (`record`, `file`, `row`, `seq`; `error` and `reading`
    if there) and returns those of `schemas.CHANGES`. No record is dropped and none is split.
    """
    if envelope != AUTO and envelope not in ENVELOPES:
        known = ", ".join((AUTO, *ENVELOPES))
        raise SettingsError(f'the envelope "{envelope}" is not one of {known}')
    check_types(types or {})
    chosen = Chosen(tuple(key), version, deleted, table, types or {}, placeholder)
    unread = F.col("error") if "error" in events.columns else F.lit(None).cast("string")
    rows = variants.with_columns(events, __unread=unread)
    has_shortcut = envelope in {AUTO, DEBEZIUM.name} and debezium_shortcut.is_possible(chosen)
    if has_shortcut:
        rows = debezium_shortcut.with_shortcut(rows, chosen)
    is_left = F.col(SHORTCUT).isNull() if has_shortcut else F.lit(True)
    rows = variants.with_columns(rows, __value=F.when(is_left, variants.parsed(F.col("record"))))
    understood = _recognised(rows, chosen) if envelope == AUTO else _as(rows, envelope, chosen)
    return _as_changes(_joined(understood) if has_shortcut else understood, chosen.key)


def _joined(rows: DataFrame) -> DataFrame:
    """Records that went the short way, and those that went the long one."""
    is_short = F.col(SHORTCUT).isNotNull()
    return variants.with_columns(
        rows.withColumnsRenamed({"__change": "__long", "__envelope": "__long_envelope"}),
        __change=F.when(is_short, F.col(SHORTCUT)).otherwise(F.col("__long")),
        __envelope=F.when(is_short, DEBEZIUM.name).otherwise(F.col("__long_envelope")),
    )


def _as(rows: DataFrame, name: str, chosen: Chosen) -> DataFrame:
    envelope, value = ENVELOPES[name], F.col("__value")
    if envelope.prepare is not None:
        rows = envelope.prepare(rows, value, chosen)
    return variants.with_columns(
        rows,
        __envelope=F.lit(name),
        __change=F.when(value.isNotNull(), envelope.understand(value, chosen)),
    )


def _recognised(rows: DataFrame, chosen: Chosen) -> DataFrame:
    """Each record by the envelope that it looks like; others cost it nothing."""
    name, value = F.col("__recognised"), F.col("__value")
    *marked, otherwise = ENVELOPES.values()
    found = _first_that_recognises(marked, otherwise, value)
    rows = variants.with_columns(rows, __recognised=F.when(value.isNotNull(), found))
    for one in ENVELOPES.values():
        if one.prepare is not None:
            rows = one.prepare(rows, F.when(name == one.name, value), chosen)
    change = reduce(
        lambda case, one: case.when(name == one.name, one.understand(value, chosen)),
        (*marked[1:], otherwise),
        F.when(name == marked[0].name, marked[0].understand(value, chosen)),
    )
    return variants.with_columns(rows, __change=change, __envelope=_compiled_in_parts(name))


def _compiled_in_parts(column: Column) -> Column:
    """The same value. A step with it is compiled method by method, not as one beyond 64 KB."""
    return F.transform(F.array(column), lambda same: same)[0]


def _first_that_recognises(
    marked: Sequence[Envelope], otherwise: Envelope, value: Column
) -> Column:
    first, *others = marked
    case = F.when(first.recognises(value), first.name)
    for one in others:
        case = case.when(one.recognises(value), one.name)
    return case.otherwise(otherwise.name)


def _as_changes(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    version = versions.composed(
        F.col("__change.position"), versions.whole(F.col("seq")), versions.whole(F.col("row"))
    )
    if "reading" in rows.columns:
        # What a file says when it is read again keeps its place, and beats what it said before.
        again = F.concat(F.lit(versions.SEPARATOR), versions.whole(F.col("reading")))
        version = F.concat(version, F.when(F.col("reading") > 0, again).otherwise(""))
    columns = {
        "record_version": version,
        "error": F.coalesce(F.col("__unread"), _not_json(), F.col("__change.error"), _no_key(key)),
        "raw": F.col("record"),
        "envelope": F.col("__envelope"),
    } | {name: F.col(f"__change.{name}") for name in _OF_CHANGE}
    return rows.select(
        *(
            columns.get(name, F.col(name)).cast(schemas.spark_type(kind)).alias(name)
            for name, kind in zip(schemas.CHANGES.names, schemas.CHANGES.types, strict=True)
        )
    )


_OF_CHANGE: Final = ("key", "is_deleted", "op", "record", "changed_at", "old_key", "unavailable")


def _not_json() -> Column:
    """Why a record is not an event at all; a bare null may be a tombstone."""
    first = F.left(F.ltrim(F.col("record")), F.lit(1))
    is_tombstone = F.col("__change.op") == TOMBSTONE
    return F.when(F.col("__change").isNull(), F.lit("not JSON")).when(
        (first != "{") & ~is_tombstone, F.lit("not a JSON object")
    )


def _no_key(key: Sequence[str]) -> Column:
    needs_key = F.coalesce(~F.col("__change.op").isin(*WITHOUT_KEY), F.lit(True))
    return F.when(F.col("__change.key").isNull() & needs_key, F.lit(missing_key(key)))
