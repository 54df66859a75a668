"""A trigger that is too short for its batches is told, once, with what would do."""

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from freshet.monitor import short_trigger
from freshet.pipeline.trigger_watch import TriggerWatch
from freshet.sink import BatchReport
from freshet.sink.stamps import Counts

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def report(total_s: float, embed_s: float, *, embedded: int = 900) -> BatchReport:
    return BatchReport(
        pipeline="docs",
        sink="index",
        query_id="q",
        batch_id=0,
        status="committed",
        table_version=1,
        counts=Counts(rows_in=1_000, rows_embedded=embedded),
        embed_s=embed_s,
        write_s=0.1,
        commit_s=0.1,
        total_s=total_s,
        started_at=NOW,
        finished_at=NOW,
    )


def rows(*batches: tuple[float, float], **more: Any) -> list[dict[str, Any]]:
    return [report(*batch, **more).as_row() for batch in batches]


def test_batches_that_outlast_the_trigger_are_told_with_what_would_do() -> None:
    found = short_trigger(rows((14.0, 12.7), (14.2, 12.9), (14.4, 13.0)), "10 seconds")
    assert found is not None
    assert found.is_behind
    assert found.wanted_trigger == "25 seconds"
    assert found.wanted_rows == 410  # (10 / 1.5 - 1.3) / 12.9 of 1,000
    assert "batches take 14.2 s, of which 12.9 s embedding" in found.sentence
    assert "the trigger is 10 seconds: every batch starts late" in found.sentence
    assert 'Set pipeline.trigger = "25 seconds", or pipeline.max_rows_per_batch = 410' in (
        found.sentence
    )


def test_batches_that_leave_little_room_are_told_too() -> None:
    found = short_trigger(rows(*[(8.0, 7.0)] * 3), "10 seconds")
    assert found is not None
    assert not found.is_behind
    assert "little room to catch up" in found.sentence


def test_where_embedding_is_not_what_takes_long_no_number_of_rows_is_told() -> None:
    found = short_trigger(rows(*[(14.0, 0.5)] * 3), "10 seconds")
    assert found is not None
    assert found.wanted_rows is None
    assert "max_rows_per_batch" not in found.sentence


@pytest.mark.parametrize(
    "ledger",
    [
        [],
        rows((14.0, 13.0), (14.0, 13.0)),
        rows(*[(6.0, 5.0)] * 5),
        rows(*[(14.0, 0.0)] * 5, embedded=0),
        [row | {"error": "failed"} for row in rows(*[(14.0, 13.0)] * 5)],
        rows(*[(60.0, 50.0)] * 5, *[(2.0, 1.0)] * 5),
    ],
    ids=["none", "too few", "short enough", "nothing embedded", "failed", "long ago"],
)
def test_otherwise_nothing_is_told(ledger: list[dict[str, Any]]) -> None:
    assert short_trigger(ledger, "10 seconds") is None


class Kept(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def told() -> Iterator[list[logging.LogRecord]]:
    handler, logger = Kept(), logging.getLogger("freshet.pipeline")
    logger.addHandler(handler)
    yield handler.records
    logger.removeHandler(handler)


def test_a_run_tells_it_once_and_again_when_the_figure_has_changed(
    told: list[logging.LogRecord],
) -> None:
    watch = TriggerWatch(lambda: "10 seconds")
    for _ in range(8):
        watch.note(report(14.0, 13.0))
        watch.note(report(0.2, 0.0, embedded=0))
    assert [record.getMessage() for record in told] == ["trigger_too_short"]
    fields = told[0].fields  # type: ignore[attr-defined]
    assert fields["wanted_trigger"] == "25 seconds"
    assert fields["advice"].startswith("batches take 14.0 s")
    for _ in range(5):
        watch.note(report(15.0, 14.0))
    assert len(told) == 1
    for _ in range(5):
        watch.note(report(30.0, 29.0))
    assert len(told) == 2
