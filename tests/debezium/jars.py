"""Debezium's engine and all that it needs."""

from pathlib import Path
from typing import Final

import pytest

import maven_jars

VERSION: Final = "3.4.0.Final"
_MODULES: Final = (
    ("io.debezium", "debezium-embedded", VERSION),
    ("io.debezium", "debezium-connector-postgres", VERSION),
    ("org.slf4j", "slf4j-simple", "1.7.36"),  # prints what the engine logs
)


def java() -> str:
    """The Java that runs the engine; skips the test where there is none with a compiler."""
    found = maven_jars.java()
    if not Path(found).resolve().with_name("javac").exists():
        pytest.skip(f"the engine's program is compiled as it starts, and {found} has no javac")
    return found


def debezium_jars() -> Path:
    """The folder of the jars; skips the test where they cannot be had."""
    return maven_jars.kept_jars(f"debezium-{VERSION}", _MODULES)
