"""Plans: what is due, why, and what a limit forbids. No table is needed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from freshet.optimizer import Action, Kind, Limits, Situation, Wanted, plan
from freshet.optimizer.plan import SideTable
from freshet.partitions import partitions_for
from freshet.stores.lance_shape import (
    FragmentShape,
    IndexShape,
    PartShape,
    TableShape,
)
from freshet.stores.lance_versions import Version

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
VECTOR = Wanted("vector_idx", "vector", "IVF_HNSW_SQ", 1_000)
LIMITS = Limits()


def fragment(number: int, rows: int = 1_000, deleted: int = 0) -> FragmentShape:
    return FragmentShape(number, rows, deleted, rows * 1_500)


def shape(*fragments: FragmentShape, **told: object) -> TableShape:
    return TableShape(version=9, fragments=fragments, dimension=384, **told)  # type: ignore[arg-type]


def index(*parts: int, new: int = 0, dead: int = 0, partitions: int = 0) -> IndexShape:
    partitions = partitions or partitions_for(sum(parts))
    shapes = [PartShape(rows, rows, rows) for rows in parts]
    shapes[0] = PartShape(parts[0] - dead, parts[0], parts[0])
    return IndexShape(
        "vector_idx", "vector", "IVF_HNSW_SQ", tuple(shapes), new, -(-new // 1_000), partitions
    )


def due(table: TableShape, limits: Limits = LIMITS, **told: object) -> tuple[Action, ...]:
    return plan(Situation(table, NOW, **told), [VECTOR], limits).actions  # type: ignore[arg-type]


def test_nothing_is_due_on_a_quiet_table() -> None:
    table = shape(fragment(0, 50_000), indexes=(index(50_000, new=999),))
    assert plan(Situation(table, NOW), [VECTOR], LIMITS).actions == ()


def test_an_index_is_built_as_soon_as_it_pays() -> None:
    assert due(shape(fragment(0, 999))) == ()
    (action,) = due(shape(fragment(0, 1_000)))
    assert (action.kind, action.target, action.reasons) == (
        Kind.BUILD,
        "vector_idx",
        ("rows=1000>=1000",),
    )
    assert action.details["partitions"] == 1


def test_new_rows_get_a_part_of_their_own() -> None:
    table = shape(fragment(0, 50_000), fragment(1), indexes=(index(50_000, new=1_000),))
    (action,) = due(table)
    assert (action.kind, action.rows) == (Kind.EXTEND, 1_000)
    assert action.reasons == ("unindexed_rows=1000>=1000",)


def test_small_parts_are_merged_with_new_rows_and_the_large_one_stays() -> None:
    table = shape(fragment(0, 54_000), indexes=(index(50_000, 1_000, 1_000, 1_000, new=1_000),))
    (action,) = due(table)
    assert (action.kind, action.rows, action.details["count"]) == (Kind.MERGE, 4_000, 3)


def test_a_merge_stays_within_the_memory_that_is_allowed() -> None:
    table = shape(fragment(0, 40_000), indexes=(index(10_000, 10_000, 10_000, 10_000),))
    assert due(table)[0].rows == 40_000
    tight = Limits(memory_bytes=13_700_000)
    assert all(action.rows <= 20_000 for action in due(table, tight))


def test_a_merge_stays_within_the_time_that_is_allowed() -> None:
    table = shape(fragment(0, 40_000), indexes=(index(10_000, 10_000, 10_000, 10_000),))
    slow = {(Kind.MERGE, "vector_idx"): 100.0}  # 6,000 rows in the 60 seconds of one action
    assert due(table, speeds=slow) == ()


def text_index(*parts: int, new: int = 0) -> IndexShape:
    shapes = tuple(PartShape(rows, rows, rows) for rows in parts)
    return IndexShape("text_idx", "text", "Inverted", shapes, new, -(-new // 1_000))


def test_a_text_index_is_merged_seldom_since_that_takes_all_of_it() -> None:
    small = [1_000] * 8
    vectors = index(1_000_000)
    table = shape(fragment(0, 1_009_000), indexes=(vectors, text_index(1_000_000, *small)))
    assert due(table) == (), "as many parts as allowed, and less than a hundredth is new"
    table = replace(table, indexes=(vectors, text_index(1_000_000, *small, 1_000, new=1_000)))
    (action,) = due(table)
    assert (action.kind, action.target) == (Kind.EXTEND, "text_idx")
    table = replace(table, indexes=(vectors, text_index(1_000_000, *small, 2_000, new=1_000)))
    (action,) = due(table)
    assert (action.kind, action.rows, action.details["count"]) == (Kind.MERGE, 1_011_000, 10)


def test_a_text_index_that_is_too_large_to_merge_is_told_and_new_rows_are_indexed() -> None:
    text = text_index(1_000_000, *[2_000] * 9, new=1_000)
    table = shape(fragment(0, 1_019_000), indexes=(index(1_000_000), text))
    slow = {(Kind.MERGE, "text_idx"): 10_000.0}
    found = plan(Situation(table, NOW, speeds=slow), [VECTOR], LIMITS)
    assert [(action.kind, action.target) for action in found.actions] == [(Kind.EXTEND, "text_idx")]
    (refused,) = found.refusals
    assert refused.action.kind is Kind.MERGE
    assert refused.why == (
        "it reads 1,019,000 rows, and optimizer.action_time and optimizer.memory allow 600,000"
    )


def test_an_index_of_mostly_dead_rows_is_trained_anew() -> None:
    table = shape(fragment(0, 50_000), indexes=(index(50_000, dead=26_000),))
    (action,) = due(table)
    assert action.kind is Kind.RETRAIN
    assert action.reasons == ("dead_share=0.52>0.50",)


def test_an_index_that_finds_too_little_is_trained_anew() -> None:
    table = shape(fragment(0, 50_000), indexes=(index(50_000),))
    assert due(table, recall=0.91, best_recall=0.95) == ()
    assert [action.kind for action in due(table, recall=0.89, best_recall=0.95)] == [Kind.RETRAIN]


def test_an_index_that_never_found_enough_is_not_trained_for_ever() -> None:
    table = shape(fragment(0, 50_000), indexes=(index(50_000),))
    assert due(table, recall=0.80) == (), "the first probe after its training"
    assert due(table, recall=0.80, best_recall=0.82) == ()


def test_a_table_that_outgrew_its_partitions_is_trained_anew() -> None:
    rows = 4_096 * 16
    table = shape(fragment(0, rows), indexes=(index(rows, partitions=4),))
    assert [action.kind for action in due(table, Limits(memory_bytes=10**10))] == [Kind.RETRAIN]
    assert partitions_for(rows) == 16


def test_training_that_needs_more_memory_than_allowed_is_refused_and_told() -> None:
    table = shape(fragment(0, 50_000), indexes=(index(50_000),))
    fallen = Situation(table, NOW, recall=0.5, best_recall=0.95)
    found = plan(fallen, [VECTOR], Limits(memory_bytes=10**6))
    assert found.actions == ()
    assert "optimizer.memory" in found.refusals[0].why


def test_small_fragments_are_folded_when_there_are_enough() -> None:
    few = [fragment(number) for number in range(15)]
    known = {"indexes": (index(20_000),)}
    assert due(shape(*few, **known)) == ()
    (action,) = due(shape(*few, fragment(15), **known))
    assert (action.kind, action.rows) == (Kind.COMPACT, 16_000)
    assert action.details["fragments"] == list(range(16))


def test_a_large_fragment_stays_while_few_of_its_rows_are_deleted() -> None:
    known = {"indexes": (index(200_000),)}
    assert due(shape(fragment(0, 200_000, 30_000), **known)) == ()
    (action,) = due(shape(fragment(0, 200_000, 50_000), **known))
    assert (action.kind, action.reasons) == (Kind.COMPACT, ("deleted_share=0.25>0.20",))


def test_after_a_race_that_a_writer_won_the_next_step_is_half_as_large() -> None:
    table = shape(*(fragment(number, 8_000) for number in range(64)), indexes=(index(512_000),))
    widest = max(action.rows for action in due(table))
    for _ in range(3):
        smaller = max(action.rows for action in due(table, lost_rows=widest))
        assert 0 < smaller <= widest / 2
        widest = smaller


def test_fragments_that_different_parts_of_an_index_cover_are_not_folded_together() -> None:
    parts = [frozenset({"old"})] * 5 + [frozenset({"new"})] * 3 + [frozenset[str]()] * 8
    fragments = [replace(fragment(number), parts=held) for number, held in enumerate(parts)]
    known = {"indexes": (index(8_000, new=999),)}
    chosen = [action.details["fragments"] for action in due(shape(*fragments, **known))]
    assert chosen == [list(range(8, 16))]
    again = [action.details["fragments"] for action in due(shape(*fragments[:5] * 4, **known))]
    assert again, "neighbours of the same part are"


def test_no_fragment_is_in_two_foldings_of_a_plan() -> None:
    table = shape(*(fragment(number, 30_000) for number in range(64)), indexes=(index(1_920_000),))
    chosen = [number for action in due(table) for number in action.details["fragments"]]
    assert len(chosen) == len(set(chosen)) > 0


def versions(*ages_in_minutes: int) -> tuple[Version, ...]:
    return tuple(
        Version(number, NOW - timedelta(minutes=age))
        for number, age in enumerate(ages_in_minutes, 1)
    )


def test_versions_go_when_the_next_one_is_old_enough() -> None:
    table = shape(fragment(0), versions=versions(200, 130, 61, 59, 1), indexes=(index(1_000),))
    (action,) = due(table, floor=5)
    assert action.details["versions"] == [1, 2]


def test_no_version_goes_that_a_recovery_may_ask_for() -> None:
    table = shape(fragment(0), versions=versions(200, 190, 180, 170), indexes=(index(1_000),))
    assert due(table) == ()  # nothing is on record
    (action,) = due(table, floor=2)
    assert action.details["versions"] == [1]


def test_a_version_with_a_name_stays() -> None:
    table = shape(
        fragment(0),
        versions=versions(200, 190, 180, 1),
        tagged=frozenset({2}),
        indexes=(index(1_000),),
    )
    (action,) = due(table, floor=9)
    assert action.details["versions"] == [1]


def test_what_would_fill_the_disk_is_refused_and_told() -> None:
    table = shape(*(fragment(number) for number in range(16)), indexes=(index(16_000),))
    found = plan(Situation(table, NOW, free_bytes=65_000_000), [VECTOR], LIMITS)
    assert found.actions == ()
    assert "the disk has 65,000,000 left" in found.refusals[0].why


def test_files_that_nothing_names_are_swept() -> None:
    table = shape(fragment(0), indexes=(index(1_000),))
    (action,) = due(table, orphans={"data/x.lance": 7})
    assert (action.kind, action.details["files"]) == (Kind.SWEEP, ["data/x.lance"])


def test_tables_beside_the_index_are_tidied_when_they_have_many_files() -> None:
    table = shape(fragment(0), indexes=(index(1_000),))
    assert due(table, tables=(SideTable("ledger", 64, 1, 10),)) == ()
    (action,) = due(table, tables=(SideTable("ledger", 65, 1, 10),))
    assert (action.kind, action.target) == (Kind.TIDY, "ledger")
