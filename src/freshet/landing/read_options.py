"""How the files of a landing zone are to be read. Imports nothing heavy."""

from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from freshet.errors import SettingsError

FORMATS: Final = ("auto", "json", "csv", "parquet", "avro", "orc")

COMPRESSION_SUFFIXES: Final = (".gz", ".gzip", ".zst", ".zstd", ".bz2", ".lz4")

_FORMAT_OF_SUFFIX: Final = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".avro": "avro",
    ".orc": "orc",
}


@dataclass(frozen=True)
class ReadOptions:
    """The format of the files and the dialect of CSV, checked; raises SettingsError.

    `csv_columns` names the columns of files without a header; without names they are c0, c1, ….
    An empty `csv_quote` means that quotes are ordinary characters.
    """

    format: str = "json"
    csv_header: bool = True
    csv_delimiter: str = ","
    csv_quote: str = '"'
    csv_escape: str | None = None
    csv_null: str = ""
    csv_columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise SettingsError(f'the format "{self.format}" is not one of {", ".join(FORMATS)}')
        characters = {"csv_delimiter": self.csv_delimiter}
        characters |= {"csv_quote": self.csv_quote} if self.csv_quote else {}
        characters |= {"csv_escape": self.csv_escape} if self.csv_escape is not None else {}
        for name, character in characters.items():
            _check_character(name, character)
        if len(set(characters.values())) < len(characters):
            raise SettingsError(f"{', '.join(characters)} must be different characters")
        if self.csv_escape is not None and self.csv_escape in self.csv_null:
            raise SettingsError(
                f'csv_null "{self.csv_null}" cannot be told from an escaped text: '
                f'it contains csv_escape "{self.csv_escape}"'
            )
        if len(set(self.csv_columns)) < len(self.csv_columns):
            raise SettingsError("csv_columns names a column twice")

    def for_file(self, uri: str) -> "ReadOptions | None":
        """These options with the file's own format; None if `auto` and its name tells none."""
        if self.format != "auto":
            return self
        suffix = format_suffix(uri)
        if suffix not in _FORMAT_OF_SUFFIX:
            return None
        delimiter = "\t" if suffix == ".tsv" else self.csv_delimiter
        return replace(self, format=_FORMAT_OF_SUFFIX[suffix], csv_delimiter=delimiter)


def format_suffix(uri: str) -> str:
    """The last suffix below that of a compression, in lower case."""
    name = PurePosixPath(uri.lower())
    return name.with_suffix("").suffix if name.suffix in COMPRESSION_SUFFIXES else name.suffix


def is_compressed(uri: str) -> bool:
    """Whether the name says that the content is compressed as a whole."""
    return uri.lower().endswith(COMPRESSION_SUFFIXES)


def _check_character(name: str, value: str) -> None:
    if len(value) != 1 or not value.isascii() or value in "\r\n":
        raise SettingsError(f'{name} must be one ASCII character, not "{value}"')
