"""The tables `[[sinks]]`."""

from typing import Final, Literal, Self

from pydantic import Field, model_validator

from freshet.settings.section import Section

_TABLES: Final = ("lance", "delta", "postgres")
_FILES: Final = ("parquet", "json", "csv", "orc")
_NEEDS: Final = {
    "postgres": ("address", "table"),
    "kafka": ("servers", "topic"),
    **dict.fromkeys(("lance", "delta", *_FILES), ("path",)),
}
_TAKEN: Final = ("ingest", "index", "rebuild")


class SinkSettings(Section):
    """Where else the records go, beside the index: one table `[[sinks]]` for each place. They are
    told every change of Gold, which is then kept as a table (`gold.keep_table`).
    """

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$",
        description="Its name in ledger, status and log.",
    )
    kind: Literal[
        "lance", "delta", "postgres", "parquet", "json", "csv", "orc", "console", "memory", "kafka"
    ] = Field(description="What it writes.")
    mode: Literal["update", "append"] | None = Field(
        None,
        description="`update`: the table holds every record as it is now. `append`: it holds every "
        "change, deletes among them. Unset: `update` for tables, `append` for the rest.",
    )
    path: str | None = Field(
        None, description="Of a table of Lance or Delta, or of a folder of files."
    )
    address: str | None = Field(
        None,
        description="Of the database: `postgresql://user@host/name`, without a password, which "
        "comes from `PGPASSWORD` or a pgpass file.",
    )
    table: str | None = Field(None, description="Of the database: `table` or `schema.table`.")
    create: bool = Field(
        True, description="Whether a missing table, or column, of the database is made."
    )
    servers: str | None = Field(None, description="Kafka's `bootstrap.servers`.")
    topic: str | None = Field(None, description="Kafka's topic.")
    columns: tuple[str, ...] = Field(
        (), description="Columns of Gold that are written, beside the key; empty: all but `record`."
    )
    partition_by: tuple[str, ...] = Field(
        (), description="Columns by which a Delta table, or files, are divided into folders."
    )
    options: dict[str, str] = Field(
        default_factory=dict, description="Further options of Spark's own sinks."
    )

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.name in _TAKEN:
            raise ValueError(f'a sink cannot be called "{self.name}": the pipeline has one')
        missing = [name for name in _NEEDS.get(self.kind, ()) if getattr(self, name) is None]
        if missing:
            raise ValueError(
                f'the sink "{self.name}" of kind {self.kind} needs {" and ".join(missing)}'
            )
        return self

    @property
    def output_mode(self) -> str:
        """The mode that was chosen, or that fits the kind."""
        return self.mode or ("update" if self.kind in _TABLES else "append")
