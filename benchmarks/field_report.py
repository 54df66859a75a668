"""From the files of a run to tables, pictures and the page of the documentation.

All of it follows from the files, so it can be made again, and no figure is written by hand.
"""

import csv
import json
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import field_samples
import field_tables
from field_cells import Table
from field_figures import Rate
from field_growth import growth_tables
from field_plots import draw
from field_rivals import CADENCE, RETENTION, RIVALS
from field_samples import Sample
from field_stores import DISK
from measuring import machine
from reporting import write_csv

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- freshet bench writes from here", "<!-- to here -->"
BEGIN_S3 = "<!-- freshet bench --s3-delay-ms writes from here"
RATES = "rates.csv"


@dataclass(frozen=True)
class Facts:
    """How one experiment was run."""

    experiment: str
    size: str
    machine: str
    started_at: str
    minutes: float
    rows: int
    rate: int
    stopped: dict[str, str] = field(default_factory=dict)
    store: str = DISK
    requests: dict[str, dict[str, int]] = field(default_factory=dict)
    """Of each rival, by kind, over all its batches; empty where none are counted."""

    @property
    def is_on_s3(self) -> bool:
        """Or else on a disk of the machine."""
        return self.store != DISK


@dataclass(frozen=True)
class Report:
    """What there is to see of a run."""

    tables: tuple[Table, ...]
    files: tuple[Path, ...]
    text: str
    is_on_s3: bool = False


def machine_line() -> str:
    """The machine, what else keeps it busy, and the versions of what is measured."""
    packages = ("pyspark", "pylance", "lancedb")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return (
        f"{machine()} ({_cpu()}), {memory:.0f} GiB of memory, {versions}; load average at the "
        f"start {os.getloadavg()[0]:.1f}"
    )


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "processor unknown"
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "processor unknown")


def keep(out: Path, facts: Facts, samples: Sequence[Sample], rates: Sequence[Rate] = ()) -> None:
    """Writes the files of one experiment."""
    field_samples.write(out / f"{facts.experiment}.csv", samples)
    (out / f"{facts.experiment}.json").write_text(json.dumps(asdict(facts), indent=1) + "\n")
    if facts.experiment == "E4":
        (out / RATES).unlink(missing_ok=True)  # those of an earlier run
    if rates:
        write_csv(out / RATES, [rate.as_row() for rate in rates])


def report(out: Path) -> Report:
    """Tables and pictures of all experiments whose files are there."""
    known = {
        name: field_samples.read(out / f"{name}.csv")
        for name in ("E1", "E2", "E3", "E4")
        if (out / f"{name}.csv").exists()
    }
    facts = {name: Facts(**json.loads((out / f"{name}.json").read_text())) for name in known}
    is_on_s3 = any(one.is_on_s3 for one in facts.values())
    tables, parts, pictures = list[Table](), [] if is_on_s3 else [_rivals()], list[Path]()
    for name, samples in known.items():
        made = _tables(name, samples, known.get("E1", []), facts[name], out)
        title = f"{name}, on S3" if is_on_s3 else name
        picture = out / f"field-{'s3-' if is_on_s3 else ''}{name.lower()}.png"
        draw(name, samples, picture)
        tables += made
        pictures.append(picture)
        parts += [f"## {title}", _how(facts[name]), *(table.markdown() for table in made)]
        parts.append(f"![{title}]({picture.name})")
    text = "\n\n".join(parts) + "\n"
    (out / "results.md").write_text(text)
    files = (out / "results.md", *sorted(out.glob("E*.csv")), *pictures)
    return Report(tuple(tables), files, text, is_on_s3)


def _tables(
    name: str, samples: Sequence[Sample], without: Sequence[Sample], facts: Facts, out: Path
) -> list[Table]:
    if name == "E1":
        grown = growth_tables(samples, facts.stopped)
        return [*grown, *field_tables.request_tables(samples, facts.requests)]
    if name == "E2":
        return [field_tables.cadence_table(samples, without, facts.stopped)]
    if name == "E3":
        return [field_tables.recovery_table(samples)]
    found = [field_tables.trigger_table(samples, facts.rate)]
    return [*found, field_tables.rate_table(_rates(out))] if (out / RATES).exists() else found


def _rates(out: Path) -> list[Rate]:
    with (out / RATES).open(newline="") as file:
        return [Rate(**_parsed(row)) for row in csv.DictReader(file)]


def _parsed(row: dict[str, str]) -> dict[str, Any]:
    texts = {one.name for one in fields(Rate) if one.type is str}
    return {name: value if name in texts else float(value) for name, value in row.items()}


def _how(facts: Facts) -> str:
    return (
        f"Size `{facts.size}`, {facts.rows:,} rows a batch (E1, E2), begun {facts.started_at}, "
        f"{facts.minutes:.1f} minutes; {facts.store}. {facts.machine}."
    )


def _rivals() -> str:
    lines = ["| rival | what it does |", "|---|---|"]
    lines += [f"| `{rival.name}` | {rival.what} |" for rival in RIVALS.values()]
    told = f"The optimizer beside a rival looks every {CADENCE} and keeps versions for {RETENTION}."
    return "\n".join(lines) + f"\n\n{told}"


def write_docs(made: Report) -> list[Path]:
    """Puts the results on the page of the documentation, between the two marks that are theirs."""
    page = PAGE.read_text()
    before, begin, rest = page.partition(BEGIN_S3 if made.is_on_s3 else BEGIN)
    mark, _, rest = rest.partition("\n")
    _, end, after = rest.partition(END)
    assert begin, f"{PAGE} has no mark to write at"
    assert end, f"{PAGE} has no mark to write to"
    plots = PAGE.parent / "plots"
    written = [PAGE]
    for picture in (file for file in made.files if file.suffix == ".png"):
        (plots / picture.name).write_bytes(picture.read_bytes())
        written.append(plots / picture.name)
    placed = re.sub("^## ", "### ", made.text, flags=re.MULTILINE)
    placed = placed.replace("](field-", "](plots/field-")
    PAGE.write_text(f"{before}{begin}{mark}\n\n{placed}\n{END}{after}")
    return written
