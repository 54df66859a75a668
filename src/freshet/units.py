"""Durations and sizes as people write them: `"10 seconds"`, `"256 MB"`."""

import math
import re
from typing import Final

from freshet.errors import SettingsError

_SECONDS: Final = {"millisecond": 0.001, "second": 1, "minute": 60, "hour": 3_600, "day": 86_400}
_BYTES: Final = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}

DURATION: Final = rf"^[0-9]+ ({'|'.join(_SECONDS)})s?$"
_LATENCY: Final = r"^([0-9]+(?:\.[0-9]+)?) ?(ms|s)$"
SIZE: Final = rf"^[1-9][0-9]* ?({'|'.join(_BYTES)})$"

_ROUND_S: Final = ((10, 1), (60, 5), (300, 30), (3_600, 60), (math.inf, 600))
"""Up to so many seconds, durations that are chosen are multiples of so many."""


def seconds_of(text: str) -> float:
    """A duration in seconds."""
    found = re.match(DURATION, text)
    if found is None:
        raise SettingsError(f'"{text}" is not a duration such as "10 seconds"')
    return int(text.split(maxsplit=1)[0]) * _SECONDS[found.group(1)]


def milliseconds_of(text: str) -> float:
    """A latency in milliseconds: `"50 ms"`, `"0.2 s"`, or a duration."""
    found = re.match(_LATENCY, text)
    if found is None:
        return 1_000 * seconds_of(text)
    return float(found.group(1)) * (1 if found.group(2) == "ms" else 1_000)


def duration_of(seconds: float) -> str:
    """The shortest duration of a round number that is not shorter; at least a second."""
    step = _step_for(seconds)
    return _spelled_out(max(step, math.ceil(seconds / step) * step))


def duration_within(seconds: float) -> str:
    """The longest duration of a round number that is not longer; at least a second."""
    step = _step_for(seconds)
    return _spelled_out(max(1, math.floor(seconds / step) * step))


def _step_for(seconds: float) -> int:
    return next(step for limit, step in _ROUND_S if seconds <= limit)


def _spelled_out(whole: int) -> str:
    for unit in ("hour", "minute"):
        size = int(_SECONDS[unit])
        if whole % size == 0:
            return _spelled(whole // size, unit)
    return _spelled(whole, "second")


def round_down(count: float) -> int:
    """A count with two digits that matter, not above what is given."""
    if count < 100:
        return math.floor(count)
    step = 10 ** (len(str(math.floor(count))) - 2)
    return int(count // step * step)


def _spelled(count: int, unit: str) -> str:
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


def bytes_of(text: str) -> int:
    """A size in bytes."""
    found = re.match(SIZE, text)
    if found is None:
        raise SettingsError(f'"{text}" is not a size such as "256 MB"')
    return int(re.sub(r"[^0-9]", "", text)) * _BYTES[found.group(1)]
