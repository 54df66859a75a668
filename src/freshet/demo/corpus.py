"""Real text that is on every machine: the documentation inside installed Python packages."""

import ast
import os
import re
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Final

_PACKAGES: Final = ("pandas", "numpy", "pyarrow", "pyspark", "lancedb", "rich", "pydantic")
_STANDARD: Final = "python"
_SKIPPED: Final = frozenset({"tests", "test", "testing", "site-packages", "idlelib"})
_SHORTEST: Final = 80
_LONGEST: Final = 420


@dataclass(frozen=True)
class Document:
    """One function or class and what its documentation says."""

    id: str
    title: str
    body: str
    package: str
    stars: int = 0
    record_version: int = 1
    is_deleted: bool = False

    def changed(self, **values: Any) -> "Document":
        """The next version of the document."""
        return replace(self, record_version=self.record_version + 1, **values)


def collect(count: int) -> list[Document]:
    """Documents of many packages in turn, always in the same order on the same machine."""
    libraries = Path(sysconfig.get_paths()["purelib"])
    sources = [_documents(_STANDARD, Path(sysconfig.get_paths()["stdlib"]))]
    sources += [_documents(name, libraries / name) for name in _PACKAGES]
    unique: dict[str, Document] = {}
    for document in filter(None, chain.from_iterable(zip_longest(*sources))):
        unique.setdefault(document.id, document)
        if len(unique) == count:
            break
    return list(unique.values())


def _documents(package: str, folder: Path) -> Iterator[Document]:
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if not name.startswith("_") and name not in _SKIPPED
        )
        for name in sorted(files):
            file = Path(place, name)
            if file.suffix == ".py" and not name.startswith("_"):
                module = ".".join(file.relative_to(folder).with_suffix("").parts)
                yield from _of_file(package, module, file)


def _of_file(package: str, module: str, file: Path) -> Iterator[Document]:
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError, OSError, ValueError):
        return
    for title, node in _named(tree.body, ""):
        text = _opening(ast.get_docstring(node) or "")
        if len(text) >= _SHORTEST:
            yield Document(f"{package}.{module}.{title}", title, text, package)


_Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _named(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, _Named]]:
    """Public functions and classes, and the public methods of those classes."""
    for node in body:
        if isinstance(node, _Named) and not node.name.startswith("_"):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from _named(node.body, f"{prefix}{node.name}.")


def _opening(text: str) -> str:
    """The first sentences of a documentation, as one paragraph."""
    flat = re.sub(r"\s+", " ", text.split("\n\nParameters", maxsplit=1)[0]).strip()
    if len(flat) <= _LONGEST:
        return flat
    return flat[:_LONGEST].rsplit(". ", 1)[0].rstrip(".") + "."
