"""Writes what a profile derived into the user's settings file; comments and layout stay."""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tomlkit

from freshet.profiling.derive import Advice
from freshet.settings import from_values

AnyAdvice = Advice[int] | Advice[str]


def write(file: Path, advice: Iterable[AnyAdvice]) -> list[AnyAdvice]:
    """Sets what is to change, and returns it; raises `SettingsError` before anything is written."""
    changes = [one for one in advice if one.is_change]
    with file.open(encoding="utf-8", newline="") as stream:
        text = stream.read()
    made = rewritten(text, {one.path: one.new for one in changes})
    from_values(tomllib.loads(made), where=str(file), folder=file.absolute().parent)
    if made != text:
        with file.open("w", encoding="utf-8", newline="") as stream:
            stream.write(made)
    return changes


def rewritten(text: str, values: Mapping[tuple[str, ...], Any]) -> str:
    """The settings with some values set; a section that is missing comes at the end. Pure."""
    document = tomlkit.parse(text)
    for (*sections, key), value in values.items():
        table: Any = document
        for name in sections:
            table = table.setdefault(name, tomlkit.table())
        table[key] = value
    return tomlkit.dumps(document)
