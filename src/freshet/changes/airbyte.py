"""The `airbyte` envelope: rows with `_airbyte_…` and `_ab_cdc_…` columns, flat or wrapped."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from freshet import variants
from freshet.changes import versions
from freshet.changes.envelope import Chosen, Envelope, Marks, change, key_of

_WRAPPER: Final = "_airbyte_data"
_CDC: Final = (
    "deleted_at",
    "updated_at",
    "cursor",
    "lsn",
    "log_file",
    "log_pos",
    "event_serial_no",
)
_MARKS: Final = ("_airbyte_extracted_at", "_airbyte_emitted_at", "_ab_cdc_updated_at", _WRAPPER)


def _understand(value: Column, chosen: Chosen) -> variants.Steps:
    """The row, an object or a text below `_airbyte_data`; deleted if it has a time of that."""
    wrapped = F.try_parse_json(variants.text(value, _WRAPPER))
    row = yield F.coalesce(wrapped, value)
    extracted = yield F.coalesce(*(variants.text(value, name) for name in _MARKS[:2]))
    cdc = yield variants.named(**{name: variants.text(row, f"_ab_cdc_{name}") for name in _CDC})
    is_deleted = F.coalesce(cdc["deleted_at"] != "", F.lit(False))
    is_wrapped = variants.text(value, _WRAPPER).isNotNull()
    return change(
        key=key_of(row, chosen.key),
        op=F.when(is_deleted, "d").otherwise("u"),
        is_deleted=is_deleted,
        position=versions.composed(
            versions.whole(variants.text(value, "_airbyte_generation_id")),
            _position(cdc),
            versions.component(extracted),
        ),
        error=_error(is_wrapped, extracted, cdc),
        changed_at=F.coalesce(
            versions.moment_of(cdc["updated_at"]),
            versions.moment_of(extracted),
            versions.since_1970(extracted, per_second=1_000),
        ),
        record=F.when(is_wrapped, F.to_json(row)),
    )


def _position(cdc: Column) -> Column:
    """Four components whatever the source, so that positions of one stream compare."""
    mysql = versions.composed(
        versions.numbered(cdc["log_file"]),
        versions.whole(cdc["log_pos"]),
        versions.whole(cdc["cursor"]),
    )
    others = versions.composed(
        versions.component(F.coalesce(cdc["lsn"], cdc["cursor"], cdc["updated_at"])),
        versions.whole(cdc["event_serial_no"]),
        versions.nothing(),
        versions.nothing(),
    )
    return F.when(cdc["log_file"].isNotNull(), mysql).otherwise(others)


def _error(is_wrapped: Column, extracted: Column, cdc: Column) -> Column:
    sentence = f"not a record of Airbyte: there is none of {', '.join(_MARKS)}"
    is_of_airbyte = is_wrapped | extracted.isNotNull() | cdc["updated_at"].isNotNull()
    return F.when(~is_of_airbyte, F.lit(sentence))


AIRBYTE: Final = Envelope(
    name="airbyte",
    guarantee="Records of one key are ordered by `_airbyte_generation_id`, then by the source's "
    "position (MySQL: binlog file and position; SQL Server: LSN and serial number; Postgres: LSN, "
    "which for one row is the order of its commits; else `_ab_cdc_cursor` or "
    "`_ab_cdc_updated_at`), then by the time of extraction, then by arrival. Without CDC only that "
    "time orders them, and deletes are not seen.",
    marks=Marks(tuple(((name,),) for name in _MARKS)),
    understand=_understand,
)
