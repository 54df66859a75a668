"""Values as JSON text, without loss: what JSON has no type for travels as text.

    value                          JSON
    -----------------------------  --------------------------------------------------------------
    boolean, text, enum, uuid      itself; a uuid as 8-4-4-4-12 digits
    integer                        number with all its digits, also beyond 2^53
    float                          number; NaN, Infinity and -Infinity as text
    decimal                        text with all its digits: "12.30"
    timestamp with a zone          "2024-01-02T03:04:05.000006+01:00", an unknown zone as UTC
    timestamp without, date, time  "2024-01-02T03:04:05", "2024-01-02", "03:04:05.000000007"
    duration                       ISO-8601 in seconds: "PT90.000001S", "-PT0.5S"
    duration of Avro               its months, days and seconds: "P1M2DT3.004S"
    binary, fixed                  base64
    list, struct                   array, object
    map                            object; if its keys are not text, [{"key": …, "value": …}, …]

Fractions of a second have 6 digits, or 9 where there are nanoseconds, or none where they are 0.
Years beyond 0001 to 9999 have a sign: "+12024-01-02".
"""

import base64
import json
import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_S: Final = 86_400
_CYCLE_S: Final = 146_097 * _DAY_S  # after 400 years the calendar is the same again
_OFFSET: Final = re.compile(r"([+-])(\d\d):?(\d\d)")

_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def json_rows(batch: pa.RecordBatch) -> list[str]:
    """Each row as the text of an object; raises ValueError if a name is there twice."""
    return [json_text(row) for row in _objects(batch.schema.names, batch.columns, len(batch))]


def json_text(value: Any) -> str:
    """A plain value as JSON text; floats that JSON lacks are spelled out."""
    try:
        return _encode(value)
    except ValueError:
        return _encode(_spelled_out(value))


def _spelled_out(value: Any) -> Any:
    match value:
        case dict():
            return {name: _spelled_out(inner) for name, inner in value.items()}
        case list():
            return [_spelled_out(inner) for inner in value]
        case float() if math.isnan(value):
            return "NaN"
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
    return value


# --- Single values -------------------------------------------------------------------------------


def timestamp_text(value: int, per_second: int, zone: tzinfo | None) -> str:
    """Parts of a second since 1970, in UTC if there is a zone to show them in."""
    seconds, fraction = divmod(value, per_second)
    try:
        moment = (_EPOCH + timedelta(seconds=seconds)).astimezone(zone or UTC)
        year = ""
    except OverflowError:
        cycles, seconds = divmod(seconds, _CYCLE_S)
        moment = _EPOCH + timedelta(seconds=seconds)
        year = f"{moment.year + 400 * cycles:+05d}"
    text = moment.isoformat()
    offset = text[19:] if zone else ""
    return f"{year or text[:4]}{text[4:19]}{_fraction(fraction, per_second)}{offset}"


def date_text(days: int) -> str:
    """Days since 1970."""
    return timestamp_text(days * _DAY_S, 1, None).partition("T")[0]


def time_text(value: int, per_second: int) -> str:
    """Parts of a second since midnight."""
    seconds, fraction = divmod(value, per_second)
    minutes, second = divmod(seconds, 60)
    clock = f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"
    return clock + _fraction(fraction, per_second)


def duration_text(value: int, per_second: int) -> str:
    """A length of time, in seconds."""
    seconds, fraction = divmod(abs(value), per_second)
    return f"{'-' if value < 0 else ''}PT{seconds}{_fraction(fraction, per_second)}S"


def decimal_text(value: Decimal) -> str:
    """All digits, no exponent."""
    return format(value, "f")


def base64_text(value: bytes) -> str:
    """Bytes."""
    return base64.b64encode(value).decode("ascii")


