"""The `dms` envelope: rows with an `Op` column, as AWS DMS writes CSV and Parquet to S3."""

from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from freshet import variants
from freshet.changes import versions
from freshet.changes.envelope import OTHER, Chosen, Envelope, Marks, change, is_of_table, key_of

_NAMES: Final = ("Op", "op", "OP")
_OPS: Final = {"I": "c", "U": "u", "D": "d", "before-image": OTHER}
_SEQUENCES: Final = ("AR_H_CHANGE_SEQ", "transact_seq", "change_seq", "transact_id")
_TIMES: Final = ("transact_ts", "dms_timestamp", "cdc_timestamp", "commit_timestamp", "TIMESTAMP")
_BEFORE: Final = "BI_"
# Columns of a user may bear such a name, too; a change sequence has 35 digits.
_IS_SEQUENCE: Final = r"^[0-9]{30,40}\z"
_LOAD_FILE: Final = r"(^|/)LOAD[0-9A-Fa-f]{5,}\."


@dataclass(frozen=True)
class _OpMarks(Marks):
    """The column alone is a mark only with a value that DMS gives it."""

    def in_record(self, record: Any) -> bool:
        """Whether a parsed record has the marks."""
        return isinstance(record, dict) and any(
            isinstance(said := record.get(name), str) and said in _OPS
            for ((name,),) in self.alternatives
        )

    def in_variant(self, value: Column) -> Column:
        """The same, of a VARIANT; never null."""
        return F.coalesce(_said(value).isin(*_OPS), F.lit(False))


def _understand(value: Column, chosen: Chosen) -> variants.Steps:
    """The row itself: after an insert or update, before a delete."""
    said = yield _said(value)
    is_load = yield said.isNull() | F.col("file").rlike(_LOAD_FILE)
    sequence = yield _sequence(value, chosen)
    time = yield _time(value, chosen)
    key = yield key_of(value, chosen.key)
    old_key = yield key_of(value, [f"{_BEFORE}{name}" for name in chosen.key])
    op = yield _op(value, said, is_load, chosen)
    return change(
        key=key,
        op=op,
        is_deleted=F.coalesce(op == "d", F.lit(False)),
        position=versions.composed(
            *(
                F.when(~is_load, part)
                for part in (
                    versions.whole(F.lit(1)),
                    versions.component(sequence),
                    versions.moment(time),
                )
            )
        ),
        error=_error(value, said, F.when(is_load, "").otherwise(sequence), chosen),
        changed_at=versions.moment_of(F.coalesce(time, sequence)),
        old_key=F.when((op == "u") & (old_key != key), old_key),
    )


def _said(value: Column) -> Column:
    return F.coalesce(*(variants.text(value, name) for name in _NAMES))


def _op(value: Column, said: Column, is_load: Column, chosen: Chosen) -> Column:
    """Transaction files say in each row of which table it is; other files hold one table."""
    schema, table = variants.text(value, "schema"), variants.text(value, "table")
    is_told = schema.isNotNull() & table.isNotNull()
    case = F.when(is_told & ~is_of_table(chosen, schema, table), OTHER)
    case = case.when(is_load & (said.isNull() | (said == "I")), "r")
    for name, op in _OPS.items():
        case = case.when(said == name, op)
    return case


def _sequence(value: Column, chosen: Chosen) -> Column:
    """What orders the changes: what the settings name, else a change sequence."""
    if chosen.version is not None:
        return variants.text(value, chosen.version)
    found = F.coalesce(*(variants.text(value, name) for name in _SEQUENCES))
    return F.when(found.rlike(_IS_SEQUENCE), found)


def _time(value: Column, chosen: Chosen) -> Column:
    """What orders them where there is no sequence; nothing if the settings name what does."""
    if chosen.version is not None:
        return F.lit(None).cast("string")
    return F.coalesce(*(variants.text(value, name) for name in _TIMES))


def _error(value: Column, said: Column, sequence: Column, chosen: Chosen) -> Column:
    nameless = "the columns have no names: set landing.csv_columns, beginning with Op"
    unknown = F.left(F.concat(F.lit("the DMS Op is not understood: "), said), F.lit(200))
    error = F.when(said.isNull() & variants.text(value, "c0").isin(*_OPS), F.lit(nameless)).when(
        ~said.isin(*_OPS), unknown
    )
    if chosen.version is None:
        return error
    is_change = said.isin("I", "U", "D")
    sentence = f"no value in the version column {chosen.version}"
    return error.when(is_change & sequence.isNull(), F.lit(sentence))


DMS: Final = Envelope(
    name="dms",
    guarantee="Changes of one key are ordered by the column that `version` names, else by a change "
    "sequence (`transact_seq`, `transact_id`, `AR_H_CHANGE_SEQ`, `change_seq`: 35 digits), else by "
    "a commit time (`transact_ts`, `dms_timestamp`, `cdc_timestamp`, `commit_timestamp`, "
    "`TIMESTAMP`), ties by arrival; with none of these by arrival alone, which is the order of the "
    "transactions only with PreserveTransactions. Rows of a full load never beat a change.",
    marks=_OpMarks(tuple(((name,),) for name in _NAMES)),
    understand=_understand,
    tells_of_others=True,
)
