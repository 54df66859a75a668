"""Which fields of an image hold a placeholder: the tool did not have the value, as it is unchanged.

Debezium writes the placeholder in the type of the column: as text (also JSON, XML and CLOB), as
bytes (base64 or hex, as it is set), as a map of itself to itself, and for an array either as its
one element or, where elements are numbers, as one number for each of its bytes.
"""

import base64
import hashlib
import json
import re
import uuid
from functools import reduce
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

_NAME = r'"((?:[^"\\]++|\\.)*+)":'


def fields_with(placeholder: str, image: Column) -> Column:
    """A JSON array of the fields that hold the placeholder; null if none does.

    `image` is the image as JSON without spaces, as `to_json` writes it. Only images in which the
    placeholder stands somewhere pay for the look at the fields. A longer text that contains it is
    a text of the user: quotes inside a text are escaped, so no pattern here fits inside one.
    """
    values = _forms(placeholder)
    every_mark = (*marks(placeholder), *array_marks(placeholder))
    stands_there = reduce(Column.__or__, (image.contains(mark) for mark in every_mark))
    alternatives = "|".join(re.escape(_compact(value)) for value in values)
    names = F.regexp_extract_all(image, F.lit(f"{_NAME}(?:{alternatives})(?=[,}}])"), F.lit(1))
    listed = F.concat(F.lit('["'), F.concat_ws('","', names), F.lit('"]'))
    return F.when(stands_there, F.when(F.size(names) > 0, listed))


def _forms(placeholder: str) -> list[Any]:
    raw = placeholder.encode()
    texts = [placeholder, *_as_bytes(raw), _as_uuid(raw)]
    one_byte_each = [base64.b64encode(bytes([byte])).decode() for byte in raw]
    numbers: list[Any] = [
        list(raw),
        one_byte_each,
        [{"scale": 0, "value": text} for text in one_byte_each],
    ]
    as_map = {placeholder: placeholder}
    return [*texts, *([text] for text in texts), *numbers, as_map, _compact(as_map)]


def marks(placeholder: str) -> list[str]:
    """What stands in a text that has any of the forms, but for those that are arrays of bytes.

    The fewer, the faster; and a mark that begins with a rare character is looked for faster.
    """
    raw = placeholder.encode()
    plain, url_safe, in_hex = _as_bytes(raw)
    dash_on = _as_uuid(raw).partition("-")[1:]
    return [placeholder, *{plain, url_safe}, in_hex, "".join(dash_on)]


def array_marks(placeholder: str) -> list[str]:
    """What stands in a text with one of the forms that are arrays of bytes."""
    first, *others = placeholder.encode()
    one_byte = base64.b64encode(bytes([first])).decode()
    return ["".join(f",{byte}" for byte in others) or f"[{first}]", f'{one_byte}"']


def _as_bytes(raw: bytes) -> tuple[str, str, str]:
    return base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode(), raw.hex()


def _as_uuid(raw: bytes) -> str:
    """As Java's `UUID.nameUUIDFromBytes` makes it: version 3, without a namespace."""
    digest = hashlib.md5(raw, usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3))


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
