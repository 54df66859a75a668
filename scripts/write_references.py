"""Writes docs/settings.md and docs/cli.md from the code, so that they cannot be wrong."""

from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

import typer.main
from pydantic.fields import FieldInfo

from freshet.cli.app import app
from freshet.settings import ENV_PREFIX, Settings

DOCS = Path(__file__).parent.parent / "docs"
WRITTEN = "<!-- Written by scripts/write_references.py: `make docs`. Do not edit. -->"


def settings_reference() -> str:
    """All settings with their types and defaults."""
    parts = [
        "# Settings",
        WRITTEN,
        "One TOML file, `freshet.toml` unless `--config` names another; `freshet init` writes a "
        "commented one. Relative paths start at the folder of the file. Every key can be "
        f"overridden by the environment as `{ENV_PREFIX}<SECTION>__<KEY>`, lists as JSON: "
        f"`{ENV_PREFIX}CHANGES__KEY='[\"id\"]'`. An unknown key or variable is an error that names "
        "the nearest known one.",
    ]
    for name, section in Settings.model_fields.items():
        model: Any = section.annotation
        is_list = get_origin(model) is tuple
        model = get_args(model)[0] if is_list else model
        title = f"## [[{name}]]" if is_list else f"## [{name}]"
        parts += [title, " ".join((model.__doc__ or "").split()), _table_of(model.model_fields)]
    return "\n\n".join(parts) + "\n"


def _table_of(fields: dict[str, FieldInfo]) -> str:
    rows = ["| key | type | default | what it does |", "|---|---|---|---|"]
    for name, field in fields.items():
        default = "required" if field.is_required() else f"`{_default_of(field)}`"
        what = (field.description or "").replace("|", "\\|")
        rows.append(f"| `{name}` | {_type_of(field.annotation)} | {default} | {what} |")
    return "\n".join(rows)


def _default_of(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "unset"
    if isinstance(value, tuple):
        return str(list(value))
    return str(value)


def _type_of(annotation: Any) -> str:
    arguments = [argument for argument in get_args(annotation) if argument is not NoneType]
    if get_origin(annotation) is tuple:
        return "list of strings"
    if get_origin(annotation) is dict:
        return "table"
    if arguments and all(isinstance(argument, str) for argument in arguments):
        return " or ".join(f"`{argument}`" for argument in arguments)
    chosen = arguments[0] if arguments else annotation
    if get_args(chosen):
        return _type_of(chosen)
    names = {"str": "string", "int": "whole number", "float": "number", "bool": "true or false"}
    return names[chosen.__name__]


def cli_reference() -> str:
    """All commands with their arguments and options."""
    parts = [
        "# Command line",
        WRITTEN,
        "Exit code 0 only if it holds: 1 is an error, a `verify` that found a difference or a "
        "`status --check` that found a target missed, 2 is wrong settings or wrong usage. "
        "`--json` is for scripts; what is printed for people may change.",
    ]
    group: Any = typer.main.get_command(app)
    for name, command in _commands_of(group):
        parts += [f"## freshet {name}", command.help.strip(), _parameters_of(command)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _commands_of(group: Any, before: str = "") -> list[tuple[str, Any]]:
    """All commands with their whole names, groups opened."""
    found = []
    for name, command in group.commands.items():
        is_group = hasattr(command, "commands")
        whole = f"{before}{name}"
        found += _commands_of(command, f"{whole} ") if is_group else [(whole, command)]
    return found


def _parameters_of(command: Any) -> str:
    shown = [parameter for parameter in command.params if parameter.name != "help"]
    if not shown:
        return ""
    rows = ["| argument or option | default | what it does |", "|---|---|---|"]
    for parameter in shown:
        is_option = parameter.param_type_name == "option"
        names = ", ".join(parameter.opts) if is_option else parameter.name.upper()
        takes = "" if not is_option or parameter.is_flag else f" {parameter.metavar or 'VALUE'}"
        default = "" if parameter.default in (None, False) else f"`{parameter.default}`"
        required = "required" if parameter.required else default
        rows.append(f"| `{names}{takes}` | {required} | {parameter.help or ''} |")
    return "\n".join(rows)


REFERENCES = {"settings.md": settings_reference, "cli.md": cli_reference}


def main() -> None:
    """Writes both."""
    for name, make in REFERENCES.items():
        (DOCS / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
