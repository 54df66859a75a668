"""Backups: what one is made of, where they lie, and whether one is whole.

A backup is a folder named after its time, and its manifest is written last: a folder without one is
not a backup. The manifest names every file with size and SHA-256, and carries its own.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final, Self

from freshet.errors import StoreError
from freshet.stores import copies
from freshet.stores.copies import Content

MANIFEST: Final = "manifest.json"
FORMAT: Final = 1
NAMES: Final = "%Y%m%dT%H%M%SZ"
_SEAL: Final = "sha256"


@dataclass(frozen=True)
class CopiedTable:
    """A small table, as one Parquet file."""

    rows: int
    version: int
    configuration: Mapping[str, str]


@dataclass(frozen=True)
class CopiedQuery:
    """How far a query had come."""

    query_id: str | None
    batch_id: int | None
    """The newest finished batch."""
    end: Any
    """Where the newest planned batch ends."""


@dataclass(frozen=True)
class TableVersion:
    """A table that is not copied, but that the copies belong to."""

    table_id: str
    version: int
    end: int | None = None
    """Bronze: the first file number that it did not have."""


@dataclass(frozen=True)
class Manifest:
    """What a backup says of itself."""

    pipeline: str
    made_at: datetime
    queries: Mapping[str, CopiedQuery]
    tables: Mapping[str, CopiedTable]
    bronze: TableVersion | None
    index: TableVersion | None
    files: Mapping[str, Content] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """All of it, plainly."""
        return {"format": FORMAT} | asdict(self) | {"made_at": self.made_at.isoformat()}

    def to_bytes(self) -> bytes:
        """As it is written."""
        values = self.as_dict()
        return json.dumps(values | {_SEAL: _seal(values)}, indent=1).encode()

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Raises `ValueError` with a phrase if it is damaged, changed or of an unknown format."""
        try:
            values: dict[str, Any] = json.loads(data)
            seal = values.pop(_SEAL)
            known = values.pop("format")
        except (ValueError, LookupError, AttributeError, TypeError):
            raise ValueError("its manifest is damaged") from None
        if known != FORMAT:
            raise ValueError(f"its format {known} is not known here")
        if _seal({"format": known} | values) != seal:
            raise ValueError("its manifest was changed")
        return cls(
            pipeline=values["pipeline"],
            made_at=datetime.fromisoformat(values["made_at"]),
            queries={name: CopiedQuery(**one) for name, one in values["queries"].items()},
            tables={name: CopiedTable(**one) for name, one in values["tables"].items()},
            bronze=TableVersion(**values["bronze"]) if values["bronze"] else None,
            index=TableVersion(**values["index"]) if values["index"] else None,
            files={name: Content(**one) for name, one in values["files"].items()},
        )


@dataclass(frozen=True)
class Backup:
    """A folder with a manifest."""

    uri: str
    manifest: Manifest

    @property
    def name(self) -> str:
        """Its folder."""
        return self.uri.rpartition("/")[2]

    @property
    def bytes(self) -> int:
        """The size of all its files."""
        return sum(content.bytes for content in self.manifest.files.values())

    @classmethod
    def open(cls, uri: str) -> Self:
        """Raises `StoreError` if there is none, or its manifest is not as it was written."""
        try:
            return cls(uri, Manifest.parse(copies.read(f"{uri}/{MANIFEST}")))
        except FileNotFoundError:
            raise StoreError("open the backup", uri, f"it has no {MANIFEST}") from None
        except (OSError, ValueError) as error:
            raise StoreError("open the backup", uri, error) from error

    def damage(self) -> list[str]:
        """What is not as it was written; empty if the backup is whole."""
        return [
            phrase
            for name, content in self.manifest.files.items()
            if (phrase := _damage(f"{self.uri}/{name}", name, content))
        ]


def backups_in(place: str, pipeline: str) -> list[Backup]:
    """A pipeline's backups in a folder, oldest first; what is damaged or not whole is left out."""
    found = []
    for name in copies.folders_in(place):
        try:
            backup = Backup.open(f"{place.rstrip('/')}/{name}")
        except StoreError:
            continue
        if backup.manifest.pipeline == pipeline:
            found.append(backup)
    return sorted(found, key=lambda backup: (backup.manifest.made_at, backup.name))


def _damage(uri: str, name: str, written: Content) -> str | None:
    try:
        found = copies.content_of(uri)
    except FileNotFoundError:
        return f"{name} is missing"
    except OSError as error:
        return f"{name} cannot be read: {error}"
    return None if found == written else f"{name} does not fit its checksum"


def _seal(values: Mapping[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
