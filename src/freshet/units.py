"""Durations and sizes as people write them: `"10 seconds"`, `"256 MB"`."""

import re
from typing import Final

from freshet.errors import SettingsError

_SECONDS: Final = {"millisecond": 0.001, "second": 1, "minute": 60, "hour": 3_600, "day": 86_400}
_BYTES: Final = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}

DURATION: Final = rf"^[0-9]+ ({'|'.join(_SECONDS)})s?$"
SIZE: Final = rf"^[1-9][0-9]* ?({'|'.join(_BYTES)})$"


def seconds_of(text: str) -> float:
    """A duration in seconds."""
    found = re.match(DURATION, text)
    if found is None:
        raise SettingsError(f'"{text}" is not a duration such as "10 seconds"')
    return int(text.split(maxsplit=1)[0]) * _SECONDS[found.group(1)]


def bytes_of(text: str) -> int:
    """A size in bytes."""
    found = re.match(SIZE, text)
    if found is None:
        raise SettingsError(f'"{text}" is not a size such as "256 MB"')
    return int(re.sub(r"[^0-9]", "", text)) * _BYTES[found.group(1)]
