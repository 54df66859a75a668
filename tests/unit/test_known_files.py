"""What is known is known, what is not is not, whatever the number."""

import random

from freshet.landing.known_files import EverKnown, PresentFiles, hashed

KNOWN = [f"/landing/2026/{number:07d}.json" for number in range(60_000)]
NEW = [f"/landing/2027/{number:07d}.json" for number in range(5_000)]


def test_exactly_the_names_that_were_not_given_are_unknown() -> None:
    present = PresentFiles.of([hashed(KNOWN[:1_000]), hashed(KNOWN[1_000:])])
    asked = KNOWN + NEW
    random.Random(7).shuffle(asked)
    assert sorted(present.unknown(asked)) == NEW
    assert present.unknown([]) == []
    assert PresentFiles.of([]).unknown(NEW) == NEW


def test_names_that_are_added_one_by_one_are_known_before_and_after_they_are_folded_in() -> None:
    present = PresentFiles.of([])
    for start in range(0, len(KNOWN), 7_000):
        present.add(KNOWN[start : start + 7_000])
        assert present.unknown(KNOWN[: start + 7_000]) == []
    assert present.unknown(NEW) == NEW
    assert len(present) == len(KNOWN)


def test_names_that_are_no_longer_listed_are_forgotten() -> None:
    present = PresentFiles.of([hashed(KNOWN)])
    present.add(NEW)
    left = PresentFiles.of([present.known_among([*KNOWN[:10], *NEW[:10], "other"])])
    assert left.unknown(KNOWN) == KNOWN[10:]
    assert left.unknown([*NEW, "other"]) == [*NEW[10:], "other"]


def test_a_known_file_takes_sixteen_bytes() -> None:
    assert PresentFiles.of([hashed(KNOWN)]).nbytes == 16 * len(KNOWN)


def test_the_filter_never_denies_a_name_that_was_known_and_seldom_suspects_a_new_one() -> None:
    ever = EverKnown()
    ever.add(*hashed(KNOWN))
    assert ever.perhaps(KNOWN) == KNOWN
    assert len(ever.perhaps(NEW)) < 5
