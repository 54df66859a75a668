"""How the code is cut: sizes, names, and what ships to executors."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent.parent / "src" / "freshet"
MODULES = sorted(SOURCE.rglob("*.py"))


def test_names_say_something() -> None:
    empty = {"utils", "util", "helpers", "common", "manager", "misc", "base"}
    assert not [path for path in SOURCE.rglob("*") if path.stem in empty]


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_modules_and_functions_can_be_read_at_once(module: Path) -> None:
    text = module.read_text()
    assert len(text.splitlines()) <= 320
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= 45, f"{node.name} has {length} lines"


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_the_door_reads_the_environment(module: Path) -> None:
    door = {"settings/loading.py", "spark.py", "stores/delta_jars.py", "stores/azure_account.py"}
    door |= {"stores/s3_access.py"}
    door |= {"cli/app.py", "stores/lance_shape.py"}  # which set what Lance reads
    door |= {"embedding/openai.py"}  # the key is read where it is used, so that it never travels
    if str(module.relative_to(SOURCE)) not in door:
        assert not re.search(r"\bos\.(environ|getenv)\b", module.read_text())


def test_what_the_landing_workers_import_is_light() -> None:
    """Every Python worker imports it at its start; Lance or a model would be dead weight."""
    heavy = {"lance", "lancedb", "pandas", "openvino", "pydantic", "typer"}
    code = "import sys, freshet.landing.source; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not heavy.intersection(done.stdout.split())
