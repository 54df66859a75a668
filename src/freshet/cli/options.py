"""Options that several commands share, and how settings are loaded from them."""

from pathlib import Path
from typing import Annotated

import typer

from freshet.settings import DEFAULT_FILE, Settings, load
from freshet.stores.s3_access import let_in

ConfigOption = Annotated[
    Path,
    typer.Option("--config", "-c", metavar="FILE", help="The settings file.", show_default=True),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]

DEFAULT_CONFIG = Path(DEFAULT_FILE)


def settings_of(config: Path) -> Settings:
    """The settings of a file; the command ends with a sentence if they are wrong."""
    settings = load(config)
    let_in(settings.table_places)
    return settings
