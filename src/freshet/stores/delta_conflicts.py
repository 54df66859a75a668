"""Errors of Spark that say that another commit to a Delta table came first."""

from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

SPARK_ERRORS: Final = (PySparkException, Py4JJavaError)
"""What a statement of Spark raises."""


def came_first(error: BaseException) -> bool:
    """Whether another commit is the reason; the table is unchanged by this one, then."""
    told = str(error)
    return "Concurrent" in told or "DELTA_CONCURRENT" in told
