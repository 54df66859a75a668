"""The versions of a Lance table that are kept."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from lance import LanceDataset

_MANIFEST: Final = ".manifest"
_LAST_VERSION: Final = (1 << 64) - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Version(NamedTuple):
    """A version that is kept, and when it was committed."""

    number: int
    committed_at: datetime


def version_named(name: str) -> int | None:
    """The version whose manifest has this name; None if it is no manifest's.

    Names count down from the last one that can be, and those of old tables up.
    """
    stem = name.removesuffix(_MANIFEST)
    if not stem.isdigit() or stem == name:
        return None
    return min(int(stem), _LAST_VERSION - int(stem))


def versions_of(dataset: LanceDataset) -> list[Version]:
    """The versions that are kept, oldest first, maybe with gaps; reads all their manifests."""
    # The public call tells local time, in which an hour of autumn comes twice.
    known: Any = dataset._ds.versions()
    return sorted(
        Version(int(one["version"]), _EPOCH + timedelta(microseconds=one["timestamp"] // 1_000))
        for one in known
    )
