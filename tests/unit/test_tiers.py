"""What is folded into larger things, and what that costs in the long run."""

from hypothesis import given
from hypothesis import strategies as st

from freshet.tiers import FAN_IN, newest_to_merge, window_to_fold

MANY = 10**9


def test_parts_of_a_size_are_merged_when_there_are_enough_of_them() -> None:
    assert newest_to_merge([1_000] * (FAN_IN - 1), most=8, most_rows=MANY) == 0
    assert newest_to_merge([1_000] * FAN_IN, most=8, most_rows=MANY) == FAN_IN


def test_a_large_old_part_is_left_alone_by_small_new_ones() -> None:
    assert newest_to_merge([100_000, *[1_000] * FAN_IN], most=8, most_rows=MANY) == FAN_IN


def test_too_many_parts_are_merged_even_if_it_is_not_due() -> None:
    falling = [2**power for power in range(20, 10, -1)]
    assert newest_to_merge(falling, most=8, most_rows=MANY) >= 2
    assert newest_to_merge(falling[:8], most=8, most_rows=MANY) == 0


def test_no_merge_is_larger_than_allowed() -> None:
    assert newest_to_merge([1_000] * 10, most=8, most_rows=4_500) == 4
    assert newest_to_merge([1_000] * 10, most=8, most_rows=1_500) == 0


def test_merging_costs_each_row_about_the_logarithm_of_the_table() -> None:
    parts: list[int] = []
    read = 0
    for _ in range(1_000):
        parts.append(1_000)
        while count := newest_to_merge(parts, most=16, most_rows=MANY):
            read += sum(parts[-count:])
            parts[-count:] = [sum(parts[-count:])]
    assert sum(parts) == 1_000_000
    assert len(parts) <= 16
    assert read / 1_000_000 < 10  # log2 of 1,000


@given(st.lists(st.one_of(st.none(), st.integers(0, 5_000)), max_size=40), st.integers(1, 20_000))
def test_a_run_keeps_its_promises(sizes: list[int | None], most_rows: int) -> None:
    found = window_to_fold(sizes, most_rows=most_rows)
    if found is None:
        return
    chosen = sizes[slice(*found)]
    assert len(chosen) >= FAN_IN
    assert None not in chosen
    rows = [size for size in chosen if size is not None]
    assert sum(rows) <= most_rows
    assert 2 * max(rows) <= sum(rows)


def test_what_must_stay_parts_the_runs() -> None:
    assert window_to_fold([5, 5, None, 5, 5, 5, 5], most_rows=MANY) == (3, 7)
    assert window_to_fold([5, 5, None, 5, 5, 5], most_rows=MANY) is None


def test_a_fragment_as_large_as_its_neighbours_together_waits() -> None:
    assert window_to_fold([1_000, 10, 10, 10], most_rows=MANY) is None
    assert window_to_fold([30, 10, 10, 10], most_rows=MANY) == (0, 4)
