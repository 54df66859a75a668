"""Freshet keeps a LanceDB vector index fresh from a stream of change events.

The names below are loaded when they are first used: every Python worker of Spark imports this
package, and most of them need only one stage of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from freshet import bronze, changes, gold, settings
    from freshet.errors import FreshetError
    from freshet.pipeline import Pipeline, register
    from freshet.settings import Settings
    from freshet.sink import LanceSink
    from freshet.sink.delta import DeltaSink
    from freshet.sink.postgres import PostgresSink

_HOMES = {
    "DeltaSink": "freshet.sink.delta",
    "FreshetError": "freshet.errors",
    "LanceSink": "freshet.sink",
    "Pipeline": "freshet.pipeline",
    "PostgresSink": "freshet.sink.postgres",
    "Settings": "freshet.settings",
    "register": "freshet.pipeline",
}
_STAGES = ("bronze", "changes", "gold", "settings")

__all__ = [
    "DeltaSink",
    "FreshetError",
    "LanceSink",
    "Pipeline",
    "PostgresSink",
    "Settings",
    "bronze",
    "changes",
    "gold",
    "register",
    "settings",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _STAGES:
        return import_module(f"freshet.{name}")
    raise AttributeError(f"module 'freshet' has no attribute {name!r}")
