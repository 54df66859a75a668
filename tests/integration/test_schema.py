"""The records' schema through a whole pipeline: it grows, conflicts, stops, and is rolled back.

After each of these the index must equal what Bronze and the history of the schema say.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from freshet import LanceSink, Pipeline, Settings, evolution, schemas
from freshet.cli.app import app
from freshet.embedding import IndexRows, ProviderSpec
from freshet.embedding.chunking import Chunking
from freshet.errors import (
    ModelMismatchError,
    SchemaChangedError,
    SchemaError,
    SchemaMismatchError,
    StreamFailedError,
)
from freshet.evolution import History
from freshet.sink import Step
from freshet.stores import lance_columns
from freshet.stores.lance_tables import LanceTable
from freshet.testing import FailAt, Moment

MakeSettings = Callable[..., Settings]


class Feed:
    """A pipeline, and files that land for it one after another."""

    def __init__(
        self, folder: Path, spark: SparkSession, settings: MakeSettings, **sections: Any
    ) -> None:
        self.folder = folder
        self._make = lambda: settings(**sections)
        self._spark = spark
        self._files = count(1)
        self._versions = count(1)
        self.pipeline = Pipeline(self._make(), spark=spark)
        self.history = History(self.pipeline.home.schema)

    def land(self, **records: dict[str, Any]) -> None:
        """One file; a record a key, with its columns."""
        lines = [
            json.dumps({"id": key, "record_version": next(self._versions), "title": key} | columns)
            for key, columns in records.items()
        ]
        path = self.folder / "landing" / f"{next(self._files)}.json"
        path.write_text("".join(f"{line}\n" for line in lines))

    def run(self, **records: dict[str, Any]) -> None:
        """Lands a file and brings the index up to date."""
        if records:
            self.land(**records)
        self.pipeline.run(once=True)

    def restart(self, **changes: Any) -> None:
        """Goes on in another process, so to speak."""
        self.pipeline = Pipeline(self._make(), spark=self._spark, **changes)

    def rows(self, *columns: str) -> dict[str, Any]:
        """Some columns of the index by key; a single one without its name."""
        found = lance.dataset(self.pipeline.home.index).to_table(["key", *columns]).to_pylist()
        if len(columns) == 1:
            return {row["key"]: row[columns[0]] for row in found}
        return {row.pop("key"): row for row in found}

    def types(self) -> dict[str, str]:
        """The attributes of the index."""
        fixed = set(schemas.INDEX_COLUMNS)
        schema = lance.dataset(self.pipeline.home.index).schema
        return {field.name: str(field.type) for field in schema if field.name not in fixed}

    def rescued(self) -> dict[str, Any]:
        """What did not fit, by key."""
        return {key: json.loads(text) for key, text in self.rows("rescued").items() if text}

    def told(self, file: str) -> list[tuple[Any, ...]]:
        """What the history has of a file: version, what, column, types."""
        return [
            (one.version, one.what, one.column, one.from_type, one.to_type)
            for one in self.history.entries()
            if one.file == str(self.folder / "landing" / file)
        ]

    def schema(self, *arguments: str) -> str:
        """A `freshet schema` command; what it says."""
        config = self.folder / "freshet.toml"
        chosen = self._make()
        config.write_text(
            f'[pipeline]\nname = "docs"\nhome = "{chosen.pipeline.home}"\n'
            f'[landing]\npath = "{chosen.landing.path}"\n[changes]\nkey = ["id"]\n'
            f'[gold]\ntext = ["title"]\nattributes = {json.dumps(list(chosen.gold.attributes))}\n'
        )
        done = CliRunner().invoke(app, ["schema", *arguments, "--config", str(config)])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return " ".join(done.output.split())


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path, settings: MakeSettings) -> Callable[..., Feed]:
    def make(mode: str = "evolve", attributes: Any = "*") -> Feed:
        landing = {"path": str(tmp_path / "landing"), "schema_mode": mode, "settle": "0 seconds"}
        gold = {"text": ["title"], "attributes": attributes}
        return Feed(tmp_path, spark, settings, landing=landing, gold=gold)

    return make


BASE = {"id": "string", "title": "string", "rescued": "string"}


def test_new_and_renamed_columns_flow_into_the_index(feed: Callable[..., Feed]) -> None:
    one = feed()
    one.run(a={"colour": "red"}, b={"colour": "blue"})
    assert one.types() == BASE | {"colour": "string"}
    one.run(a={"color": "red", "price": 7, "ok": True, "none": None})
    assert one.types() == BASE | {
        "colour": "string",
        "color": "string",
        "price": "int64",
        "ok": "bool",
    }
    assert one.rows("colour", "color", "price") == {
        "a": {"colour": None, "color": "red", "price": 7},
        "b": {"colour": "blue", "color": None, "price": None},
    }
    assert one.told("2.json") == [
        (2, "added", "color", None, "string"),
        (2, "added", "ok", None, "boolean"),
        (2, "added", "price", None, "long"),
    ]
    [hit] = one.pipeline.search("a", where="price > 5 AND ok AND rescued IS NULL")
    assert (hit.key, hit.attributes["price"]) == ("a", 7)
    one.run(c={"price": 8})
    assert one.history.schema().version == 2
    assert one.pipeline.verify().ok
    assert "first" in (said := one.schema("history"))
    assert "price - → long 1 2.json" in said


@pytest.mark.long
def test_a_number_that_becomes_text_is_rescued_and_counted(feed: Callable[..., Feed]) -> None:
    one = feed()
    one.run(a={"price": 1}, b={"price": 2})
    one.run(b={"price": "n/a"}, c={"price": {"net": 3}}, d={"price": 4}, e={"price": "?"})
    assert one.rows("price") == {"a": 1, "b": None, "c": None, "d": 4, "e": None}
    assert one.rescued() == {
        "b": {"price": "n/a"},
        "c": {"price": {"net": 3}},
        "e": {"price": "?"},
    }
    assert one.types()["price"] == "int64"
    assert one.told("2.json") == [
        (1, "conflict", "price", "long", "string"),
        (1, "conflict", "price", "long", "struct"),
    ]
    assert one.pipeline.verify().ok
    assert "conflict price long → string 2 2.json" in (said := one.schema("show"))
    assert '"n/a"' in said
    assert evolution.summary(one.pipeline.home.schema) == evolution.Summary(1, 4, 0, 3)
    lance.dataset(one.pipeline.home.index).update({"rescued": "'{}'"}, where="key = 'b'")
    assert one.pipeline.verify().stale == 1


@pytest.mark.long
def test_a_listed_attribute_rescues_what_is_not_of_its_type(feed: Callable[..., Feed]) -> None:
    one = feed(attributes=["price:long", "note"])
    one.run(a={"price": 1, "note": 5}, b={"price": "2"})
    assert one.types() == {"price": "int64", "note": "string", "rescued": "string"}
    # As of an index that was made before there was such a column.
    lance.dataset(one.pipeline.home.index).drop_columns(["rescued"])
    assert one.pipeline.search("a", k=1)[0].attributes == {"price": 1, "note": "5"}
    one.run(c={"price": "n/a", "note": {"x": 1}}, d={"price": 1.5})
    assert one.rows("price") == {"a": 1, "b": 2, "c": None, "d": None}
    assert one.rows("note") == {"a": "5", "b": None, "c": '{"x":1}', "d": None}
    assert one.rescued() == {"c": {"price": "n/a"}, "d": {"price": 1.5}}
    assert one.pipeline.verify().ok
    assert [hit.key for hit in one.pipeline.search("c", where="rescued IS NOT NULL", k=1)] == ["c"]


@pytest.mark.long
def test_an_object_that_grows_is_json_in_the_index(feed: Callable[..., Feed]) -> None:
    one = feed()
    one.run(a={"address": {"city": "Ulm"}, "tags": ["x"]})
    one.run(
        b={"address": {"city": "Bonn", "geo": {"lat": 1.5}}, "tags": [1]},
        c={"address": {"city": 5}},
        d={"address": "Köln"},
    )
    assert one.rows("address", "tags") == {
        "a": {"address": '{"city":"Ulm"}', "tags": '["x"]'},
        "b": {"address": '{"city":"Bonn","geo":{"lat":1.5}}', "tags": "[1]"},
        "c": {"address": '{"city":5}', "tags": None},
        "d": {"address": None, "tags": None},
    }
    assert one.told("2.json") == [
        (2, "added", "address.geo", None, "struct"),
        (2, "added", "address.geo.lat", None, "decimal"),
        (2, "conflict", "address", "struct", "string"),
    ]
    assert one.rescued() == {"d": {"address": "Köln"}}
    assert one.pipeline.verify().ok


@pytest.mark.long
def test_whole_numbers_become_fractions(feed: Callable[..., Feed]) -> None:
    one = feed()
    one.run(a={"price": 1}, b={"price": 2**53 + 1})
    one.run(c={"price": 1.5}, d={"price": 7}, e={"price": 1e300})
    assert one.types()["price"] == "double"
    assert one.rows("price") == {"a": 1.0, "b": 2.0**53, "c": 1.5, "d": 7.0, "e": 1e300}
    assert one.told("2.json") == [(2, "widened", "price", "long", "double")]
    assert one.rescued() == {}
    assert one.pipeline.verify().ok


@pytest.mark.long
def test_columns_of_any_name_are_taken_or_left_out(feed: Callable[..., Feed]) -> None:
    one = feed()
    odd = {"a b": 1, "é,<": 2, "a.b": 3, "it's": 4, "q`t": 5, "": 6, "_rowid": 7}
    one.land(a=odd | {"key": 8, "chunk": 9, "KEY": 10})
    one.run(b={"Title": "other", "A B": 2})
    assert one.types() == BASE | {"a b": "int64", "é,<": "int64"}
    [hit] = one.pipeline.search("a", where="`a b` = 1 AND `é,<` = 2")
    assert hit.key == "a"
    assert one.pipeline.verify().ok


@pytest.mark.long
def test_fail_stops_before_the_records_and_goes_on_when_accepted(
    feed: Callable[..., Feed],
) -> None:
    one = feed("fail")
    one.run(a={"price": 1, "null": None})
    before = lance.dataset(one.pipeline.home.index).version
    one.land(b={"price": 2, "nil": None}, c={"price": 1.5, "extra": "x"}, d={"price": "n/a"})
    for _ in range(2):
        with pytest.raises(SchemaChangedError) as caught:
            one.run()
        assert set(caught.value.changes) == {
            "column extra (string) is new",
            "column price was long and is decimal",
            "column price was long and is string",
        }
        assert "2.json, row 1" in str(caught.value)
        one.restart()
    assert lance.dataset(one.pipeline.home.index).version == before
    assert one.pipeline.status().bronze.rows == 4
    assert evolution.summary(one.pipeline.home.schema).pending == 3
    assert one.history.schema().version == 1
    assert "version 2 takes" in one.schema("accept")
    assert "nothing waits" in one.schema("accept")
    one.run(e={"price": "?", "extra": "y"})
    assert one.rows("price", "extra") == {
        "a": {"price": 1.0, "extra": None},
        "b": {"price": 2.0, "extra": None},
        "c": {"price": 1.5, "extra": "x"},
        "d": {"price": None, "extra": None},
        "e": {"price": None, "extra": "y"},
    }
    assert one.rescued() == {"d": {"price": "n/a"}, "e": {"price": "?"}}
    assert one.pipeline.verify().ok


def test_rescue_keeps_new_columns_out_until_they_are_accepted(feed: Callable[..., Feed]) -> None:
    one = feed("rescue")
    one.run(a={"price": 1})
    one.run(b={"price": 2.5, "extra": "x"}, c={"price": 3, "extra": "y"}, d={"price": "n/a"})
    assert one.types() == BASE | {"price": "int64"}
    assert one.rows("price") == {"a": 1, "b": None, "c": 3, "d": None}
    assert one.rescued() == {"b": {"price": 2.5}, "d": {"price": "n/a"}}
    held = {(h.column, h.seen): (h.what, h.records) for h in one.history.schema().held.values()}
    assert held == {
        ("extra", "string"): ("rescued", 2),
        ("price", "decimal"): ("rescued", 1),
        ("price", "string"): ("conflict", 1),
    }
    assert one.pipeline.verify().ok
    assert "takes extra (string), price (decimal)" in one.schema("accept")
    one.run(c={"price": 3.5, "extra": "y"}, e={"price": 4})
    assert one.rows("price", "extra") == {
        "a": {"price": 1.0, "extra": None},
        "b": {"price": None, "extra": None},
        "c": {"price": 3.5, "extra": "y"},
        "d": {"price": None, "extra": None},
        "e": {"price": 4.0, "extra": None},
    }
    assert one.rescued() == {"b": {"price": 2.5}, "d": {"price": "n/a"}}
    assert one.pipeline.verify().ok


@pytest.mark.long
def test_a_rollback_undoes_a_bad_files_damage(feed: Callable[..., Feed]) -> None:
    one = feed()
    one.run(a={"price": 1})
    one.run(b={"price": 2.5, "junk": {"x": 1}}, c={"junk": 5})
    assert one.rescued() == {"c": {"junk": 5}}
    assert "junk" in one.types()
    assert "version 3 is as version 1 was" in one.schema("rollback", "1")
    assert one.pipeline.verify().ok
    with pytest.raises(SchemaError, match="junk was rolled back and has not left the index yet"):
        one.schema("accept", "junk")
    with pytest.raises(SchemaError, match="there is no version 9 of the schema: the newest is 3"):
        one.schema("rollback", "9")
    one.run()
    assert one.types() == BASE | {"price": "double"}
    one.run(d={"price": 3.5, "junk": {"x": 2}}, e={"price": 4, "new": "n"})
    assert one.rows("price") == {"a": 1.0, "b": 2.5, "c": None, "d": None, "e": 4.0}
    assert one.rescued() == {"c": {"junk": 5}, "d": {"price": 3.5}}
    assert one.types() == BASE | {"price": "double", "new": "string"}
    assert one.pipeline.verify().ok
    assert "rolled back junk" in one.schema("show")
    one.schema("accept", "junk", "price")
    one.run(f={"price": 5.5, "junk": {"x": 3}})
    assert one.rows("price", "junk")["f"] == {"price": 5.5, "junk": '{"x":3}'}
    assert one.rows("junk")["b"] is None
    assert one.pipeline.verify().ok


@pytest.mark.long
def test_a_batch_that_is_run_again_tells_nothing_twice(feed: Callable[..., Feed]) -> None:
    one = feed()
    one.run(a={"price": 1})
    one.land(b={"price": "n/a", "extra": 1})
    fault = FailAt(Moment("before", Step.COMMIT, 1))
    one.restart(probe=fault)
    with pytest.raises(StreamFailedError, match="before commit of batch 1"):
        one.run()
    assert fault.struck
    one.restart()
    one.run()
    assert one.history.schema().version == 2
    assert [held.records for held in one.history.schema().held.values()] == [1]
    assert one.pipeline.verify().ok


# --- the columns of an index, without a pipeline -------------------------------------------------


def rows_with(**attributes: str) -> IndexRows:
    return IndexRows(ProviderSpec("fake"), Chunking(8, 2), attributes, takes_all=True)


def sink_of(folder: Path, rows: IndexRows) -> LanceSink:
    return LanceSink(
        str(folder / "t.lance"), ledger=str(folder / "ledger"), pipeline="tests", rows=rows
    )


def made(folder: Path, rows: IndexRows) -> LanceSink:
    """A sink whose index holds one row, with a price of 7."""
    table = LanceTable.create(
        str(folder / "t.lance"), rows.schema, key="key", metadata=rows.metadata
    )
    vector = [0.0] * rows.schema.field("vector").type.list_size
    row = {"key": "k", "chunk": 0, "record_version": "v", "vector": vector, "price": 7}
    data = pa.Table.from_pylist([row], schema=rows.schema)
    table.commit(None, table.write_files(data.to_reader()), {})
    return sink_of(folder, rows)


@pytest.mark.parametrize("struck", ["drop", "add", "widen", "after copying", "after swapping"])
def test_a_crash_while_columns_change_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, struck: str
) -> None:
    sink = made(tmp_path, rows_with(price="long", bad="long"))
    sink.use(rows_with(price="double", new="string"), retired=["bad", "never there"])

    def broken(uri: str, what: Any) -> None:
        if struck == "after copying":
            lance.dataset(uri).add_columns({"__freshet_wide": "cast(`price` as double)"})
        if struck == "after swapping":
            whole(uri, what)
            lance.dataset(uri).add_columns({"__freshet_narrow": "cast(1 as bigint)"})
        raise RuntimeError("struck")

    name = struck if struck in ("drop", "add") else "widen"
    whole = getattr(lance_columns, name)
    monkeypatch.setattr(lance_columns, name, broken)
    with pytest.raises(RuntimeError, match="struck"):
        sink.fit()
    monkeypatch.undo()
    sink.fit()
    version = lance.dataset(str(tmp_path / "t.lance")).version
    sink.fit()
    table = lance.dataset(str(tmp_path / "t.lance"))
    assert table.version == version
    wanted = rows_with(price="double", new="string").schema
    assert {field.name: field.type for field in table.schema} == {
        field.name: field.type for field in wanted
    }
    assert table.to_table(["price", "new"]).to_pylist() == [{"price": 7.0, "new": None}]
    assert table.schema.metadata[b"freshet.attributes"] == b"*"


def test_a_column_that_nobody_retired_does_not_leave(tmp_path: Path) -> None:
    sink = made(tmp_path, rows_with(price="long", bad="long"))
    sink.use(rows_with(price="long"))
    with pytest.raises(SchemaMismatchError, match="column bad is not filled"):
        sink.check()
    sink.use(rows_with(price="string"), retired=["bad"])
    with pytest.raises(SchemaMismatchError, match="column price is to be string but is int64"):
        sink.fit()


def test_an_index_of_listed_attributes_keeps_them(tmp_path: Path) -> None:
    listed = replace(rows_with(price="long"), takes_all=False)
    sink = made(tmp_path, listed)
    sink.use(replace(listed, attributes={"price": "long", "rescued": "string"}))
    sink.fit()
    sink.use(replace(listed, attributes={"price": "double", "rescued": "string"}))
    with pytest.raises(SchemaMismatchError, match="column price is to be double but is int64"):
        sink.check()
    sink.use(rows_with(price="long"))
    with pytest.raises(ModelMismatchError, match="built with attributes nothing"):
        sink.check()
