"""`freshet init`: writes a commented freshet.toml."""

from pathlib import Path
from typing import Annotated

import typer

from freshet.cli import output
from freshet.cli.options import DEFAULT_CONFIG
from freshet.errors import SettingsError

TEMPLATE = """\
# Freshet: change files in, a fresh vector index out.
# Every key can be overridden by the environment: FRESHET_<SECTION>__<KEY>.
# All keys with their defaults: docs/settings.md

[pipeline]
name = "articles"               # also the name of the index table
home = "./articles"             # all tables lie here: a folder beside this file, or s3://…
# trigger = "10 seconds"        # how often a continuous run looks for new files
# max_rows_per_batch = 8000     # most events in one index batch

[landing]
path = "./landing"              # where change files arrive: a folder, s3://… or abfss://…
format = "auto"                 # json, csv, parquet, avro, orc; auto: each file by its suffix
# include = []                  # patterns as in a .gitignore: "*.json", "orders/**"; also exclude
# max_files_per_trigger = 1000  # … and max_bytes_per_trigger, such as "512 MB"
# discovery = "listing"         # or notification; for s3:// and abfss:// with a queue
# settle = "1 second"           # a local file is read when it has not changed for so long
# overwrites = "ignore"         # a file that changes after it was read: ignore, reread, refuse
# after_read = "keep"           # or archive (with archive_path), or delete
# retention = "7 days"          # … so long after the batch that read it is committed
# schema_mode = "evolve"        # a new column: evolve, rescue (Bronze only), fail

[changes]
envelope = "auto"               # plain, debezium, debezium-flat, dms, fivetran, airbyte, …
key = ["id"]                    # the column, or columns, that identify a record
# version = "record_version"    # plain: orders the versions of a record; unset: see the docs
# deleted = "is_deleted"        # plain: true when the record was deleted

[gold]
text = ["title", "body"]        # the columns to embed …
# template = "{title}: {body}"  # … or a pattern instead of `text`
attributes = []                 # columns to filter by: "section", "price:double", …
# missing_text = "keep"         # a record without text: keep, delete, quarantine
# vectors = {}                  # further vectors: { title_vector = ["title"] }
# keep_table = false            # also keep Gold as the Delta table <home>/gold
# chunk_tokens = 254            # longest piece of text; unset: the model's window
# chunk_overlap = 32

[embedding]
provider = "minilm"             # all-MiniLM-L6-v2 on the CPU; local, openai, …: docs/embedding.md
# batch_tokens = 2048

[index]
# metric = "cosine"

[search]
# k = 10
# mode = "vector"               # or text (words, BM25), or hybrid (both)

[slo]
# landed_to_searchable = "1 minute"  # judged by `freshet status --check`: docs/freshness.md

[checkpoint]
# backup_keep = 7               # with backup_interval, such as "1 hour": backups while it runs

[spark]
# master = "local[*, 4]"
# driver_memory = "2g"
# conf = { "spark.executor.memory" = "4g" }

# The same records elsewhere, too (Delta, PostgreSQL, files, Kafka): [[sinks]], see docs/sinks.md
"""


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(name="init")(init)


def init(
    file: Annotated[Path, typer.Argument(help="The file to write.")] = DEFAULT_CONFIG,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write a commented settings file."""
    if file.exists() and not force:
        raise SettingsError(f"{file} is there already: edit it, or overwrite it with --force")
    if not file.parent.exists():
        raise SettingsError(f"there is no folder {file.parent}")
    file.write_text(TEMPLATE, encoding="utf-8")
    output.say(f"wrote {file}: set landing.path, changes.key and gold.text, then `freshet run`")
