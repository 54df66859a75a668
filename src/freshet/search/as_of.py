"""Which version of an index is meant by a search as of then. Pure."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from freshet.errors import AsOfError, SearchError
from freshet.stores.lance_versions import Version
from freshet.units import DURATION, seconds_of

AsOf = int | datetime
"""A version by its number, or a moment; a moment without a zone is one of UTC."""


def as_of_from(text: str, now: datetime) -> AsOf:
    """What people write: `12`, `2026-11-16T07:00:00Z`, `2026-11-16 07:00` or `10 minutes ago`."""
    written = text.strip()
    if written.isdecimal():
        return int(written)
    duration = written.removesuffix(" ago")
    try:
        if duration != written and re.match(DURATION, duration):
            return now - timedelta(seconds=seconds_of(duration))
        return _in_utc(datetime.fromisoformat(written))
    except (ValueError, OverflowError):
        raise SearchError(
            f'"{text}" is neither a version, such as 12, nor a moment, such as "2026-11-16 07:00" '
            '(UTC) or "10 minutes ago"'
        ) from None


def version_as_of(as_of: AsOf, kept: Sequence[Version], now: datetime) -> int:
    """The number of that version, or of the newest one at or before that moment.

    Raises `AsOfError` if it is not kept, or if nobody can tell which one it was: some that were
    committed between two kept ones may have been cleaned away. `kept` goes from old to new, and
    ends with the newest version that there is.
    """
    if isinstance(as_of, datetime):
        return _version_at(_in_utc(as_of), kept, now)
    if as_of in {version.number for version in kept}:
        return as_of
    was = 1 <= as_of < kept[-1].number
    problem = "was cleaned away" if was else "has never been"
    raise AsOfError(f"version {as_of} of the index {problem}", kept=_told(kept))


def _version_at(moment: datetime, kept: Sequence[Version], now: datetime) -> int:
    if moment > now:
        raise AsOfError(f"{_utc(moment)} is in the future", kept=_told(kept))
    places = [place for place, version in enumerate(kept) if version.committed_at <= moment]
    if not places:
        was = "had not been made yet" if kept[0].number == 1 else "was cleaned away since"
        raise AsOfError(f"the index of {_utc(moment)} {was}", kept=_told(kept))
    newest, later = kept[places[-1]], kept[places[-1] + 1 :]
    if later and later[0].number != newest.number + 1:
        raise AsOfError(
            f"the index of {_utc(moment)} cannot be told: it was of version {newest.number} or "
            f"later, and those up to version {later[0].number} were cleaned away",
            kept=_told(kept),
        )
    return newest.number


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _told(kept: Sequence[Version]) -> str:
    first, last = kept[0], kept[-1]
    ends = f"{first.number} ({_utc(first.committed_at)}) to {last.number}"
    return f"{len(kept)} versions, {ends} ({_utc(last.committed_at)})"


def _utc(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
