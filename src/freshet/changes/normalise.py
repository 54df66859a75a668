"""Records of a replication tool as changes: pure expressions, no Python on the executors."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from freshet import schemas, variants
from freshet.changes import debezium, plain, versions
from freshet.changes.envelope import TOMBSTONE, missing_key
from freshet.errors import SettingsError
from freshet.settings import DEFAULT_DELETED_COLUMN

ENVELOPES: Final = ("auto", "plain", "debezium")


def normalise(
    events: DataFrame,
    *,
    envelope: str = "auto",
    key: Sequence[str],
    version: str | None = None,
    deleted: str = DEFAULT_DELETED_COLUMN,
) -> DataFrame:
    """Every record becomes one change; what is not understood keeps its text and says why.

    Takes the columns of the landing source (`record`, `file`, `row`, `seq`; `error` and `reading`
    if there) and returns those of `schemas.CHANGES`. No record is dropped and none is split.
    """
    if envelope not in ENVELOPES:
        raise SettingsError(f'the envelope "{envelope}" is not one of {", ".join(ENVELOPES)}')
    unread = F.col("error") if "error" in events.columns else F.lit(None).cast("string")
    parsed = variants.with_columns(
        events, __value=variants.parsed(F.col("record")), __unread=unread
    )
    understood, change = _understood(parsed, envelope, key, version, deleted)
    return _as_changes(variants.with_columns(understood, __change=change), key)


def _understood(
    rows: DataFrame, envelope: str, key: Sequence[str], version: str | None, deleted: str
) -> tuple[DataFrame, Column]:
    value = F.col("__value")
    if envelope == "plain":
        rows = plain.understand(rows, value, key=key, version=version, deleted=deleted)
        return rows, F.col("__plain")
    if envelope == "debezium":
        return debezium.understand(rows, value, key=key), F.col("__debezium")
    rows = variants.with_columns(rows, __is_debezium=debezium.is_debezium(value))
    is_debezium = F.col("__is_debezium")
    # Each envelope sees only its own records, so that no record is read twice.
    rows = debezium.understand(rows, F.when(is_debezium, value), key=key)
    rows = plain.understand(
        rows, F.when(~is_debezium, value), key=key, version=version, deleted=deleted
    )
    return rows, F.when(is_debezium, F.col("__debezium")).otherwise(F.col("__plain"))


def _as_changes(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    version = versions.composed(
        F.col("__change.position"), versions.whole(F.col("seq")), versions.whole(F.col("row"))
    )
    if "reading" in rows.columns:
        # What a file says when it is read again keeps its place, and beats what it said before.
        again = F.concat(F.lit(versions.SEPARATOR), versions.whole(F.col("reading")))
        version = F.concat(version, F.when(F.col("reading") > 0, again).otherwise(""))
    columns = {
        "key": F.col("__change.key"),
        "record_version": version,
        "is_deleted": F.col("__change.is_deleted"),
        "op": F.col("__change.op"),
        "record": F.col("__change.record"),
        "changed_at": F.col("__change.changed_at"),
        "error": F.coalesce(F.col("__unread"), _not_json(), F.col("__change.error"), _no_key(key)),
        "raw": F.col("record"),
    }
    return rows.select(
        *(
            columns.get(name, F.col(name)).cast(schemas.spark_type(kind)).alias(name)
            for name, kind in zip(schemas.CHANGES.names, schemas.CHANGES.types, strict=True)
        )
    )


def _not_json() -> Column:
    """Why a record is not an event at all; a bare null may be a tombstone."""
    first = F.left(F.ltrim(F.col("record")), F.lit(1))
    is_tombstone = F.col("__change.op") == TOMBSTONE
    return F.when(F.col("__value").isNull(), F.lit("not JSON")).when(
        (first != "{") & ~is_tombstone, F.lit("not a JSON object")
    )


def _no_key(key: Sequence[str]) -> Column:
    is_keyless = F.col("__change.key").isNull() & (F.col("__change.op") != TOMBSTONE)
    return F.when(is_keyless, F.lit(missing_key(key)))
