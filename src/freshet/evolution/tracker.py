"""Follows the records' schema from batch to batch, and writes its history."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from freshet.errors import SchemaChangedError
from freshet.events import emit, warn
from freshet.evolution.decide import Decision, Mode, Seen, decide
from freshet.evolution.history import History
from freshet.evolution.schema import Entry, Event, Schema
from freshet.evolution.types import Kind, merged, names_of, parsed

_MOST_EXAMPLES: Final = 20
_LONGEST_EXAMPLE: Final = 200
_MOST_SETTLED: Final = 20_000
_MOST_NAMED: Final = 5
_IMAGE: Final = "coalesce(record, raw)"
_AVAILABLE: Final = (
    f"to_json(map_filter(from_json({_IMAGE}, 'map<string, variant>'), "
    "(name, _) -> NOT array_contains(from_json(unavailable, 'array<string>'), name)))"
)
_TAKEN: Final = (Event.ADDED, Event.WIDENED)


class Tracker:
    """Compares every batch with the schema before it is written.

    Remembers which records fit the schema, by a hash of what they look like. Most batches bring no
    others, and then 8 bytes a record are all that is looked at.
    """

    def __init__(self, history: History, mode: str) -> None:
        self._history = history
        self._mode = Mode(mode)
        self._settled: set[int] = set()
        self._settled_for: Schema | None = None
        self._is_quiet = False
        """Whether the last batch had nothing to tell, so that this one may have nothing, too."""

    def follow(self, events: DataFrame, batch_id: int) -> Schema:
        """The schema that a batch is to be written with; what it changes is on record then.

        Raises `SchemaChangedError` if the change must be accepted first. A batch that is run again
        changes nothing.
        """
        schema = self._history.schema()
        if self._is_quiet and schema is self._settled_for and marks_of(events) <= self._settled:
            return schema
        self._record(events, looks_of(events), batch_id)
        return self._history.schema()

    def _record(self, events: DataFrame, seen: Sequence[Seen], batch_id: int) -> None:
        decision, news = Decision(), frozenset[tuple[str, Kind | None]]()

        def changes(schema: Schema) -> Sequence[Entry]:
            nonlocal decision, news
            decision = decide(schema, self._unsettled(schema, seen), self._mode, batch_id)
            news = frozenset(_type_of(one) for one in decision.entries) - schema.held.keys()
            return with_examples(events, decision.entries, news)

        written = self._history.append(changes)
        _tell(written, news, decision.too_wide)
        if decision.stops:
            raise _stopped(decision.stops, batch_id)
        self._settle(self._history.schema(), seen)

    def _unsettled(self, schema: Schema, seen: Sequence[Seen]) -> list[Seen]:
        if schema is not self._settled_for:
            self._settled.clear()
            self._settled_for = schema
        return [one for one in seen if one.mark not in self._settled]

    def _settle(self, schema: Schema, seen: Sequence[Seen]) -> None:
        """What fits now need not be looked at again, until the schema changes."""
        shape = schema.shape
        fitting = {
            one.mark
            for one in self._unsettled(schema, seen)
            if not merged(shape, parsed(one.schema))[1]
        }
        if len(self._settled) < _MOST_SETTLED:
            self._settled |= fitting
        self._is_quiet = all(one.mark in self._settled for one in seen)


def _type_of(entry: Entry) -> tuple[str, Kind | None]:
    return entry.column, entry.to_type


def marks_of(events: DataFrame) -> set[int]:
    """Hashes of what the records of a batch look like; one job without a shuffle."""
    marked = _looks(events).selectExpr("CASE WHEN look IS NOT NULL THEN xxhash64(look) END")
    return set(marked.toArrow().column(0).drop_null().unique().to_pylist())


def looks_of(events: DataFrame) -> list[Seen]:
    """What the records of a batch look like, and how many look alike; what comes back is small."""
    found = (
        _looks(events)
        .groupBy("look")
        .agg(
            F.expr("xxhash64(look) AS mark"),
            F.expr("count(*) AS records"),
            F.expr("min(struct(seq, row, file)) AS first"),
            F.expr("max(seq) AS last_seq"),
        )
    )
    return [
        Seen(look, records, first["file"], first["seq"], first["row"], last_seq, mark)
        for look, mark, records, first, last_seq in found.collect()
        if look is not None
    ]


def _looks(events: DataFrame) -> DataFrame:
    """Deletes are left out, since nothing of their image goes into the index.

    So are values that the tool left out: what stands in their place has a type of its own.
    """
    usable = events.where("error IS NULL AND key IS NOT NULL AND NOT is_deleted")
    image = f"try_parse_json(if(unavailable IS NULL, {_IMAGE}, {_AVAILABLE}))"
    return usable.selectExpr("seq", "row", "file", f"schema_of_variant({image}) AS look")


def with_examples(
    events: DataFrame, entries: Sequence[Entry], news: Collection[tuple[str, Kind | None]]
) -> list[Entry]:
    """The entries; what is not taken, and new, has a value with it, so that a person sees it."""
    shown = [one for one in entries if one.what not in _TAKEN and _type_of(one) in news]
    places = {(one.seq, one.row) for one in shown[:_MOST_EXAMPLES]}
    records = _records_at(events, places) if places else {}
    return [_with_example(one, records) if one in shown else one for one in entries]


def _records_at(
    events: DataFrame, places: Collection[tuple[int | None, int | None]]
) -> Mapping[tuple[int, int], Any]:
    """The images of a few records, by file number and row."""
    place = F.concat_ws(" ", F.col("seq"), F.col("row"))
    rows = (
        events.where(F.col("error").isNull() & place.isin([f"{seq} {row}" for seq, row in places]))
        .select("seq", "row", F.coalesce("record", "raw").alias("image"))
        .collect()
    )
    return {(row["seq"], row["row"]): json.loads(row["image"]) for row in rows}


def _with_example(entry: Entry, records: Mapping[tuple[int, int], Any]) -> Entry:
    value = records.get((entry.seq or 0, entry.row or 0))
    for name in names_of(entry.column):
        if name is None or not isinstance(value, dict):
            break
        value = value.get(name)
    if value is None:
        return entry
    return replace(entry, example=clipped(json.dumps(value, ensure_ascii=False)))


def clipped(text: str) -> str:
    """The beginning of a text that may be long."""
    return text if len(text) <= _LONGEST_EXAMPLE else text[: _LONGEST_EXAMPLE - 1] + "…"


def _tell(
    written: Sequence[Entry], news: Collection[tuple[str, Kind | None]], too_wide: Sequence[str]
) -> None:
    """New troubles are warnings; the same ones in later batches are not."""
    for entry in written:
        is_trouble = entry.what not in _TAKEN and _type_of(entry) in news
        (warn if is_trouble else emit)(
            "evolution",
            f"column_{entry.what}",
            version=entry.version,
            column=entry.column,
            from_type=entry.from_type,
            to_type=entry.to_type,
            file=entry.file,
            row=entry.row,
            records=entry.records,
        )
    for path in too_wide:
        warn("evolution", "object_too_wide", column=path or "(the record)")


def _stopped(stops: Sequence[Entry], batch_id: int) -> SchemaChangedError:
    first = min(stops, key=lambda one: (one.seq or 0, one.row or 0))
    sentences = [described(one) for one in stops[:_MOST_NAMED]]
    if len(stops) > _MOST_NAMED:
        sentences.append(f"{len(stops) - _MOST_NAMED} more")
    return SchemaChangedError(
        sentences, batch_id=batch_id, file=first.file or "", row=first.row or 0
    )


def described(entry: Entry) -> str:
    """A change in a few words."""
    if entry.from_type is None:
        return f"column {entry.column} ({entry.to_type}) is new"
    return f"column {entry.column} was {entry.from_type} and is {entry.to_type}"
