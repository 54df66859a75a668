"""The `estuary` envelope: flat documents with `_meta`, as Estuary Flow captures them."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from freshet import variants
from freshet.changes import versions
from freshet.changes.envelope import OTHER, Chosen, Envelope, Marks, change, is_of_table, key_of

_OPS: Final = ("c", "u", "d")
_TIMED_UUID: Final = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-1[0-9a-fA-F]{3}-"


def _understand(value: Column, chosen: Chosen) -> variants.Steps:
    """The document itself; a delete may hold nothing but the key."""
    said = yield variants.text(value, "_meta", "op")
    source = yield variants.field(value, "_meta", "source")
    is_backfill = yield F.coalesce(variants.text(source, "snapshot") == "true", F.lit(False))
    is_known = said.isin(*_OPS)
    # An event that does not say its table is of the chosen one.
    table = variants.text(source, "table")
    is_wanted = table.isNull() | is_of_table(chosen, variants.text(source, "schema"), table)
    key = yield key_of(value, chosen.key)
    old_key = yield key_of(variants.field(value, "_meta", "before"), chosen.key)
    is_read = is_backfill & (said == "c")
    op = yield F.when(is_known & ~is_wanted, OTHER).when(is_read, "r").otherwise(said)
    return change(
        key=key,
        op=op,
        is_deleted=F.coalesce(op == "d", F.lit(False)),
        position=_position(value, source, is_backfill),
        error=F.when(said.isNull(), F.lit("not a document of Estuary: there is no _meta.op")).when(
            ~is_known, F.left(F.concat(F.lit("_meta.op is not understood: "), said), F.lit(200))
        ),
        changed_at=versions.since_1970(variants.text(source, "ts_ms"), per_second=1_000),
        old_key=F.when((op == "u") & (old_key != key), old_key),
    )


def _position(value: Column, source: Column, is_backfill: Column) -> Column:
    """Backfilled documents have no place in the log, and sort below all that have."""
    uuid = variants.text(value, "_meta", "uuid")
    # The parts of the uuid's time, from the greatest to the smallest.
    clock = F.concat(*(F.substring(uuid, at, size) for at, size in ((15, 4), (10, 4), (1, 8))))
    return versions.composed(
        F.when(~is_backfill, versions.whole(F.lit(1))),
        F.when(~is_backfill, variants.in_steps(_in_log(source))).otherwise(
            versions.composed(*[versions.nothing()] * 4)
        ),
        versions.whole(variants.text(source, "ts_ms")),
        versions.words(F.when(uuid.rlike(_TIMED_UUID), clock)),
    )


def _in_log(source: Column) -> variants.Steps:
    """Four components whatever the source, so that positions of one stream compare."""
    cursor = yield F.split(variants.text(source, "cursor"), ":")
    mysql = versions.composed(
        versions.numbered(F.get(cursor, F.lit(0))),
        *(versions.whole(F.get(cursor, F.lit(place))) for place in (1, 2)),
    )
    sql_server = versions.composed(
        *(
            versions.words(F.hex(F.try_to_binary(variants.text(source, name), F.lit("base64"))))
            for name in ("lsn", "seqval")
        ),
        versions.nothing(),
        versions.nothing(),
    )
    places = (F.try_variant_get(source, f"$.loc[{place}]", "string") for place in range(3))
    postgres = versions.composed(*map(versions.whole, places), versions.nothing())
    return (
        F.when(cursor.isNotNull(), mysql)
        .when(variants.text(source, "lsn").isNotNull(), sql_server)
        .otherwise(postgres)
    )


ESTUARY: Final = Envelope(
    name="estuary",
    guarantee="Documents of one key are ordered by the source's position (Postgres: the numbers of "
    "`_meta.source.loc`; MySQL: `cursor`; SQL Server: `lsn` and `seqval`), then by `ts_ms` and the "
    "time in `_meta.uuid`, then by arrival; with none of these by arrival alone. Backfilled "
    "documents never beat a change.",
    marks=Marks(((("_meta", "op"),),)),
    understand=_understand,
    tells_of_others=True,
)
