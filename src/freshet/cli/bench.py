"""`freshet bench`: the sink against its rivals, by experiments that others have published."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from freshet.cli import output
from freshet.cli.options import JsonOption
from freshet.errors import SettingsError, SetupError

_FOLDER = "benchmarks"
_ENTRY = "field.py"

QuickOption = Annotated[
    bool, typer.Option("--quick", help="Within 5 minutes instead of an hour, and less sure.")
]
ExperimentsOption = Annotated[
    str | None,
    typer.Option(
        "--experiments", metavar="NAMES", help="Some of E1,E2,E3,E4, with commas. Unset: all."
    ),
]
RivalsOption = Annotated[
    str | None,
    typer.Option(
        "--rivals",
        metavar="NAMES",
        help="Some of freshet, freshet-native, freshet+optimizer, freshet-update, #399, #564, "
        "naive, merge_insert, noop, with commas. Unset: all.",
    ),
]
BatchesOption = Annotated[int | None, typer.Option("--batches", min=8, help="Batches of E1.")]
RowsOption = Annotated[int | None, typer.Option("--rows", min=1, help="Rows a batch of E1 and E2.")]
PartitionsOption = Annotated[
    int | None,
    typer.Option(
        "--partitions",
        min=1,
        help="Tasks of a batch; some rivals write as many fragments. Unset: one a core.",
    ),
]
S3Option = Annotated[
    float | None,
    typer.Option(
        "--s3-delay-ms",
        min=0,
        help="Tables and checkpoints on an S3 server of this machine that waits so long before "
        "every answer; E1 and E4 only. Unset: on its disk.",
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FOLDER",
        help="Where CSV, Markdown and pictures go. Unset: build/bench/field, or …/field-s3.",
    ),
]
NoRunOption = Annotated[
    bool,
    typer.Option("--no-run", help="Only make tables and pictures of the CSV files that are there."),
]
DocsOption = Annotated[
    bool, typer.Option("--write-docs", help="Put the results into docs/benchmarks.md, too.")
]


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(name="bench")(bench)


def bench(
    *,
    quick: QuickOption = False,
    experiments: ExperimentsOption = None,
    rivals: RivalsOption = None,
    batches: BatchesOption = None,
    rows: RowsOption = None,
    partitions: PartitionsOption = None,
    s3_delay_ms: S3Option = None,
    out: OutOption = None,
    no_run: NoRunOption = False,
    write_docs: DocsOption = False,
    json: JsonOption = False,
) -> None:
    """Measure the sink against its rivals on one Spark: E1-E4 of lance-spark's pull request #399.

    Needs a clone of the repository, and a machine that does nothing else meanwhile.
    """
    sys.path.insert(0, str(benchmarks_folder()))
    field = import_module("field")
    try:
        wish = field.Wish.of(
            is_quick=quick,
            experiments=_names(experiments),
            rivals=_names(rivals),
            batches=batches,
            rows=rows,
            partitions=partitions,
            out=out,
            s3_delay_ms=s3_delay_ms,
            is_run=not no_run,
        )
    except ValueError as error:
        raise SettingsError(str(error)) from None
    with output.working("starting") as status:
        found = field.run(wish, lambda text: None if status is None else status.update(text))
    docs = field.field_report.write_docs(found) if write_docs else []
    files = [str(path) for path in (*found.files, *docs)]
    if json:
        output.as_json({"tables": [_plain(table) for table in found.tables], "files": files})
    else:
        _show(found, files)


def benchmarks_folder() -> Path:
    """Where the measuring code lies: beside the sources, or in the folder where one stands."""
    beside = Path(__file__).resolve().parents[3] / _FOLDER
    for folder in (beside, Path.cwd() / _FOLDER):
        if (folder / _ENTRY).exists():
            return folder
    raise SetupError(
        "the benchmarks come with the repository and not with the package: clone it, and run "
        "`freshet bench` there"
    )


def _names(given: str | None) -> list[str]:
    return [] if given is None else [name.strip() for name in given.split(",") if name.strip()]


def _show(found: Any, files: list[str]) -> None:
    for table in found.tables:
        output.say(f"{escape(table.markdown())}\n")
    for name in files:
        output.say(escape(name))


def _plain(table: Any) -> dict[str, Any]:
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return {"title": table.title, "rows": rows, "notes": list(table.notes)}
