"""The `maxwell` envelope: type, data and old, as Maxwell's daemon writes MySQL's binlog."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from freshet import variants
from freshet.changes import versions
from freshet.changes.envelope import OTHER, Chosen, Envelope, Marks, change, is_of_table, key_of

_OPS: Final = {"insert": "c", "update": "u", "delete": "d", "bootstrap-insert": "r"}
_NO_ROW: Final = (
    "bootstrap-start",
    "bootstrap-complete",
    "table-create",
    "table-alter",
    "table-drop",
    "database-create",
    "database-alter",
    "database-drop",
)


def _understand(value: Column, chosen: Chosen) -> variants.Steps:
    """Inserts, updates, deletes and bootstrapped rows as changes; DDL and the like as nothing."""
    event = yield variants.named(
        kind=variants.text(value, "type"),
        row=variants.field(value, "data"),
        place=variants.text(value, "position"),
    )
    kind, row, place = event["kind"], event["row"], event["place"]
    schema, table = (variants.text(value, name) for name in ("database", "table"))
    op = yield _op(kind, is_of_table(chosen, schema, table))
    old_key = yield _old_key(variants.field(value, "old"), row, chosen.key)
    return change(
        key=key_of(row, chosen.key),
        op=op,
        is_deleted=F.coalesce(op == "d", F.lit(False)),
        position=_position(value, kind, place),
        error=_error(kind, op, row),
        changed_at=F.when(
            kind.isin(*_OPS), versions.since_1970(variants.text(value, "ts"), per_second=1)
        ),
        record=F.when(kind.isin(*_OPS), F.to_json(row)),
        old_key=F.when((op == "u") & old_key.isNotNull(), old_key),
    )


def _op(kind: Column, is_wanted: Column) -> Column:
    case = F.when(kind.isin(*_NO_ROW) | (kind.isin(*_OPS) & ~is_wanted), OTHER)
    for name, op in _OPS.items():
        case = case.when(kind == name, op)
    return case


def _old_key(old: Column, row: Column, key: Sequence[str]) -> Column:
    """The key before an update, which tells only of columns that it changed; null if none."""
    before = [variants.text(old, name) for name in key]
    if len(before) == 1:
        return before[0]
    parts = [
        F.coalesce(then, variants.text(row, name)) for then, name in zip(before, key, strict=True)
    ]
    return F.when(F.coalesce(*before).isNotNull(), F.to_json(F.array(*parts)))


def _position(value: Column, kind: Column, file_and_offset: Column) -> Column:
    """Rows of a bootstrap have no place in the binlog, and sort below all that have."""
    in_binlog = versions.composed(
        versions.numbered(F.substring_index(file_and_offset, ":", 1)),
        versions.whole(F.substring_index(file_and_offset, ":", -1)),
    )
    by_gtid = versions.composed(versions.numbered(variants.text(value, "gtid")), versions.nothing())
    return versions.composed(
        F.when(kind != "bootstrap-insert", versions.whole(F.lit(1))),
        F.when(file_and_offset.isNotNull(), in_binlog).otherwise(by_gtid),
        *(versions.whole(variants.text(value, name)) for name in ("ts", "xid", "xoffset")),
    )


def _error(kind: Column, op: Column, row: Column) -> Column:
    unknown = F.concat(F.lit("the Maxwell type "), kind, F.lit(" is not understood"))
    has_row = F.coalesce(~F.is_variant_null(row), F.lit(False))
    return (
        F.when(kind.isNull(), F.lit("not an event of Maxwell: there is no type"))
        .when(op.isNull(), F.left(unknown, F.lit(200)))
        .when((op != OTHER) & ~has_row, F.lit("an event of Maxwell without data"))
    )


MAXWELL: Final = Envelope(
    name="maxwell",
    guarantee="Events of one key are ordered by `position` (binlog file and offset, of one "
    "server), else by `gtid`, then by `ts`, `xid` and `xoffset`, then by arrival; with neither "
    "position nor GTID two events of one second without `xid` are ordered by arrival alone. "
    "Bootstrapped rows never beat a change.",
    marks=Marks(
        (
            (("database",), ("table",), ("type",), ("data",)),
            (("database",), ("type",), ("sql",)),
        )
    ),
    understand=_understand,
    tells_of_others=True,
)
