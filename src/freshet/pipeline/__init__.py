"""The pipeline: wires the stages. The only package that knows all of them."""

from freshet.pipeline.pipeline import Pipeline
from freshet.pipeline.queries import INDEX, INGEST, register

__all__ = ["INDEX", "INGEST", "Pipeline", "register"]
