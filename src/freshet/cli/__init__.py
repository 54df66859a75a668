"""The command line: `freshet …`."""

from freshet.cli.app import main

__all__ = ["main"]
