"""The smaller sections."""

from typing import Any, Literal

from pydantic import Field, field_validator

from freshet.settings.section import Section
from freshet.units import DURATION

DEFAULT_VERSION_COLUMN = "record_version"
DEFAULT_DELETED_COLUMN = "is_deleted"
DEFAULT_PLACEHOLDER = "__debezium_unavailable_value"


class PipelineSettings(Section):
    """What the pipeline is called, where it keeps its tables, and how often it looks."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$",
        description="Name of the pipeline and of its index table.",
    )
    home: str = Field(
        description="Folder of all its tables; relative to the settings file, or `s3://…`."
    )
    trigger: str = Field(
        "10 seconds",
        pattern=r"^[1-9][0-9]* (millisecond|second|minute|hour)s?$",
        description="How often a continuous run looks for new files. What they brought is indexed "
        "as soon as it is in Bronze, which is looked at ten times as often, four times if it is "
        "remote.",
    )
    max_rows_per_batch: int = Field(
        8_000,
        ge=8,
        description="Most events that one index batch takes, so that it ends in bounded time.",
    )

    @field_validator("home")
    @classmethod
    def _is_where_tables_can_be(cls, home: str) -> str:
        scheme, separator, _ = home.partition("://")
        if separator and scheme != "s3":
            raise ValueError(
                f"tables are kept in a folder or on s3://, and not on {scheme}:// yet; files may "
                "land there"
            )
        return home


class ChangesSettings(Section):
    """How a record of the replication tool is understood."""

    envelope: Literal[
        "auto",
        "plain",
        "debezium",
        "debezium-flat",
        "dms",
        "fivetran",
        "airbyte",
        "maxwell",
        "estuary",
        "delta-cdf",
    ] = Field("auto", description="The tool's format; `auto` recognises it record by record.")
    key: tuple[str, ...] = Field(
        min_length=1, description="Column, or columns, that identify a record."
    )
    version: str | None = Field(
        None,
        description="`plain` and `dms`: column that orders the versions of a record. Unset: "
        f"`{DEFAULT_VERSION_COLUMN}` where a record has it, else order of arrival.",
    )
    deleted: str = Field(
        DEFAULT_DELETED_COLUMN,
        description="`plain` only: column that is true when the record was deleted.",
    )
    table: str | None = Field(
        None,
        description="Only events of this table count, `name` or `schema.name`, where the envelope "
        "says of which table an event is. Unset: all.",
    )
    types: dict[str, str] = Field(
        default_factory=dict,
        description="`debezium` and `debezium-flat`: how columns are coded that nothing in the "
        'event tells of, such as `{ price = "decimal(2)", born = "days", seen = "micros" }`.',
    )
    placeholder: str = Field(
        DEFAULT_PLACEHOLDER,
        min_length=1,
        description="What the tool writes instead of a large value that did not change.",
    )

    @field_validator("key", mode="before")
    @classmethod
    def _one_column_or_several(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


class CheckpointSettings(Section):
    """How often the state of a pipeline is backed up, and where to."""

    backup_path: str | None = Field(
        None, description="Folder of the backups; relative to the file. Unset: in the home."
    )
    backup_interval: str | None = Field(
        None,
        pattern=DURATION,
        description='How often a continuous run makes a backup, such as `"1 hour"`. Unset: never.',
    )
    backup_keep: int = Field(7, ge=1, description="How many backups are kept; older ones go.")


class SearchSettings(Section):
    """What a search returns unless told otherwise."""

    k: int = Field(10, ge=1, le=10_000, description="How many results.")
    mode: Literal["vector", "text", "hybrid"] = Field(
        "vector",
        description="What a question is compared by: its `vector`, its words (`text`, BM25), or "
        "both (`hybrid`).",
    )
    nprobes: int | None = Field(
        None,
        ge=1,
        description="Partitions of the vector index that a question looks into, at least. More "
        "find more of the true neighbours and take longer. Unset: twice the square root of the "
        "partitions that so many rows should have, 8 at least.",
    )
    ef: int | None = Field(
        None,
        ge=1,
        description="Candidates that are kept on the way through the graphs of an `IVF_HNSW_SQ` "
        "index; never fewer than the rows asked for. Unset: a fifth of the square root of the rows "
        "that are indexed, 64 and twice the rows asked for at least.",
    )
    refine: int = Field(
        0,
        ge=0,
        le=100,
        description="So many times the rows asked for are read and compared by their exact "
        "vectors, since the index has only rounded ones; 0: none is.",
    )


class SparkSettings(Section):
    """The Spark session that the command line starts."""

    master: str = Field(
        "local[*, 4]",
        description="Spark master; `local[*, 4]` is all cores of this machine, a task being tried "
        "four times as on a cluster.",
    )
    driver_memory: str = Field("2g", description="Memory of the driver's JVM.")
    conf: dict[str, str] = Field(
        default_factory=dict, description="Any further Spark settings, taken as they are."
    )
