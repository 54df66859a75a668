"""The records of an Avro file as JSON values.

The blocks are decoded without their logical types, whose Python values would lose nanoseconds and
know no year 10000; those types are applied here, to the whole numbers and bytes that are stored.
fastavro is imported where it is used: most workers never see an Avro file.
"""

import io
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from decimal import Decimal
from functools import partial
from typing import IO, Any, Final, cast
from uuid import UUID

import pyarrow as pa

from freshet.landing.batches_executor import UnreadableError, batches_of
from freshet.landing.read_options import ReadOptions
from freshet.landing.values_executor import (
    PER_SECOND,
    base64_text,
    date_text,
    decimal_text,
    duration_text,
    json_text,
    time_text,
    timestamp_text,
)
from freshet.stores.file_systems import open_random

_Convert = Callable[[Any], Any]

_MAGIC: Final = b"Obj\x01"
_HEADER: Final = {
    "type": "record",
    "name": "Header",
    "fields": [
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": 16}},
    ],
}
_PYTHON_TYPES: Final[dict[str, type]] = {
    "null": type(None),
    "boolean": bool,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "bytes": bytes,
    "string": str,
    "array": list,
    "map": dict,
}


def read_avro(uri: str, _: ReadOptions) -> Iterator[pa.RecordBatch]:
    """The records of all blocks."""
    with open_random(uri) as file:
        yield from batches_of(_texts(Source(file)))


class Source:
    """An Avro file from its header on; reads no more than is there, whatever a length says."""

    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file
        self._left = file.size()
        self._before = b""
        if self.read(len(_MAGIC)) != _MAGIC:
            raise UnreadableError("it does not begin as Avro files do")
        import fastavro

        header: Any = fastavro.schemaless_reader(cast(IO[bytes], self), _HEADER, None)
        self.sync: bytes = header["sync"]
        self.metadata: dict[str, bytes] = header["meta"]

    def read(self, size: int) -> bytes:
        """The next bytes: `size` of them, fewer only at the end."""
        if size < 0:
            raise ValueError("a length is negative")
        head, self._before = self._before[:size], self._before[size:]
        tail: bytes = self._file.read(min(size - len(head), self._left))
        self._left -= len(tail)
        return head + tail

    def pretend_schema(self, schema: Any) -> None:
        """Puts the header back in front of the blocks, with another schema in it."""
        import fastavro

        meta = {**self.metadata, "avro.schema": json.dumps(schema).encode()}
        header = io.BytesIO()
        fastavro.schemaless_writer(header, _HEADER, {"meta": meta, "sync": self.sync})
        self._before = _MAGIC + header.getvalue()


def _texts(source: Source) -> Iterator[str]:
    import fastavro

    # Defaults serve other schemas than the writer's own, and old files hold wrong ones.
    schema = _without(json.loads(source.metadata["avro.schema"]), ("default",))
    named: dict[str, Any] = {}
    parsed = fastavro.parse_schema(schema, named)
    convert = _Conversions(named).of(parsed)
    source.pretend_schema(_without(schema, ("logicalType",)))
    for record in fastavro.reader(
        cast(IO[bytes], source), return_named_type=True, handle_unicode_errors="surrogateescape"
    ):
        yield json_text(convert(record))


def _without(schema: Any, attributes: tuple[str, ...]) -> Any:
    match schema:
        case dict():
            kept = {name: inner for name, inner in schema.items() if name not in attributes}
            return {name: _without(inner, attributes) for name, inner in kept.items()}
        case list():
            return [_without(inner, attributes) for inner in schema]
    return schema


