"""What a calibration derives from its figures, and how fast an index grows by its ledger."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshet.calibration import Evidence, derive
from freshet.calibration.costs import Costs, Line
from freshet.calibration.evidence import Growth, Latency, Shape, Took
from freshet.calibration.growth import growth_of, told
from freshet.errors import SettingsError
from freshet.optimizer import Kind
from freshet.settings import OptimizerSettings
from freshet.stores.lance_copies import blocks_of
from freshet.units import duration_within, milliseconds_of, seconds_of

SETTINGS = OptimizerSettings()
GROWTH = Growth(rows_per_hour=36_000, batches_per_hour=360, batches=720, span_s=7_200)


def latency(p95_ms: float, rows: int = 0, parts: int = 1, fragments: int = 0) -> Latency:
    return Latency(Shape(rows, parts, fragments), p95_ms / 2, p95_ms, 2 * p95_ms, 100)


EVIDENCE = Evidence(
    rows=128_000,
    copied=128_000,
    dimension=384,
    indexes=("key_idx", "vector_idx"),
    asked="mode = vector",
    growth=GROWTH,
    # 4 ms; 6 ms with unindexed rows, and 1 ms for 1,000 of them; 0.5 ms a part, 0.02 a fragment
    latencies=(
        latency(4.0),
        *(latency(6 + rows / 1_000, rows, fragments=1) for rows in (500, 1_000, 5_000, 20_000)),
        latency(7.3, 1_000, fragments=16),
        *(latency(4 + 0.5 * (parts - 1), parts=parts) for parts in (4, 8)),
    ),
    # 0.2 s and 0.1 ms a row; a row is merged and folded log4(128,000 / 500) = 4 times
    actions=(
        *(Took(Kind.EXTEND, rows, 1, 0.2 + rows / 10_000) for rows in (500, 5_000, 20_000)),
        *(Took(Kind.MERGE, rows, 4, 0.1 + rows / 10_000) for rows in (2_000, 20_000)),
        *(Took(Kind.COMPACT, rows, 16, 0.1 + rows / 100_000) for rows in (500, 20_000)),
        Took(Kind.CLEAN, 0, 10, 0.05),
    ),
)


def growing(rows_per_hour: float, batches_per_hour: float = 360) -> Evidence:
    return replace(EVIDENCE, growth=Growth(rows_per_hour, batches_per_hour, 10, 600))


def test_costs_are_the_lines_through_the_figures() -> None:
    costs = Costs.of(EVIDENCE)
    assert costs.indexed_ms == 4.0
    assert (costs.scan.fixed, costs.scan.each) == pytest.approx((6, 0.001))
    assert (costs.part_ms, costs.fragment_ms) == pytest.approx((0.5, 0.02))
    assert (costs.rows.fixed, costs.rows.each) == pytest.approx((6, 0.0012))  # of 100 in a batch
    assert (costs.run.fixed, costs.run.each) == pytest.approx((0.3, 54e-5))
    assert costs.p95_ms(2_000, 5) == pytest.approx(6 + 2.4 + 2)
    assert costs.rows_within(10.4, 5) == pytest.approx(2_000)


def test_one_p95_that_something_else_made_long_changes_nothing() -> None:
    noisy = [
        replace(one, p95_ms=10 * one.p95_ms) if one.shape.fragments > 1 else one
        for one in EVIDENCE.latencies
    ]
    assert Costs.of(replace(EVIDENCE, latencies=tuple(noisy))) == Costs.of(EVIDENCE)


def test_the_target_is_shared_by_rows_and_parts() -> None:
    derived = derive(EVIDENCE, SETTINGS, 12.05)
    # At least 4 parts and 200 rows (100, and a batch): 7.74 ms. A quarter of what is above: 2 parts
    assert derived.target.least_ms == pytest.approx(7.74)
    assert derived.index_parts.new == 6
    assert derived.room == 2_958  # (12.05 - 6 - 5 x 0.5) ms, of which a row takes 0.0012 ms
    assert derived.cadence.new == "2 minutes"  # half of them come in 147.9 s
    assert derived.unindexed_rows.new == 1_700  # and 1,209 come in 120.9 s
    assert derived.small_fragments.new == 17
    assert derived.held_ms == pytest.approx(11.991, abs=0.001)
    assert not derived.target.is_missed
    assert derived.run_s == pytest.approx(0.3 + 1_200 * 54e-5)
    assert "36,000 rows/h bring 1,479 rows in 2.5 minutes" in derived.cadence.reason
    assert "up to 2,958 unindexed rows keep p95 within 12.1 ms" in derived.unindexed_rows.reason
    assert "each further part adds 0.50 ms" in derived.index_parts.reason


def test_without_a_target_searches_may_take_half_as_long_again_as_the_least() -> None:
    assert derive(EVIDENCE, SETTINGS).target.p95_ms == pytest.approx(1.5 * 7.74)
    dear = [
        latency(4 + 3 * (one.shape.parts - 1), parts=one.shape.parts)
        if one.shape.parts > 1
        else one
        for one in EVIDENCE.latencies
    ]
    derived = derive(replace(EVIDENCE, latencies=tuple(dear)), SETTINGS)
    assert derived.target.p95_ms == pytest.approx(1.5 * (6 + 9 + 0.24))
    assert derived.index_parts.new == 4
    assert not derived.target.is_missed


@pytest.mark.parametrize("asked_ms", [1.0, 5.0, 7.0])
def test_a_target_that_cannot_be_kept_is_told_with_one_that_can(asked_ms: float) -> None:
    derived = derive(EVIDENCE, SETTINGS, asked_ms)
    assert derived.target.is_missed
    assert derived.target.reason.startswith(
        f"{asked_ms:g} ms cannot be kept: it is 4.0 ms with everything indexed, and 6.0 ms as soon"
    )
    assert derived.target.reason.endswith("7.7 ms can be kept")
    assert derived.held_ms <= derived.target.p95_ms + 1e-9


def test_a_slow_growth_has_the_longest_cadence_and_nearly_all_rows_as_threshold() -> None:
    derived = derive(growing(600, 6), SETTINGS, 12.05)
    assert derived.cadence.new == "10 minutes"
    assert derived.unindexed_rows.new == 2_800  # of 2,958, and 100 come in that time
    assert derived.small_fragments.new == 28
    assert "2.5 hours; 10 minutes at most" in derived.cadence.reason


def test_the_pause_is_one_and_a_half_runs_at_least() -> None:
    derived = derive(growing(3_600_000), SETTINGS, 30.0)
    assert not derived.target.is_missed
    # 1.5 x (0.3 s + 0.54 ms x 1,000 rows/s x pause) = pause
    assert derived.costs.shortest_pause_s(3_600_000) == pytest.approx(0.45 / 0.19)
    assert seconds_of(derived.cadence.new) >= 1.5 * derived.run_s


def test_rows_that_come_faster_than_they_can_be_indexed_are_told() -> None:
    derived = derive(growing(36_000_000), SETTINGS, 100.0)
    assert derived.target.is_missed
    assert "36,000,000 rows come an hour, and 4,441,111 can be indexed" in derived.target.reason
    assert derived.cadence.new == "10 minutes"


def test_many_small_batches_leave_less_room_and_are_folded_in_time() -> None:
    derived = derive(growing(36_000, 3_600), SETTINGS, 20.0)
    assert derived.room == 3_500  # 10 rows come with a fragment that costs as much as 20
    assert derived.small_fragments.new == 64
    assert derived.small_fragments.reason.endswith("; 64 at most")


def test_no_more_is_advised_than_was_tried() -> None:
    derived = derive(EVIDENCE, SETTINGS, 60_000.0)
    assert derived.room == 20_000
    assert derived.index_parts.new == 8
    assert derived.index_parts.reason.endswith("more were not tried")


@given(
    latency_ms=st.none() | st.floats(0.1, 1_000),
    rows_per_hour=st.floats(1, 1e9),
    batches_per_hour=st.floats(0.01, 3_600),
    row_ms=st.floats(0, 1),
    part_ms=st.floats(0, 100),
    run_s=st.floats(0, 100),
)
def test_whatever_was_measured_the_target_is_kept_and_the_settings_load(  # noqa: PLR0917
    latency_ms: float | None,
    rows_per_hour: float,
    batches_per_hour: float,
    row_ms: float,
    part_ms: float,
    run_s: float,
) -> None:
    shapes = [one.shape for one in EVIDENCE.latencies]
    evidence = replace(
        growing(rows_per_hour, batches_per_hour),
        latencies=tuple(
            latency(5 + row_ms * s.unindexed_rows + part_ms * s.parts, **vars_of(s)) for s in shapes
        ),
        actions=tuple(replace(took, seconds=took.seconds * run_s) for took in EVIDENCE.actions),
    )
    derived = derive(evidence, SETTINGS, latency_ms)
    assert derived.held_ms <= derived.target.p95_ms * (1 + 1e-9)
    if not derived.target.is_missed:
        assert 1.5 * derived.run_s <= seconds_of(derived.cadence.new) * (1 + 1e-9)
    assert 1 <= seconds_of(derived.cadence.new) <= 600
    assert all(one.reason for one in derived.advice)
    OptimizerSettings(**{one.path[-1]: one.new for one in derived.advice})  # type: ignore[arg-type]


def vars_of(shape: Shape) -> dict[str, int]:
    return {"rows": shape.unindexed_rows, "parts": shape.parts, "fragments": shape.fragments}


def test_a_line_neither_falls_nor_begins_below_zero() -> None:
    assert Line.of([(1, 3.0), (2, 5.0)]) == Line(1.0, 2.0)
    assert Line.of([(1, 5.0), (2, 3.0)]) == Line(4.0, 0.0)
    assert Line.of([(7, 3.0)]) == Line(3.0, 0.0)
    assert Line.of([(1, 1.0), (2, 4.0)]) == Line(0.0, 1.8)


START = datetime(2026, 7, 1, tzinfo=UTC)


def batch(minute: float, upserted: int, error: str | None = None) -> dict[str, Any]:
    """A row of the ledger, of a batch that took a minute."""
    end = START + timedelta(minutes=minute)
    return {
        "started_at": end - timedelta(minutes=1),
        "finished_at": end,
        "rows_upserted": upserted,
        "error": error,
    }


def test_growth_is_what_batches_wrote_between_the_first_and_the_last() -> None:
    rows = [batch(1, 100), batch(10, 0), batch(15, 900, "failed"), batch(20, 200), batch(30, 300)]
    found = growth_of(rows, rows_per_record=2.5)
    assert found is not None
    assert found.batches == 3
    assert found.span_s == 1_800
    assert found.rows_per_hour == pytest.approx(2 * 600 * 2.5)
    assert (found.batches_per_hour, found.rows_per_batch) == pytest.approx((6, 500))
    assert [rows for _, rows in found.steps] == [250, 750, 1_500]
    assert [hour for hour, _ in found.steps] == pytest.approx([1 / 60, 20 / 60, 30 / 60])
    assert found.rows_in(60) == pytest.approx(500)  # a batch comes at once
    assert found.rows_in(3_600) == pytest.approx(3_000)


def test_growth_is_of_the_last_day_on_record() -> None:
    old = [batch(number, 10_000) for number in range(5)]
    found = growth_of([*old, batch(3_000, 60), batch(3_059, 60)], rows_per_record=1)
    assert found is not None
    assert (found.batches, found.rows_per_hour) == pytest.approx((2, 120))


def test_growth_is_unknown_without_batches_and_can_be_told() -> None:
    assert growth_of([], 1) is None
    assert growth_of([batch(1, 0), batch(2, 5, "failed")], 1) is None
    assert told(7_200, 10).batches_per_hour == 360
    assert told(60, 10).rows_per_batch == 1


@given(st.integers(1, 100_000), st.integers(1, 20_000))
def test_a_sample_is_of_runs_of_rows_all_over_the_table(rows: int, most: int) -> None:
    blocks = blocks_of(rows, most)
    assert sum(count for _, count in blocks) == min(rows, most)
    ends = [0, *(start + count for start, count in blocks)]
    assert all(end <= start for end, (start, _) in zip(ends, blocks, strict=False))
    assert ends[-1] <= rows


def test_latencies_are_told_in_milliseconds_or_as_durations() -> None:
    assert milliseconds_of("50 ms") == 50
    assert milliseconds_of("0.25 s") == 250
    assert milliseconds_of("2 seconds") == 2_000
    with pytest.raises(SettingsError):
        milliseconds_of("fast")


@given(st.floats(1, 1e6))
def test_a_duration_within_some_time_is_not_longer(seconds: float) -> None:
    assert seconds / 2 <= seconds_of(duration_within(seconds)) <= seconds
