"""Reciprocal rank fusion, and the best candidate of each record."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshet.search.candidates import Candidate, best_of_each, by_piece, by_record
from freshet.search.fusion import Identity, fused


def itself(name: str) -> Identity:
    return (name,)


def names(*rankings: str) -> str:
    return "".join(item for item, _ in fused(rankings, itself))


def test_what_both_rankings_have_beats_what_one_has() -> None:
    assert names("abc", "cde") == "cabde"
    assert fused(["ab", "b"], itself) == [("b", 1 / 62 + 1 / 61), ("a", 1 / 61)]


def test_one_ranking_stays_as_it_is_and_none_gives_nothing() -> None:
    assert names("bca", "") == "bca"
    assert fused([], itself) == []


def test_equal_scores_are_ordered_by_rank_and_then_by_name() -> None:
    assert names("xa", "by") == "bxay"
    # A first and a third place are worth more than two second ones.
    assert names("abc", "cba") == "acb"


@given(st.lists(st.permutations("abcdef"), min_size=2, max_size=2))
def test_the_order_of_the_rankings_does_not_matter(rankings: list[list[str]]) -> None:
    one, *others = ([item for item, _ in fused(order, itself)] for order in permutations(rankings))
    assert all(other == one for other in others)
    assert sorted(one) == list("abcdef")


def test_the_better_placed_of_one_record_stands_for_it() -> None:
    first, second = Candidate(1, "k", 0, 9.0), Candidate(2, "k", 7, 3.0)
    other = Candidate(3, "m", 0, 9.5)
    [(best, _), _] = fused([[other, first], [second]], by_record)
    assert best is second


class Table:
    """Candidates in their order; remembers what it was asked for."""

    def __init__(self, keys: str) -> None:
        self.rows = [Candidate(n, key, n, -float(n)) for n, key in enumerate(keys)]
        self.asked: list[int] = []

    def __call__(self, rows: int) -> list[Candidate]:
        self.asked.append(rows)
        return self.rows[:rows]


def test_more_is_asked_for_until_there_are_enough_records() -> None:
    table = Table("a" * 20 + "bc" + "d" * 100)
    assert [one.row_id for one in best_of_each(table, 3, by_record)] == [0, 20, 21]
    assert table.asked == [6, 12, 24]


def test_nothing_more_is_asked_for_where_the_table_ends() -> None:
    table = Table("aaab")
    assert [one.key for one in best_of_each(table, 3, by_record)] == ["a", "b"]
    assert table.asked == [6]


def test_a_record_without_end_does_not_keep_a_search_for_ever() -> None:
    table = Table("a" * 200_000)
    assert len(best_of_each(table, 10, by_record)) == 1
    assert 65_536 <= table.asked[-1] < 200_000


@pytest.mark.parametrize("k", [1, 5])
def test_by_piece_every_candidate_counts_and_no_more_is_asked_for(k: int) -> None:
    table = Table("a" * 20)
    assert [one.chunk for one in best_of_each(table, k, by_piece)] == list(range(k))
    assert table.asked == [k]