def _fraction(parts: int, per_second: int) -> str:
    nanoseconds = parts * (1_000_000_000 // per_second)
    microseconds, rest = divmod(nanoseconds, 1_000)
    if rest:
        return f".{nanoseconds:09d}"
    return f".{microseconds:06d}" if microseconds else ""


# --- Columns -------------------------------------------------------------------------------------


def _plain(array: pa.Array) -> list[Any]:
    """The values of a column as what JSON has."""
    for is_kind, convert in _KINDS:
        if is_kind(array.type):
            return convert(array)
    return array.to_pylist()  # type: ignore[no-any-return]


def _objects(
    names: Sequence[str], columns: Sequence[pa.Array], length: int
) -> list[dict[str, Any]]:
    if len(set(names)) < len(names):
        raise ValueError(f"a name is there twice among {', '.join(names)}")
    if not columns:
        return [{} for _ in range(length)]
    rows = zip(*map(_plain, columns), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]


def _each(array: pa.Array, convert: Callable[[Any], Any]) -> list[Any]:
    return [None if value is None else convert(value) for value in array.to_pylist()]


def _texts(array: pa.Array) -> list[Any]:
    try:
        return array.to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        content = array.cast(pa.large_binary())
        return _each(content, lambda value: value.decode("utf-8", "surrogateescape"))


def _half_floats(array: pa.Array) -> list[Any]:
    return array.cast(pa.float32()).to_pylist()  # type: ignore[no-any-return]


def _decimals(array: pa.Array) -> list[Any]:
    return _each(array, decimal_text)


def _binaries(array: pa.Array) -> list[Any]:
    return _each(array, base64_text)


def _timestamps(array: pa.Array) -> list[Any]:
    per_second, zone = PER_SECOND[array.type.unit], _zone(array.type.tz)
    return _each(array.cast(pa.int64()), lambda value: timestamp_text(value, per_second, zone))


def _zone(name: str | None) -> tzinfo | None:
    if name is None:
        return None
    if found := _OFFSET.fullmatch(name):
        sign, hours, minutes = found.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        return timezone(-offset if sign == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        return UTC


def _dates(array: pa.Array) -> list[Any]:
    return _each(array.cast(pa.date32()).cast(pa.int32()), date_text)


def _times(array: pa.Array) -> list[Any]:
    per_second = PER_SECOND[array.type.unit]
    whole = pa.int32() if pt.is_time32(array.type) else pa.int64()
    return _each(array.cast(whole), lambda value: time_text(value, per_second))


def _durations(array: pa.Array) -> list[Any]:
    per_second = PER_SECOND[array.type.unit]
    return _each(array.cast(pa.int64()), lambda value: duration_text(value, per_second))


def _dictionaries(array: pa.Array) -> list[Any]:
    return _plain(array.dictionary_decode())


def _structs(array: pa.Array) -> list[Any]:
    names = [field.name for field in array.type]
    rows = _objects(names, array.flatten(), len(array))
    are_there = array.is_valid().to_pylist()
    return [row if is_there else None for row, is_there in zip(rows, are_there, strict=True)]


def _lists(array: pa.Array) -> list[Any]:
    values = iter(_plain(array.flatten()))
    lengths = pc.list_value_length(array).to_pylist()
    return [None if size is None else [next(values) for _ in range(size)] for size in lengths]


def _maps(array: pa.Array) -> list[Any]:
    offsets = array.offsets.to_pylist()
    first, count = offsets[0], offsets[-1] - offsets[0]
    keys = _plain(array.keys.slice(first, count))
    values = _plain(array.items.slice(first, count))
    entries = list(zip(keys, values, strict=True))
    make = dict if _is_text(array.type.key_type) else _pairs
    are_there = array.is_valid().to_pylist()
    return [
        make(entries[start - first : end - first]) if is_there else None
        for (start, end), is_there in zip(pairwise(offsets), are_there, strict=True)
    ]


def _pairs(entries: list[tuple[Any, Any]]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in entries]


def _unions(array: pa.Array) -> list[Any]:
    """Each value stands in the child of its type: at its own place, or at the row's."""
    codes = array.type_codes.to_pylist()
    is_dense = array.type.mode == "dense"
    places = array.offsets.to_pylist() if is_dense else range(len(array))
    children = [_plain(array.field(code)) for code in range(array.type.num_fields)]
    return [children[code][place] for code, place in zip(codes, places, strict=True)]


def _extensions(array: pa.Array) -> list[Any]:
    is_uuid = array.type.extension_name == "arrow.uuid"
    return _each(array, str) if is_uuid else _plain(array.storage)


def _is_text(kind: pa.DataType) -> bool:
    return _is_any(kind, pt.is_string, pt.is_large_string, pt.is_string_view)


def _is_binary(kind: pa.DataType) -> bool:
    variable = (pt.is_binary, pt.is_large_binary, pt.is_binary_view)
    return _is_any(kind, pt.is_fixed_size_binary, *variable)


def _is_list(kind: pa.DataType) -> bool:
    views = (pt.is_list_view, pt.is_large_list_view)
    return _is_any(kind, pt.is_list, pt.is_large_list, pt.is_fixed_size_list, *views)


def _is_any(kind: pa.DataType, *questions: Callable[[pa.DataType], bool]) -> bool:
    return any(question(kind) for question in questions)


def _is_extension(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType)


_KINDS: Final[Sequence[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], list[Any]]]]] = (
    (_is_extension, _extensions),
    (_is_text, _texts),
    (pt.is_float16, _half_floats),
    (pt.is_decimal, _decimals),
    (pt.is_timestamp, _timestamps),
    (pt.is_date, _dates),
    (pt.is_time, _times),
    (pt.is_duration, _durations),
    (_is_binary, _binaries),
    (pt.is_dictionary, _dictionaries),
    (pt.is_map, _maps),
    (_is_list, _lists),
    (pt.is_struct, _structs),
    (pt.is_union, _unions),
)
