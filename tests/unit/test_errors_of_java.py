"""Errors that come from Java: what of them a person is told."""

from freshet.errors import StoreError
from freshet.pipeline.queries import _cause

REPORT = """An error occurred while calling o703.sql.
: org.apache.spark.SparkException: [INTERNAL_ERROR] The job failed
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2935)
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
\t... 12 more
"""


def test_a_store_error_says_what_java_says_first() -> None:
    error = StoreError("commit to", "/lake", REPORT)
    assert error.reason == "org.apache.spark.SparkException: [INTERNAL_ERROR] The job failed"


def test_a_failed_query_says_what_was_at_the_bottom_of_it() -> None:
    assert _cause(REPORT) == "java.io.IOException: No space left on device"


def test_an_error_of_pythons_own_is_told_as_before() -> None:
    assert StoreError("read", "/lake", "first\nsecond").reason == "first"
    assert _cause("Traceback:\n  ValueError: no\n") == "ValueError: no"
    assert _cause("pyspark: freshet.errors.SinkError: a sentence") == "a sentence"
    assert _cause("nothing known") == "nothing known"
