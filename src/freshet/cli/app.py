"""The application: its commands, and what happens to errors."""

import logging
import os
import signal
import sys
import warnings
from types import FrameType
from typing import NoReturn

import typer

from freshet.cli import (
    bench,
    calibrate,
    checkpoint,
    demo,
    doctor,
    files,
    init,
    optimize,
    output,
    profile,
    quarantine,
    rebuild,
    run,
    schema,
    search,
    sla,
    status,
    verify,
)
from freshet.errors import FreshetError, SettingsError
from freshet.events import log_to

app = typer.Typer(
    name="freshet",
    help="Keeps a LanceDB vector index fresh from a stream of change events.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
COMMANDS = (
    init,
    demo,
    run,
    status,
    sla,
    search,
    verify,
    rebuild,
    optimize,
    profile,
    calibrate,
    bench,
    files,
    quarantine,
    checkpoint,
    schema,
    doctor,
)
for command in COMMANDS:
    command.add_to(app)


def main() -> NoReturn:
    """Runs a command; errors raised on purpose become one sentence and a non-zero exit."""
    signal.signal(signal.SIGTERM, _interrupt)
    log_to(logging.StreamHandler(sys.stderr), logging.WARNING)
    os.environ.setdefault("LANCE_LOG", "error")  # its warnings are for programmers
    # An error in a batch is raised and told once; the bridge to Java would print it, too.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    # Only Java is started from here, and a started program replaces the fork at once.
    warnings.filterwarnings("ignore", message="lance is not fork-safe")
    try:
        app()
    except SettingsError as error:
        output.error(error)
        sys.exit(2)
    except FreshetError as error:
        output.error(error)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0)


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    """A polite request to end is treated as Ctrl-C is."""
    raise KeyboardInterrupt
