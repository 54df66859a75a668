"""The pipeline: wires the stages. The only package that knows all of them.

`Pipeline` and `register` are loaded when they are first used: keeping an index fast needs neither.
"""

from typing import TYPE_CHECKING, Any

from freshet.layout import INDEX, INGEST

if TYPE_CHECKING:
    from freshet.pipeline.pipeline import Pipeline
    from freshet.pipeline.queries import register

__all__ = ["INDEX", "INGEST", "Pipeline", "register"]


def __getattr__(name: str) -> Any:
    if name == "Pipeline":
        from freshet.pipeline.pipeline import Pipeline  # noqa: PLC0415 - Spark loads slowly

        return Pipeline
    if name == "register":
        from freshet.pipeline.queries import register  # noqa: PLC0415

        return register
    raise AttributeError(f"module 'freshet.pipeline' has no attribute {name!r}")
