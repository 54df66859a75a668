"""One row a micro-batch, in the columns of lance-spark's pull request #399: values and CSV files.

A label is what #399 calls the run, then rival and round: `no-optimize;rival=#564;round=2`.
A file of #399's has neither, and is read all the same.
"""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

FIRST_BATCHES = 2
"""So many batches after a start are in no figure: they start Python workers and take the lease."""
REFERENCE = "reference #399"
"""The name of the rival in #399's own files."""
REFERENCES = Path(__file__).parent / "reference" / "lance-spark-399"


@dataclass(frozen=True)
class Sample:
    """One micro-batch; -1 where a figure does not apply."""

    experiment: str
    run_label: str
    batch_id: int
    batch_ts_ms: int
    input_rows: int
    batch_duration_ms: int
    fragment_count: int = -1
    lance_version: int = -1
    manifest_bytes: int = -1
    optimized_this_batch: bool = False

    @property
    def run(self) -> str:
        """What #399 would call it."""
        return self.run_label.partition(";rival=")[0]

    @property
    def rival(self) -> str:
        """Who wrote it."""
        return self._told("rival") or REFERENCE

    @property
    def round(self) -> int | None:
        """Which turn of its rival it was in; None if there were no turns."""
        told = self._told("round")
        return None if told is None else int(told)

    def _told(self, name: str) -> str | None:
        parts = (part.partition("=") for part in self.run_label.split(";"))
        return next((value for found, _, value in parts if found == name), None)


COLUMNS = tuple(field.name for field in fields(Sample))


def label(run: str, rival: str, round_: int | None = None) -> str:
    """How a run of a rival is labelled."""
    return f"{run};rival={rival}" + ("" if round_ is None else f";round={round_}")


def write(path: Path, samples: Iterable[Sample]) -> None:
    """As #399 writes them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for sample in samples:
            is_optimized = str(sample.optimized_this_batch).lower()
            writer.writerow(asdict(sample) | {"optimized_this_batch": is_optimized})


def read(path: Path) -> list[Sample]:
    """What a file of these columns holds."""
    with path.open(newline="") as file:
        return [_sample(row) for row in csv.DictReader(file)]


def reference(experiment: str) -> list[Sample]:
    """What #399 published."""
    (path,) = REFERENCES.glob(f"streaming_{experiment}_*.csv")
    return read(path)


def counted(samples: Sequence[Sample]) -> list[Sample]:
    """Those that figures are made of: with rows, and not the first ones of a turn."""
    seen: dict[str, int] = {}
    kept = []
    for sample in samples:
        place = seen[sample.run_label] = seen.get(sample.run_label, -1) + 1
        is_start = sample.round is not None and place < FIRST_BATCHES
        if sample.input_rows > 0 and not is_start:
            kept.append(sample)
    return kept


def by_rival(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    """Apart by who wrote them, in the order in which they come first."""
    found: dict[str, list[Sample]] = {}
    for sample in samples:
        found.setdefault(sample.rival, []).append(sample)
    return found


def _sample(row: dict[str, str]) -> Sample:
    numbers = {name: int(row[name]) for name in COLUMNS[2:-1]}
    is_optimized = row["optimized_this_batch"] == "true"
    return Sample(row["experiment"], row["run_label"], **numbers, optimized_this_batch=is_optimized)
