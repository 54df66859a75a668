"""`make crash`: every kill and every store error in every mode; one line a cell, and a count."""

import logging
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from kills import Cell, Chain, all_kills
from store_errors import Errors, broken_calls

from freshet.testing.program import session

MODES = ("update", "append", "complete")
DATABASES = ("postgres", "postgres-staged")


def say(line: object) -> None:
    """At once, so that somebody who waits sees it."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def kills(folder: Path, modes: Sequence[str]) -> list[Cell]:
    """Real processes, killed at every step and between store calls."""
    chains = [Chain(mode, folder / f"kills-{mode}", all_kills(mode), say) for mode in modes]
    return [cell for chain in chains for cell in chain.run()]


def sink_kills(folder: Path, modes: Sequence[str]) -> list[Cell]:
    """The same for the other sinks; those of PostgreSQL only where there is a server."""
    cells: list[Cell] = []
    for sink, mode in ((sink, mode) for sink in ("delta", *DATABASES) for mode in modes):
        place = folder / f"kills-{sink}-{mode}"
        try:
            with _address(sink) as address:
                told = {"sink": sink, "address": address}
                cells += Chain(mode, place, all_kills(mode, sink), say, **told).run()
        except pytest.skip.Exception as skipped:
            say(f"{sink} {mode}: not run: {skipped}")
    return cells


@contextmanager
def _address(sink: str) -> Iterator[str]:
    """Of an empty database, for a sink that needs one."""
    if sink not in DATABASES:
        yield ""
        return
    sys.path.append(str(Path(__file__).parent.parent))
    from postgres_server import postgres_server

    with postgres_server() as server:
        yield server.address


def store_errors(folder: Path, modes: Sequence[str]) -> list[Cell]:
    """One process, whose stores fail; what it logs of that is not for the eye here."""
    logging.getLogger("freshet").setLevel(logging.CRITICAL)
    # Starting Java forks, and the child replaces itself at once.
    warnings.filterwarnings("ignore", message=".*fork.*")
    spark = session(folder)
    spark.sparkContext.setLogLevel("OFF")
    try:
        return [
            cell
            for mode in modes
            for cell in Errors(spark, mode, folder / f"errors-{mode}", say).run(broken_calls(mode))
        ]
    finally:
        spark.stop()


def main(modes: Sequence[str]) -> int:
    """The whole matrix, or that of some modes; 1 if a cell failed."""
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="freshet-crash-"))
    cells = kills(folder, modes) + sink_kills(folder, modes) + store_errors(folder, modes)
    failed = [cell for cell in cells if cell.problems]
    if failed:
        say(f"all files are kept in {folder}")
    else:
        shutil.rmtree(folder)
    say(
        f"{len(cells) - len(failed)} passed, {len(failed)} failed "
        f"in {time.monotonic() - started:.0f} s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or MODES))
