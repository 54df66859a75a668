"""Jars of Maven Central for tests: fetched once by Spark's own Ivy, and kept."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyspark
import pytest

from freshet.errors import SetupError
from freshet.spark import find_java

_FETCH_S: Final = 400
_PATTERN: Final = "[artifact]-[revision](-[classifier]).[ext]"

Module = tuple[str, str, str]
"""Group, name and version."""


def java() -> str:
    """The Java of this machine; skips the test where there is none."""
    try:
        return find_java()
    except SetupError as error:
        pytest.skip(str(error))


def kept_jars(name: str, modules: Sequence[Module]) -> Path:
    """The folder of some jars and all that they need; skips the test where they cannot be had."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "freshet"
    folder = cache / name
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, ignore_cleanup_errors=True) as scratch:
            _fetch(Path(scratch), name, modules)
            if not folder.exists():  # or another run was faster
                shutil.move(Path(scratch) / "jars", folder)
    return folder


def _fetch(scratch: Path, name: str, modules: Sequence[Module]) -> None:
    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    (scratch / "ivy.xml").write_text(_ivy_file(modules), encoding="utf-8")
    command = [java(), "-jar", str(ivy), "-cache", str(scratch / "cache"), "-ivy"]
    command += [str(scratch / "ivy.xml"), "-confs", "default", "-retrieve"]
    command += [str(scratch / "jars" / _PATTERN)]
    try:
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=_FETCH_S)
    except subprocess.SubprocessError as error:
        pytest.skip(f"{name} could not be had from Maven Central: {error}")


def _ivy_file(modules: Sequence[Module]) -> str:
    wanted = "".join(
        f'<dependency org="{group}" name="{name}" rev="{version}" conf="default"/>'
        for group, name, version in modules
    )
    return (
        '<ivy-module version="2.0"><info organisation="freshet" module="tests"/>'
        f"<dependencies>{wanted}</dependencies></ivy-module>"
    )
