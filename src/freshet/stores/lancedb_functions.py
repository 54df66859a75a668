"""LanceDB's registry of embedding functions: finds one by its name and makes it."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from freshet.errors import SetupError


def make_function(name: str, options: Mapping[str, Any], imports: Sequence[str]) -> Any:
    """The function, made with its options after some modules were imported.

    Raises `SetupError` if a module, the function, or what it needs is not there.
    """
    from lancedb.embeddings import get_registry  # noqa: PLC0415  not before a worker is forked

    for module in imports:
        try:
            import_module(module)
        except ImportError as error:
            raise SetupError(f"embedding.imports names {module}, but: {error}") from None
    try:
        found: Any = get_registry().get(name)
    except KeyError:
        raise SetupError(
            f'LanceDB knows no embedding function "{name}": name the module that registers it in '
            "embedding.imports"
        ) from None
    try:
        return found.create(**options)
    except (ImportError, TypeError, ValueError) as error:
        said = " ".join(str(error).split())[:200]
        raise SetupError(f'the embedding function "{name}" cannot be made: {said}') from None


def without_secrets(function: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a function that may be written down."""
    secret = set(function.sensitive_keys())
    return {name: value for name, value in options.items() if name not in secret}
