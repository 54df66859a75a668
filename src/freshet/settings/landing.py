"""The section [landing]."""

from typing import Literal, Self

from pydantic import Field, model_validator

from freshet.settings.section import Section
from freshet.units import DURATION, SIZE


class LandingSettings(Section):
    """Where change files arrive, how they are found, and how they are read."""

    path: str = Field(description="Folder that change files land in; relative to the file.")
    format: Literal["auto", "json", "csv", "parquet", "avro", "orc"] = Field(
        "json",
        description="`json` (lines, one array, or documents), `csv`, `parquet`, `avro`, `orc`, or "
        "`auto`: each file by its suffix. Text may be compressed: `.gz`, `.zst`, `.bz2`.",
    )
    include: tuple[str, ...] = Field(
        (),
        description="Only files that match one of these patterns, written as in a `.gitignore`: "
        "`*.json`, `orders/**`. Unset: all.",
    )
    exclude: tuple[str, ...] = Field(
        (), description="Not files that match one of these patterns; beats `include`."
    )
    recursive: bool = Field(True, description="Whether files in sub-folders count.")
    include_existing: bool = Field(
        True, description="Whether files count that are there at the very first start."
    )
    max_files_per_trigger: int = Field(
        1_000, ge=1, description="Most files that one ingest batch takes."
    )
    max_bytes_per_trigger: str | None = Field(
        None,
        pattern=SIZE,
        description='Most bytes that one ingest batch takes, such as `"256 MB"`; the lower of the '
        "two limits wins, but one file is always taken.",
    )
    discovery: Literal["listing", "notification"] = Field(
        "listing",
        description="`notification`: events tell of new files, and listings find what they missed. "
        "A local folder has events of its own; `s3://` and `abfss://` need `queue`.",
    )
    queue: str | None = Field(
        None,
        description="`notification` only: URL of the SQS queue, or of the Azure storage queue, "
        "that the store sends its object events to.",
    )
    backfill_interval: str = Field(
        "10 minutes",
        pattern=DURATION,
        description="How often everything is listed, where a trigger looks at less than that.",
    )
    names_sort: bool = Field(
        False,
        description="Say `true` if later folders sort after earlier ones (`2026/11/15/…`): then "
        "only the newest ones are listed between two backfills.",
    )
    settle: str = Field(
        "1 second",
        pattern=DURATION,
        description="A local file is read when it has not changed for so long.",
    )
    patience: str = Field(
        "1 minute",
        pattern=DURATION,
        description="A file that ends in the middle of a record is tried again for so long after "
        "its last change; then it is read as it is, and what is cut off goes to quarantine.",
    )
    overwrites: Literal["ignore", "reread", "refuse"] = Field(
        "ignore",
        description="A file that changes after it was read: `ignore` it (counted in the status), "
        "`reread` it as a new file, or `refuse` to go on.",
    )
    after_read: Literal["keep", "archive", "delete"] = Field(
        "keep", description="What happens to a file once its batch is committed in Bronze."
    )
    archive_path: str | None = Field(
        None, description="`archive` only: the folder to move files to; relative to the file."
    )
    retention: str = Field(
        "7 days", pattern=DURATION, description="How long a file that was read stays before that."
    )
    schema_mode: Literal["evolve", "rescue", "fail"] = Field(
        "evolve",
        description="A new column, or a new type of one: `evolve` takes it, `rescue` keeps it in "
        "Bronze only, `fail` stops before the batch that has it, until `freshet schema accept`.",
    )
    csv_header: bool = Field(True, description="Whether the first row of a CSV file names columns.")
    csv_columns: tuple[str, ...] = Field(
        (), description="Names of the columns where there is no header. Unset: `c0`, `c1`, …"
    )
    csv_delimiter: str = Field(
        ",", min_length=1, max_length=1, description="What stands between two fields."
    )
    csv_quote: str = Field(
        '"', min_length=1, max_length=1, description="What stands around a quoted field."
    )
    csv_escape: str | None = Field(
        None, min_length=1, max_length=1, description="What stands before an escaped character."
    )
    csv_null: str = Field("", description="The unquoted text that means null.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.after_read == "archive" and self.archive_path is None:
            raise ValueError("after_read is archive, so archive_path must name a folder")
        if self.discovery == "notification" and "://" in self.path and self.queue is None:
            raise ValueError("discovery is notification, so queue must name the store's queue")
        return self