class _Conversions:
    """Makes, for a parsed schema, the function that turns its values into what JSON has."""

    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named
        self._made: dict[str, _Convert] = {}

    def of(self, schema: Any) -> _Convert:
        """The function for a schema; `_same` if there is nothing to do."""
        match schema:
            case list():
                return self._of_union(schema)
            case {"type": "array", "items": items}:
                return _of_items(self.of(items))
            case {"type": "map", "values": values}:
                return _of_values(self.of(values))
            case {"type": list() | dict() as inner}:
                return self.of(inner)
        name = _name_of(schema)
        return self._of_named(name) if name in self._named else _leaf(schema)

    def _of_named(self, name: str) -> _Convert:
        if name not in self._made:
            # A record may contain itself: what is found meanwhile looks the function up later.
            self._made[name] = _Later(self._made, name)
            schema = self._named[name]
            is_record = schema["type"] in {"record", "error"}
            self._made[name] = self._of_fields(schema) if is_record else _leaf(schema)
        return self._made[name]

    def _of_fields(self, schema: Any) -> _Convert:
        fields = [(field["name"], self.of(field["type"])) for field in schema["fields"]]
        converted = [(name, convert) for name, convert in fields if convert is not _same]

        def convert_fields(record: Any) -> Any:
            for name, convert in converted:
                record[name] = convert(record[name])
            return record

        return convert_fields if converted else _same

    def _of_union(self, branches: list[Any]) -> _Convert:
        """Values of named types come with the name, of others the Python type must tell."""
        by_name: dict[str, _Convert] = {}
        by_type: dict[type, _Convert] = {}
        for branch in branches:
            name, convert = _name_of(branch), self.of(branch)
            if name in _PYTHON_TYPES:
                kind = _PYTHON_TYPES[name]
                # Of two sorts of whole numbers none can be told from the other.
                by_type[kind] = convert if by_type.get(kind, convert) is convert else _same
            else:
                by_name[name] = convert
        if not by_name and all(convert is _same for convert in by_type.values()):
            return _same

        def convert_branch(value: Any) -> Any:
            if isinstance(value, tuple):
                return by_name[value[0]](value[1])
            return by_type[type(value)](value)

        return convert_branch


@dataclass(frozen=True)
class _Later:
    """Looks a function up when it is needed: by then it is made."""

    made: Mapping[str, _Convert]
    name: str

    def __call__(self, value: Any) -> Any:
        return self.made[self.name](value)


def _name_of(schema: Any) -> str:
    """The full name of a named type; of any other the type itself."""
    return str(schema.get("name", schema["type"]) if isinstance(schema, dict) else schema)


def _same(value: Any) -> Any:
    return value


def _of_items(convert: _Convert) -> _Convert:
    return _same if convert is _same else lambda values: [convert(value) for value in values]


def _of_values(convert: _Convert) -> _Convert:
    if convert is _same:
        return _same
    return lambda entries: {name: convert(value) for name, value in entries.items()}


def _leaf(schema: Any) -> _Convert:
    whole = schema if isinstance(schema, dict) else {"type": schema}
    kind, logical = whole["type"], whole.get("logicalType")
    if logical == "decimal":
        return partial(_decimal, whole.get("scale", 0))
    return _LOGICAL.get((kind, logical), base64_text if kind in {"bytes", "fixed"} else _same)


def _decimal(scale: int, value: bytes) -> str:
    unscaled = int.from_bytes(value, "big", signed=True)
    return decimal_text(Decimal(f"{unscaled}E-{scale}"))


def _duration(value: bytes) -> str:
    months, days, milliseconds = struct.unpack("<III", value)
    return f"P{months}M{days}D{duration_text(milliseconds, 1_000)[1:]}"


def _uuid(value: bytes) -> str:
    return str(UUID(bytes=value))


def _time(unit: str) -> _Convert:
    return partial(time_text, per_second=PER_SECOND[unit])


def _timestamp(unit: str, zone: tzinfo | None) -> _Convert:
    return partial(timestamp_text, per_second=PER_SECOND[unit], zone=zone)


_LOGICAL: Final[Mapping[tuple[str, str | None], _Convert]] = {
    ("int", "date"): date_text,
    ("int", "time-millis"): _time("ms"),
    ("long", "time-micros"): _time("us"),
    ("long", "timestamp-millis"): _timestamp("ms", UTC),
    ("long", "timestamp-micros"): _timestamp("us", UTC),
    ("long", "timestamp-nanos"): _timestamp("ns", UTC),
    ("long", "local-timestamp-millis"): _timestamp("ms", None),
    ("long", "local-timestamp-micros"): _timestamp("us", None),
    ("long", "local-timestamp-nanos"): _timestamp("ns", None),
    ("fixed", "duration"): _duration,
    ("fixed", "uuid"): _uuid,
}
