"""The pipeline: wires the stages. The only package that knows all of them."""

from freshet.layout import INDEX, INGEST
from freshet.pipeline.pipeline import Pipeline
from freshet.pipeline.queries import register

__all__ = ["INDEX", "INGEST", "Pipeline", "register"]
