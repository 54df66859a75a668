"""The tables under everything: small Delta tables and Lance tables."""

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Barrier

import lance
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from freshet.errors import CommitConflictError, StoreError, TableMissingError
from freshet.stores.delta_tables import SmallTable, rows_and_nulls
from freshet.stores.lance_commits import Removal
from freshet.stores.lance_tables import ROW_ADDRESS, TABLE_ID, LanceTable

SCHEMA = pa.schema([pa.field("key", pa.string(), nullable=False), ("note", pa.string())])
AWKWARD = ["it's", 'say "hi"', "a\\b", "línea\nnueva", "🦀", "", "x' OR '1'='1", "%_", "null"]


def write(table: LanceTable, rows: dict[str, str], gone: list[str], batch: str = "0") -> int:
    data = pa.table({"key": list(rows), "note": list(rows.values())}).cast(SCHEMA)
    fragments = table.write_files(data.to_reader()) if rows else []
    return table.commit(removal(table, gone), fragments, {"freshet.batch": batch})


def removal(table: LanceTable, gone: list[str]) -> Removal | None:
    found = table.lookup("key", gone, ["key"])
    return table.removal(found.column(ROW_ADDRESS).to_pylist())


def contents(table: LanceTable) -> dict[str, str]:
    rows = [
        row
        for batch in table.read(["key", "note"], table.fragment_ids)
        for row in batch.to_pylist()
    ]
    assert len(rows) == table.count()
    return {row["key"]: row["note"] for row in rows}


@pytest.fixture
def table(tmp_path: Path) -> LanceTable:
    return LanceTable.create(str(tmp_path / "t.lance"), SCHEMA, key="key", metadata={"a": "b"})


def test_a_small_table_is_empty_until_it_is_made(tmp_path: Path) -> None:
    small = SmallTable(str(tmp_path / "s"), SCHEMA)
    assert small.read() == []
    assert small.count() == 0
    small.append([{"key": "a", "note": None}])
    assert small.read(where="key = 'a'") == [{"key": "a", "note": None}]
    assert small.count() == 1


def test_many_appends_keep_every_row_and_few_files(tmp_path: Path) -> None:
    small = SmallTable(str(tmp_path / "s"), SCHEMA)
    for number in range(70):
        small.append([{"key": str(number), "note": "x"}])
    assert {row["key"] for row in small.read(["key"])} == {str(number) for number in range(70)}
    assert SmallTable(str(tmp_path / "s"), SCHEMA).count() == 70


def test_files_of_processes_that_ended_soon_are_folded_by_a_later_one(tmp_path: Path) -> None:
    uri = str(tmp_path / "s")
    for number in range(70):
        SmallTable(uri, SCHEMA).append([{"key": str(number), "note": "x"}])
    assert sorted(row["key"] for row in SmallTable(uri, SCHEMA).read(["key"])) == sorted(
        str(number) for number in range(70)
    )
    assert len(DeltaTable(uri).file_uris()) < 64


def test_rows_and_nulls_come_from_the_log(tmp_path: Path) -> None:
    small = SmallTable(str(tmp_path / "s"), SCHEMA)
    small.append([{"key": "a", "note": None}, {"key": "b", "note": "x"}])
    assert rows_and_nulls(str(tmp_path / "s"), "note", "table") == (2, 1)
    with pytest.raises(TableMissingError):
        rows_and_nulls(str(tmp_path / "nothing"), "note", "table")


def test_a_table_that_is_not_there_says_what_to_start(tmp_path: Path) -> None:
    with pytest.raises(TableMissingError, match=r"there is no index at .* yet: start with"):
        LanceTable.open(str(tmp_path / "none.lance"), what="index")


def test_creating_twice_changes_nothing(table: LanceTable) -> None:
    again = LanceTable.create(table.uri, SCHEMA, key="key")
    assert again.version == table.version
    assert again.metadata == table.metadata == {"a": "b", TABLE_ID: again.metadata[TABLE_ID]}


def test_a_table_that_several_make_at_once_is_made_once(tmp_path: Path) -> None:
    start = Barrier(4)

    def make_and_write(number: int, uri: str) -> str:
        start.wait(10)
        table = LanceTable.create(uri, SCHEMA)
        write(table, {str(number): "x"}, [])
        return table.metadata[TABLE_ID]

    with ThreadPoolExecutor(4) as pool:
        for place in range(20):
            uri = str(tmp_path / f"{place}.lance")
            identities = set(pool.map(make_and_write, range(4), [uri] * 4))
            made = LanceTable.open(uri)
            assert identities == {made.metadata[TABLE_ID]}
            assert sorted(contents(made)) == ["0", "1", "2", "3"], "one has emptied it again"


