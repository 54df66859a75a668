"""Tests that every sink must pass. Needs pytest, and a fixture `spark` with a session.

    class TestMySink(SinkContract):
        def sink(self, place, mode, **told):
            return StoreSink(MyStore(place / "my.db", mode), **told)

        def contents(self, place, mode):
            return [...]  # the rows of the table, as dicts

That is for keyed tables. A store that takes further modes derives `AppendContract` and
`CompleteContract`, too.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import pytest
from pyspark.sql import DataFrame, SparkSession

from freshet.errors import ContinuityError, FencedError
from freshet.sink import BatchReport, Ledger, Mode
from freshet.testing.faults import FailAt, InjectedFaultError, Moment

COLUMNS: Final = "key string, record_version string, is_deleted boolean, note string"
PIPELINE: Final = "contract"
SINK: Final = "table"
ODD: Final = 'it\'s "odd" \\ {1,2}, \t\n;-- ü \N{SNOWMAN}'

Event = tuple[str, int, str | None]
"""Key, version and note; no note: deleted."""
Row = Mapping[str, Any]


class Sink(Protocol):
    """What is tested: `StoreSink`, and whatever is written like one."""

    def write(
        self, rows: DataFrame, *, query_id: str, batch_id: int, offsets: str | None
    ) -> BatchReport | None:
        """Writes one batch; None if it had been written before."""
        ...


MOMENTS: Final = (
    ("before:prepare:1", "committed"),
    ("after:prepare:1", "committed"),
    ("before:commit:1", "committed"),
    ("after:commit:1", "recovered"),
    ("before:record:1", "recovered"),
    ("after:record:1", None),
)
"""Where a batch fails, and how it is put on record by the next driver; None: it was before."""


class Contract(ABC):
    """How a sink is made, and how its table is read."""

    @abstractmethod
    def sink(self, place: Path, mode: str, **told: Any) -> Sink:
        """A new sink on the table of a folder; `told` are ledger, pipeline, sink and probe."""

    @abstractmethod
    def contents(self, place: Path, mode: str) -> Iterable[Row]:
        """The rows of the table, with at least the columns key, record_version and note."""

    @pytest.fixture
    def at(self, spark: SparkSession, tmp_path: Path) -> "Desk":
        """Where a test writes and reads."""
        return Desk(self, spark, tmp_path)

    def fails_and_goes_on(self, at: "Desk", mode: str, moment: str, then: str | None) -> None:
        """One driver fails in a batch, and another one goes on."""
        at.write(0, ("a", 1, "x"), mode=mode)
        at.restart(FailAt(Moment.parse(moment)))
        with pytest.raises(InjectedFaultError):
            at.write(1, ("b", 1, "y"), mode=mode)
        at.restart()
        report = at.write(1, ("b", 1, "y"), mode=mode)
        assert (report.status if report else None) == then
        assert at.listed(mode) == [("a", "x"), ("b", "y")]
        at.write(2, ("c", 1, "z"), mode=mode)
        assert at.listed(mode) == [("a", "x"), ("b", "y"), ("c", "z")]
        landed = [row["batch_id"] for row in at.ledger if row["status"] != "failed"]
        assert landed == [0, 1, 2]

    def wakes_up_late(self, at: "Desk", mode: str) -> None:
        """A driver pauses right before its commit, and another one writes the batch meanwhile."""
        at.write(0, ("a", 1, "x"), mode=mode)
        other = Desk(self, at.spark, at.place)

        def meanwhile(step: Any, when: str, batch_id: int) -> None:
            if (str(step), when, batch_id) == ("commit", "before", 1):
                other.write(1, ("b", 1, "y"), mode=mode)

        at.restart(meanwhile)
        with pytest.raises(FencedError):
            at.write(1, ("b", 1, "y"), mode=mode)
        other.write(2, ("c", 1, "z"), mode=mode)
        assert at.listed(mode) == [("a", "x"), ("b", "y"), ("c", "z")]


class SinkContract(Contract):
    """For keyed tables; derive, and say how a sink is made and how its table is read."""

    def test_rows_are_upserted_and_deleted_by_key(self, at: "Desk") -> None:
        """Twice, so that rows are there that must leave."""
        at.write(0, ("a", 1, "one"), ("b", 1, "two"), ("c", 1, ODD), (ODD, 1, "odd"))
        at.write(1, ("a", 2, ODD), ("b", 2, None), ("d", 1, ""), (ODD, 2, "odder"))
        assert at.rows == {"a": ODD, "c": ODD, "d": "", ODD: "odder"}

    def test_the_greatest_version_wins_whatever_comes_last(self, at: "Desk") -> None:
        """In a batch and over batches; on a full tie a delete wins."""
        at.write(0, ("a", 3, "third"), ("a", 1, "first"), ("b", 2, "kept"), ("c", 1, "x"))
        at.write(1, ("a", 2, "second"), ("b", 1, None), ("c", 2, "tie"), ("c", 2, None))
        at.write(2, ("b", 2, "again"), ("d", 1, "new"))
        assert at.rows == {"a": "third", "b": "kept", "d": "new"}

    def test_a_deleted_key_stays_dead_until_something_newer(self, at: "Desk") -> None:
        """Also one that was deleted before it was ever seen."""
        at.write(0, ("a", 1, "x"), ("b", 5, None), ("c", 1, "x"))
        at.write(1, ("a", 3, None), ("b", 4, "late"), ("c", 3, None))
        at.write(2, ("a", 2, "late"), ("a", 3, "tie"), ("b", 6, "newer"), ("c", 3, None))
        assert at.rows == {"b": "newer"}

    def test_a_history_out_of_order_ends_as_a_recount(self, at: "Desk") -> None:
        """Every driver lives for two batches only."""
        chooser = random.Random(7)  # noqa: S311 - not a secret
        events: list[Event] = []
        for batch in range(6):
            some: list[Event] = []
            for _ in range(40):
                version, is_gone = chooser.randrange(1, 30), chooser.random() < 0.2
                key = f"k{chooser.randrange(12)}"
                some.append((key, version, None if is_gone else f"{key} at {version}"))
            events += some
            if batch % 2:
                at.restart()
            at.write(batch, *some)
        assert at.rows == recount(events)

    def test_a_batch_planned_anew_cannot_undo_newer_ones(self, at: "Desk") -> None:
        """As by a checkpoint that was restored from an older copy."""
        at.write(0, ("a", 1, "x"))
        at.write(1, ("a", 3, "third"), ("b", 1, "x"))
        at.write(2, ("b", 3, None))
        at.restart()
        report = at.write(1, ("a", 2, "second"), ("b", 2, "late"), ("c", 1, "x"), ends="elsewhere")
        assert report is not None
        assert report.status == "replayed"
        assert at.rows == {"a": "third", "c": "x"}

    @pytest.mark.parametrize(("moment", "then"), MOMENTS)
    def test_a_batch_that_failed_anywhere_takes_effect_once(
        self, at: "Desk", moment: str, then: str | None
    ) -> None:
        """Whoever runs it again."""
        self.fails_and_goes_on(at, Mode.UPDATE, moment, then)

    def test_a_driver_that_wakes_up_late_is_fenced(self, at: "Desk") -> None:
        """The one that began last goes on."""
        self.wakes_up_late(at, Mode.UPDATE)

    def test_what_does_not_belong_together_is_refused(self, at: "Desk") -> None:
        """A checkpoint ahead of the ledger; rows that would be added twice."""
        at.write(0, ("a", 1, "x"))
        at.restart()
        with pytest.raises(ContinuityError, match="batches between them may be missing"):
            at.write(5, ("b", 1, "x"))
        assert at.rows == {"a": "x"}

    def test_a_batch_without_rows_goes_on_record(self, at: "Desk") -> None:
        """The first one as well."""
        at.write(0)
        at.write(1, ("a", 1, "x"))
        at.write(2)
        at.restart()
        assert at.write(2) is None
        assert at.rows == {"a": "x"}
        assert [row["batch_id"] for row in at.ledger] == [0, 1, 2]


class AppendContract(Contract):
    """For tables that rows are added to."""

    def test_append_adds_every_row(self, at: "Desk") -> None:
        """Also equal ones; a batch that was planned anew is refused."""
        at.write(0, ("a", 1, "x"), ("a", 1, "x"), mode=Mode.APPEND)
        at.write(1, ("a", 1, "x"), mode=Mode.APPEND)
        assert at.listed(Mode.APPEND) == [("a", "x")] * 3
        at.restart()
        with pytest.raises(ContinuityError, match="restored from an older copy"):
            at.write(0, ("a", 1, "x"), mode=Mode.APPEND, ends="elsewhere")
        assert at.listed(Mode.APPEND) == [("a", "x")] * 3

    def test_a_batch_that_is_run_again_writes_nothing(self, at: "Desk") -> None:
        """By the same driver and by the next."""
        at.write(0, ("a", 1, "x"), mode=Mode.APPEND)
        assert at.write(0, ("a", 1, "x"), mode=Mode.APPEND) is None
        at.restart()
        assert at.write(0, ("a", 1, "x"), mode=Mode.APPEND) is None
        assert at.listed(Mode.APPEND) == [("a", "x")]
        assert len(at.ledger) == 1

    @pytest.mark.parametrize(("moment", "then"), MOMENTS)
    def test_a_batch_that_failed_anywhere_is_added_once(
        self, at: "Desk", moment: str, then: str | None
    ) -> None:
        """Whoever runs it again."""
        self.fails_and_goes_on(at, Mode.APPEND, moment, then)

    def test_a_driver_that_wakes_up_late_adds_nothing(self, at: "Desk") -> None:
        """The one that began last goes on."""
        self.wakes_up_late(at, Mode.APPEND)


class CompleteContract(Contract):
    """For tables that are replaced by every batch."""

    def test_complete_makes_the_batch_the_whole_table(self, at: "Desk") -> None:
        """And a repeated one does not change it."""
        at.write(0, ("a", 1, "x"), ("b", 1, "x"), mode=Mode.COMPLETE)
        at.write(1, ("b", 2, "y"), ("c", 1, "z"), mode=Mode.COMPLETE)
        at.restart()
        assert at.write(1, ("b", 2, "y"), ("c", 1, "z"), mode=Mode.COMPLETE) is None
        assert at.listed(Mode.COMPLETE) == [("b", "y"), ("c", "z")]


class Desk:
    """One table and its ledger, written by one driver after the other."""

    def __init__(self, contract: Contract, spark: SparkSession, place: Path) -> None:
        self.spark = spark
        self.place = place
        self._contract = contract
        self._told: dict[str, Any] = {}
        self._sinks: dict[str, Sink] = {}

    def restart(self, probe: Any = None) -> None:
        """The next batch is written by a new driver, which knows nothing."""
        self._told = {} if probe is None else {"probe": probe}
        self._sinks = {}

    def write(
        self, batch_id: int, *events: Event, mode: str = Mode.UPDATE, ends: str | None = None
    ) -> Any:
        """One batch; its report, or None if it was written before."""
        if mode not in self._sinks:
            told = {"pipeline": PIPELINE, "sink": SINK, **self._told}
            told["ledger"] = str(self.place / "ledger")
            self._sinks[mode] = self._contract.sink(self.place, mode, **told)
        offsets = ends or f"at {batch_id}"
        rows = frame(self.spark, events)
        if mode == Mode.COMPLETE:
            rows = rows.drop("is_deleted")
        return self._sinks[mode].write(rows, query_id="query", batch_id=batch_id, offsets=offsets)

    @property
    def rows(self) -> dict[str, str]:
        """Notes by key, of a keyed table."""
        found = self.listed(Mode.UPDATE)
        assert len(found) == len(dict(found)), "a key is there twice"
        return dict(found)

    def listed(self, mode: str) -> list[tuple[str, str]]:
        """Keys and notes of all rows."""
        return sorted(
            (row["key"], row["note"]) for row in self._contract.contents(self.place, mode)
        )

    @property
    def ledger(self) -> list[dict[str, Any]]:
        """All rows of the sink."""
        return Ledger(str(self.place / "ledger")).rows(PIPELINE, SINK)


def frame(spark: SparkSession, events: Sequence[Event]) -> DataFrame:
    """Events as a DataFrame."""
    rows = [(key, f"P{version:06d}", note is None, note) for key, version, note in events]
    return spark.createDataFrame(rows, COLUMNS)


def recount(events: Iterable[Event]) -> dict[str, str]:
    """What a keyed table must hold: of each key the greatest version, a delete on a full tie."""
    best: dict[str, Event] = {}
    for event in events:
        held = best.get(event[0])
        if held is None or (event[1], event[2] is None) > (held[1], held[2] is None):
            best[event[0]] = event
    return {key: note for key, (_, _, note) in best.items() if note is not None}
