"""Records of a replication tool as changes: pure expressions, no Python on the executors."""

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from freshet import schemas, variants
from freshet.changes import debezium_shortcut, versions
from freshet.changes.airbyte import AIRBYTE
from freshet.changes.debezium import DEBEZIUM
from freshet.changes.debezium_flat import DEBEZIUM_FLAT
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
    is_left = debezium_shortcut.field("key").isNull() if has_shortcut else F.lit(True)
    # Out of sight of the optimizer, which would look at it for longer than a small batch takes.
    understood = F.explode_outer(
        F.transform(
            F.when(is_left, F.array(variants.parsed(F.col("record")))),
            lambda value: variants.in_steps(_understood(value, envelope, chosen)),
        )
    )
    rows = variants.with_columns(rows, __understood=understood, __is_left=is_left)
    return _as_changes(rows, chosen.key, has_shortcut=has_shortcut)


def _understood(value: Column, envelope: str, chosen: Chosen) -> variants.Steps:
    """The `change` that a record is, null if it is not JSON; and as whose it was understood."""
    name = yield F.when(
        value.isNotNull(),
        _first_that_recognises(value) if envelope == AUTO else F.lit(envelope),
    )
    candidates = ENVELOPES.values() if envelope == AUTO else [ENVELOPES[envelope]]
    found = [
        variants.computed_once(value, one.change(chosen), where=name == one.name)
        for one in candidates
    ]
    return variants.named(envelope=name, change=F.coalesce(*found))


def _first_that_recognises(value: Column) -> Column:
    *marked, otherwise = ENVELOPES.values()
    names = (F.when(one.recognises(value), F.lit(one.name)) for one in marked)
    return F.coalesce(*names, F.lit(otherwise.name))


def _as_changes(rows: DataFrame, key: Sequence[str], *, has_shortcut: bool) -> DataFrame:
    def field(name: str) -> Column:
        long = F.col(f"__understood.change.{name}")
        if not has_shortcut or name not in debezium_shortcut.FIELDS:
            return long
        return F.coalesce(debezium_shortcut.field(name), long)

    version = versions.composed(
        field("position"), versions.whole(F.col("seq")), versions.whole(F.col("row"))
    )
    if "reading" in rows.columns:
        # What a file says when it is read again keeps its place, and beats what it said before.
        again = F.concat(F.lit(versions.SEPARATOR), versions.whole(F.col("reading")))
        version = F.concat(version, F.when(F.col("reading") > 0, again).otherwise(""))
    error = F.coalesce(_not_json(), F.col("__understood.change.error"), _no_key(key))
    short = F.lit(DEBEZIUM.name)
    columns = {
        "record_version": version,
        "error": F.coalesce(F.col("__unread"), F.when(F.col("__is_left"), error)),
        "raw": F.col("record"),
        "envelope": F.when(F.col("__is_left"), F.col("__understood.envelope")).otherwise(short),
    } | {name: field(name) for name in _OF_CHANGE}
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
    is_tombstone = F.col("__understood.change.op") == TOMBSTONE
    return F.when(F.col("__understood.change").isNull(), F.lit("not JSON")).when(
        (first != "{") & ~is_tombstone, F.lit("not a JSON object")
    )


def _no_key(key: Sequence[str]) -> Column:
    needs_key = F.coalesce(~F.col("__understood.change.op").isin(*WITHOUT_KEY), F.lit(True))
    return F.when(F.col("__understood.change.key").isNull() & needs_key, F.lit(missing_key(key)))