def test_one_commit_deletes_and_inserts_and_carries_its_stamp(table: LanceTable) -> None:
    write(table, {"a": "1", "b": "1", "c": "1"}, [], batch="0")
    before = table.reopened()
    version = write(before, {"b": "2", "d": "2"}, ["a", "b"], batch="1")
    after = table.reopened()
    assert after.version == version == before.version + 1
    assert contents(after) == {"b": "2", "c": "1", "d": "2"}
    assert contents(before) == {"a": "1", "b": "1", "c": "1"}
    (commit,) = after.history(before.version)
    assert commit.properties == {"freshet.batch": "1"}
    assert commit.changes_rows


@pytest.mark.parametrize("rows", [3, 3_000])
def test_keys_of_any_characters_are_found_by_scan_and_by_index(
    table: LanceTable, rows: int
) -> None:
    write(table, dict.fromkeys(AWKWARD, "awkward") | {f"k{n}": "x" for n in range(rows)}, [])
    table.reopened().index_new_keys("key")
    found = table.reopened().lookup("key", [*AWKWARD, "absent"], ["key", "note"])
    assert sorted(found.column("key").to_pylist()) == sorted(AWKWARD)


def test_keys_of_any_characters_can_be_removed(table: LanceTable) -> None:
    write(table, dict.fromkeys([*AWKWARD, "stays"], "awkward"), [])
    write(table.reopened(), {}, AWKWARD)
    assert contents(table.reopened()) == {"stays": "awkward"}


def test_rows_are_found_whether_or_not_the_index_covers_them(table: LanceTable) -> None:
    for batch in range(12):
        write(table.reopened(), {f"{batch}-{n}": str(batch) for n in range(500)}, [])
        if batch % 3 == 0:
            table.reopened().index_new_keys("key")
    newest = table.reopened()
    assert newest.unindexed("key")[1] == 1_000
    found = newest.lookup("key", ["0-7", "5-7", "11-7"], ["key", "note"])
    assert sorted(found.column("note").to_pylist()) == ["0", "11", "5"]
    taken = newest.take(found.column("_rowid").to_pylist(), ["key"])
    assert taken.column("key").to_pylist() == found.column("key").to_pylist()


def test_a_look_up_sees_its_own_version_only(table: LanceTable) -> None:
    write(table, {"a": "1"}, [])
    pinned = table.reopened()
    write(pinned, {"a": "2"}, ["a"])
    assert pinned.lookup("key", ["a"], ["note"]).column("note").to_pylist() == ["1"]


def test_two_commits_to_the_same_row_conflict_and_the_second_changes_nothing(
    table: LanceTable,
) -> None:
    write(table, {"a": "1"}, [])
    first, second = table.reopened(), table.reopened()
    leaving = removal(second, ["a"])
    write(first, {"a": "2"}, ["a"])
    with pytest.raises(CommitConflictError):
        second.commit(leaving, [], {})
    assert contents(table.reopened()) == {"a": "2"}


def test_a_version_that_was_cleaned_away_is_an_error(table: LanceTable) -> None:
    for batch in range(4):
        write(table.reopened(), {f"k{batch}": "x"}, [])
    lance.dataset(table.uri).cleanup_old_versions(older_than=timedelta(0))
    assert len(list(table.reopened().history(table.reopened().version - 1))) == 1
    with pytest.raises(StoreError, match="read the transaction of version"):
        list(table.reopened().history(table.version))


@pytest.mark.parametrize("seed", range(3))
def test_rows_and_look_ups_are_exact_after_any_order_of_operations(
    table: LanceTable, seed: int
) -> None:
    chooser, model = random.Random(seed), dict[str, str]()
    keys = [f"k{n}" for n in range(400)]
    for batch in range(60):
        touched = chooser.sample(keys, chooser.randint(1, 60))
        rows = {key: str(batch) for key in touched if chooser.random() < 0.7}
        write(table.reopened(), rows, [key for key in touched if key in model])
        for key in touched:
            model.pop(key, None)
        model |= rows
        if batch % 7 == 0:
            table.reopened().index_new_keys("key")
        if batch % 11 == 0:
            table.reopened().compact()
        newest = table.reopened()
        asked = chooser.sample(keys, 30)
        found = newest.lookup("key", asked, ["key", "note"])
        pairs = zip(found.column("key").to_pylist(), found.column("note").to_pylist(), strict=True)
        assert sorted(pairs) == sorted((key, model[key]) for key in asked if key in model)
    assert contents(table.reopened()) == model
