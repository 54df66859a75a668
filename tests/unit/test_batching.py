"""Texts in groups and parts: none is lost, and no more are held than need be."""

import random
import threading

import pytest

from freshet.embedding.batching import MAX_TEXTS, by_token_budget, overlapped, parts_by_length


def test_groups_hold_every_position_once_and_keep_the_budget() -> None:
    chooser = random.Random(3)
    lengths = [chooser.randrange(1, 300) for _ in range(1_000)]
    groups = by_token_budget(lengths, 2_048)
    assert sorted(place for group in groups for place in group) == list(range(1_000))
    for group in groups:
        assert len(group) <= MAX_TEXTS
        assert len(group) == 1 or len(group) * max(lengths[place] for place in group) <= 2_048
    assert len(by_token_budget([1] * 1_000, 2_048, most_texts=1_000)) == 1


def test_parts_go_from_short_to_long_and_are_bounded() -> None:
    texts = ["x" * (number * 7 % 100) for number in range(1_000)] + ["y" * 2_000_000] * 2
    parts = parts_by_length(texts, most_texts=256)
    assert [len(part) for part in parts] == [256, 256, 256, 232, 1, 1]
    places = [place for part in parts for place in part]
    assert sorted(places) == list(range(1_002))
    assert [len(texts[place]) for place in places] == sorted(map(len, texts))
    assert parts_by_length([]) == []


def test_the_next_part_is_made_while_one_is_used_and_no_more() -> None:
    log: list[str] = []
    made_next = threading.Event()

    def make(part: int) -> str:
        log.append(f"make {part}")
        if part == 1:
            made_next.set()
        return f"made {part}"

    def use(part: int, made: str) -> None:
        assert made == f"made {part}"
        assert made_next.wait(10)
        assert sum(line.startswith("make") for line in log) <= part + 2
        log.append(f"use {part}")

    overlapped(range(4), make, use)
    assert [line for line in log if line.startswith("use")] == [f"use {n}" for n in range(4)]
    assert log.index("make 1") < log.index("use 0")


def test_what_fails_in_the_other_thread_is_raised_in_this_one() -> None:
    def make(part: int) -> int:
        return 1 // (part - 2)

    used: list[int] = []
    with pytest.raises(ZeroDivisionError):
        overlapped(range(4), make, lambda part, made: used.append(part))
    assert used == [0, 1]
    overlapped([], make, lambda part, made: used.append(part))
    assert used == [0, 1]
