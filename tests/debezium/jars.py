"""Debezium's engine and all that it needs, fetched once by Spark's own Ivy, and kept."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import pyspark
import pytest

from freshet.errors import SetupError
from freshet.spark import find_java

VERSION: Final = "3.4.0.Final"
_MODULES: Final = (
    ("io.debezium", "debezium-embedded", VERSION),
    ("io.debezium", "debezium-connector-postgres", VERSION),
    ("org.slf4j", "slf4j-simple", "1.7.36"),  # prints what the engine logs
)
_FETCH_S: Final = 400


def java() -> str:
    """The Java that runs the engine; skips the test where there is none with a compiler."""
    try:
        found = find_java()
    except SetupError as error:
        pytest.skip(str(error))
    if not Path(found).resolve().with_name("javac").exists():
        pytest.skip(f"the engine's program is compiled as it starts, and {found} has no javac")
    return found


def debezium_jars() -> Path:
    """The folder of the jars; skips the test where they cannot be had."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "freshet"
    folder = cache / f"debezium-{VERSION}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, ignore_cleanup_errors=True) as name:
            _fetch(Path(name))
            if not folder.exists():  # or another run was faster
                shutil.move(Path(name) / "jars", folder)
    return folder


def _fetch(scratch: Path) -> None:
    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    (scratch / "ivy.xml").write_text(_ivy_file(), encoding="utf-8")
    command = [java(), "-jar", str(ivy), "-cache", str(scratch / "cache"), "-ivy"]
    command += [str(scratch / "ivy.xml"), "-confs", "default", "-retrieve"]
    command += [str(scratch / "jars" / "[artifact]-[revision](-[classifier]).[ext]")]
    try:
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=_FETCH_S)
    except subprocess.SubprocessError as error:
        pytest.skip(f"Debezium {VERSION} could not be had from Maven Central: {error}")


def _ivy_file() -> str:
    wanted = "".join(
        f'<dependency org="{group}" name="{name}" rev="{version}" conf="default"/>'
        for group, name, version in _MODULES
    )
    return (
        '<ivy-module version="2.0"><info organisation="freshet" module="debezium"/>'
        f"<dependencies>{wanted}</dependencies></ivy-module>"
    )
