"""The options of the source, checked. Light to import: every Python worker does."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, get_type_hints

from freshet.errors import SettingsError
from freshet.landing.read_options import FORMATS, ReadOptions
from freshet.units import bytes_of, seconds_of

_CHOICES: Final = {
    "format": FORMATS,
    "discovery": ("listing", "notification"),
    "overwrites": ("ignore", "reread", "refuse"),
    "after_read": ("keep", "archive", "delete"),
}
_TRUE: Final = {"true": True, "false": False}


@dataclass(frozen=True)
class LandingOptions:
    """What the settings' section [landing] says, with the place of the files table."""

    path: str
    state: str
    format: str = "json"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    recursive: bool = True
    include_existing: bool = True
    max_files_per_trigger: int = 1_000
    max_bytes_per_trigger: str | None = None
    discovery: str = "listing"
    queue: str | None = None
    backfill_interval: str = "10 minutes"
    names_sort: bool = False
    settle: str = "1 second"
    patience: str = "1 minute"
    overwrites: str = "ignore"
    after_read: str = "keep"
    archive_path: str | None = None
    retention: str = "7 days"
    csv_header: bool = True
    csv_columns: tuple[str, ...] = ()
    csv_delimiter: str = ","
    csv_quote: str = '"'
    csv_escape: str | None = None
    csv_null: str = ""
    parallelism: int = 0

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "LandingOptions":
        """Options as Spark hands them over, all strings; unknown ones are errors."""
        kinds = get_type_hints(cls)
        values: dict[str, Any] = {}
        for given, value in options.items():
            name = given.lower()
            if name not in kinds:
                raise SettingsError(f'unknown option "{given}"; known are {", ".join(kinds)}')
            values[name] = _value(name, kinds[name], value)
        for name in ("path", "state"):
            if not values.get(name):
                raise SettingsError(f'the option "{name}" is missing')
        return cls(**values)._checked()

    def as_options(self) -> dict[str, str]:
        """The form that Spark hands over, and `parse` reads: what is not as it is by default."""
        given = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: _text(value) for name, (value, usual) in given.items() if value != usual}

    @property
    def reading(self) -> ReadOptions:
        """What reading one file needs to know."""
        return ReadOptions(**{f.name: getattr(self, f.name) for f in fields(ReadOptions)})

    @property
    def identifies_versions(self) -> bool:
        """Whether a file is known by size and time as well, and not by its path alone."""
        return self.overwrites != "ignore"

    @property
    def max_bytes(self) -> int | None:
        """The byte limit of a batch."""
        limit = self.max_bytes_per_trigger
        return None if limit is None else bytes_of(limit)

    def _checked(self) -> "LandingOptions":
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise SettingsError(
                    f'the {name} "{getattr(self, name)}" is not one of {", ".join(choices)}'
                )
        for name in ("backfill_interval", "settle", "patience", "retention"):
            seconds_of(getattr(self, name))
        if self.max_bytes_per_trigger is not None:
            bytes_of(self.max_bytes_per_trigger)
        if self.after_read == "archive" and not self.archive_path:
            raise SettingsError('after_read is "archive": the option "archive_path" is missing')
        return self


def _text(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case tuple():
            return json.dumps(value)
    return str(value)


def _value(name: str, kind: Any, value: str) -> Any:
    if kind is bool:
        if value.lower() not in _TRUE:
            raise SettingsError(f'the option "{name}" must be true or false, not "{value}"')
        return _TRUE[value.lower()]
    if kind is int:
        if not value.isdigit() or int(value) < 1:
            raise SettingsError(
                f'the option "{name}" must be a whole number above 0, not "{value}"'
            )
        return int(value)
    return _list(value) if kind == tuple[str, ...] else value


def _list(value: str) -> tuple[str, ...]:
    """A JSON list, or names with commas between them."""
    if value.lstrip().startswith("["):
        return tuple(json.loads(value))
    return tuple(part.strip() for part in value.split(",") if part.strip())
