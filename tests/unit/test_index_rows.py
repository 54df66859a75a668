"""Rows of the index: the same in one step and in two, and no text is embedded twice."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshet.embedding import IndexRows, ProviderSpec, VectorCache
from freshet.embedding.chunking import Chunking
from freshet.embedding.fake import FakeProvider
from freshet.embedding.provider import Vectors
from freshet.rows import BuiltRows, CurrentRows

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = IndexRows(ProviderSpec("fake"), Chunking(8, 2), vectors={"title_vector": ["title"]})
POISON = "poison"


def records(texts: Sequence[str | None], titles: Sequence[str | None] | None = None) -> pa.Table:
    return pa.table(
        {
            "key": [f"k{number}" for number in range(len(texts))],
            "record_version": ["1"] * len(texts),
            "text": pa.array(texts, pa.string()),
            "title_vector": pa.array(titles or [None] * len(texts), pa.string()),
        }
    )


def current(rows: pa.Table | None = None) -> CurrentRows:
    """The rows that the index has; `_rowid` is their place."""
    rows = ROWS.schema.empty_table() if rows is None else rows
    numbered = rows.append_column("_rowid", pa.array(range(rows.num_rows), pa.int64()))
    return CurrentRows(numbered, lambda ids, columns: rows.take(pa.array(ids)).select(columns))


def built(made: BuiltRows | None) -> BuiltRows:
    assert made is not None
    return made


def in_two_steps(rows: IndexRows, given_: pa.Table, have: CurrentRows, tasks: int) -> BuiltRows:
    first = built(rows.build(given_, have, NOW, tasks=tasks))
    assert first.embedded == 0
    assert set(first.waiting) <= set(range(tasks))
    finished = [rows.finish(waiting) for waiting in first.waiting.values()]
    return BuiltRows(
        pa.concat_tables([first.rows, *(one.rows for one in finished)]),
        first.reused + sum(one.reused for one in finished),
        sum(one.embedded for one in finished),
    )


def in_order(rows: pa.Table) -> list[dict[str, object]]:
    return rows.sort_by([("key", "ascending"), ("chunk", "ascending")]).to_pylist()


words = st.lists(st.sampled_from(["river", "stone", "cloud.", "mill\n\n", "dry"]), max_size=40)
texts = st.none() | words.map(" ".join)


@given(
    st.lists(st.tuples(texts, texts), max_size=8),
    st.lists(st.tuples(texts, texts), max_size=8),
    st.integers(1, 5),
)
def test_one_step_and_two_give_the_same_rows(
    before: list[tuple[str | None, str | None]],
    after: list[tuple[str | None, str | None]],
    tasks: int,
) -> None:
    have = current(built(ROWS.build(records(*_columns(before)), current(), NOW)).rows)
    given_ = records(*_columns(after))
    one = built(ROWS.build(given_, have, NOW))
    two = in_two_steps(ROWS, given_, have, tasks)
    assert in_order(two.rows) == in_order(one.rows)
    assert two.rows.schema == ROWS.schema
    assert two.reused + two.embedded == one.reused + one.embedded


def _columns(pairs: list[tuple[str | None, str | None]]) -> tuple[list[str | None], ...]:
    return [text for text, _ in pairs], [title for _, title in pairs]


def test_equal_texts_of_a_batch_are_embedded_once() -> None:
    made = in_two_steps(ROWS, records(["a river", "a stone", "a river"] * 10), current(), 4)
    assert (made.embedded, made.reused) == (2, 28)


def test_a_long_text_is_shared_by_all_tasks() -> None:
    long = " ".join(f"word{number}" for number in range(4_000))
    first = built(ROWS.build(records([long]), current(), NOW, tasks=4))
    sizes = [first.waiting[task].num_rows for task in range(4)]
    assert first.rows.num_rows == 0
    assert max(sizes) < 1.3 * sum(sizes) / 4


def test_a_piece_says_where_in_the_text_it_begins() -> None:
    text = " ".join(f"word{number}" for number in range(50))
    rows = built(ROWS.build(records([text, "short", None]), current(), NOW)).rows.to_pylist()
    pieces = [row for row in rows if row["key"] == "k0"]
    assert len(pieces) > 5
    for row in pieces:
        assert text[row["chunk_start"] :].startswith(row["text"])
    assert [row["chunk_start"] for row in rows if row["key"] != "k0"] == [0, 0]


def test_what_was_embedded_once_is_never_embedded_again(tmp_path: Path) -> None:
    cache = VectorCache.within(str(tmp_path), FakeProvider.model_id, FakeProvider.dimension)
    cache.make()
    rows = replace(ROWS, cache=cache)
    one = in_two_steps(rows, records(["a river", "a stone"]), current(), 2)
    two = in_two_steps(rows, records(["a stone", "a cloud"]), current(), 2)
    assert (one.embedded, two.embedded, two.reused) == (2, 1, 1)
    plain = built(ROWS.build(records(["a stone", "a cloud"]), current(), NOW))
    assert in_order(two.rows) == in_order(plain.rows)


def test_a_text_that_no_model_takes_is_set_aside_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    embed = FakeProvider.embed

    def fails(self: FakeProvider, texts: Sequence[str]) -> Vectors:
        if any(POISON in text for text in texts):
            raise ValueError("cannot take this")
        return embed(self, texts)

    monkeypatch.setattr(FakeProvider, "embed", fails)
    given_ = records(["a river", f"a {POISON}", "a stone"], [POISON, None, "title"])
    made = in_two_steps(ROWS, given_, current(), 3)
    found = {row["key"]: row for row in made.rows.to_pylist()}
    assert found["k1"]["vector"] is None
    assert found["k1"]["text"] == f"a {POISON}"
    assert "cannot take this" in found["k1"]["embedding_error"]
    assert found["k0"]["vector"] is not None
    assert found["k0"]["title_vector"] is None
    assert "cannot take this" in found["k0"]["embedding_error"]
    assert found["k2"]["embedding_error"] is None
    assert (made.embedded, made.reused) == (3, 0)
    again = in_two_steps(ROWS, given_, current(made.rows), 3)
    assert (again.embedded, again.reused) == (0, 3)
