"""Store calls that fail before or after they took effect: the batch again takes effect once.

Real tables, no Spark: every call of `STORE_CALLS`, in every mode, with all kinds of errors.
"""

import errno
import os
import pickle
import signal
import subprocess
import sys
from collections import Counter
from functools import partial
from itertools import cycle
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from drivers import Driver, Event
from freshet.errors import FreshetError, StoreError
from freshet.sink import Mode
from freshet.stores.delta_tables import SmallTable
from freshet.testing import (
    FailAt,
    InjectedFaultError,
    Kind,
    Moment,
    StepLog,
    StoreFault,
    on_executors,
    together,
)
from freshet.testing.store_faults import STORE_CALLS

ERRORS = [Kind.ERROR, Kind.FULL_DISK, Kind.NO_PERMISSION]

FIRST: list[Event] = [("a", 1, "x"), ("b", 1, "x")]
SECOND: list[Event] = [("a", 2, "x"), ("b", 2, None), ("c", 1, "x")]
THIRD: list[Event] = [("b", 1, "x"), ("d", 1, "x")]
AFTER_THIRD = {
    Mode.UPDATE: Counter([("a", "P002"), ("c", "P001"), ("d", "P001")]),
    Mode.APPEND: Counter((key, f"P{version:03d}") for key, version, _ in FIRST + SECOND + THIRD),
    Mode.COMPLETE: Counter([("b", "P001"), ("d", "P001")]),
}

driver_of = partial(Driver, name="t")


def contents(driver: Driver) -> Counter[tuple[str, str]]:
    rows = lance.dataset(driver.uri).to_table(["key", "record_version"])
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def batches(driver: Driver) -> list[int]:
    return [batch for batch, _ in driver.landed()]


def calls_of(mode: Mode) -> list[tuple[str, str]]:
    """The store calls of a first batch after a start, and the tables that they are made to."""
    calls = [
        ("LanceTable.create", "t.lance"),
        ("LanceTable.history", "t.lance"),
        ("LanceTable.open", "t.lance"),
        ("LanceTable.write_files", "t.lance"),
        ("SmallTable.append", "ledger"),
        ("SmallTable.append", "ledger_leases"),
        ("SmallTable.scan", "ledger"),
        ("SmallTable.scan", "ledger_leases"),
        ("SmallTable.version", "ledger_leases"),
    ]
    if mode is Mode.COMPLETE:
        return [*calls, ("LanceTable.overwrite", "t.lance")]
    calls.append(("LanceTable.commit", "t.lance"))
    if mode is Mode.APPEND:
        return calls
    return [
        *calls,
        ("LanceTable.lookup", "t.lance"),
        ("LanceTable.removal", "t.lance"),
        ("LanceTable.commit", "t_tombstones.lance"),
        ("LanceTable.create", "t_tombstones.lance"),
        ("LanceTable.write_files", "t_tombstones.lance"),
        ("Tombstones.bury", "t_tombstones.lance"),
    ]


def go_on(driver: Driver, fault: StoreFault) -> None:
    """The batch that was struck again, after a restart, and one more: all of it once."""
    assert fault.struck
    restarted = driver_of(driver.folder, driver.mode)
    restarted.write(1, *SECOND)
    restarted.write(2, *THIRD)
    assert contents(restarted) == AFTER_THIRD[driver.mode]
    assert batches(restarted) == [0, 1, 2]


def broken_calls() -> list[tuple[Mode, StoreFault]]:
    """Every call in every mode, before and after; the kinds of errors take turns."""
    kinds = cycle(ERRORS)
    return [
        (mode, StoreFault(method, when, next(kinds), table=table))
        for when in ("before", "after")
        for mode in Mode
        for method, table in calls_of(mode)
    ]


@pytest.mark.parametrize(("mode", "fault"), broken_calls(), ids=str)
def test_a_store_call_that_fails_once_and_the_batch_again_takes_effect_once(
    tmp_path: Path, mode: Mode, fault: StoreFault
) -> None:
    driver = driver_of(tmp_path, mode)
    driver.write(0, *FIRST)
    driver = driver_of(tmp_path, mode)
    with fault:
        if not fails(driver):
            assert batches(driver) == [0, 1], "the error was hidden"
    go_on(driver, fault)


def fails(driver: Driver) -> bool:
    """Whether the second batch fails; it may go on where only an answer was lost."""
    try:
        driver.write(1, *SECOND)
    except FreshetError:
        return True
    return False


@pytest.mark.parametrize(
    ("kind", "number"),
    [("error", errno.EIO), ("full_disk", errno.ENOSPC), ("no_permission", errno.EACCES)],
)
def test_the_error_says_what_is_wrong_with_which_table(
    tmp_path: Path, kind: str, number: int
) -> None:
    sentence = f"could not write data files of .*t.lance: .*{os.strerror(number)}"
    driver = driver_of(tmp_path, Mode.APPEND)
    with (
        StoreFault("LanceTable.write_files", kind=kind) as fault,
        pytest.raises(StoreError, match=sentence) as raised,
    ):
        driver.write(0, *FIRST)
    assert fault.struck
    assert isinstance(raised.value.__cause__, OSError)
    assert raised.value.__cause__.errno == number


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize(
    ("method", "table"),
    [("LanceTable.write_files", None), ("SmallTable.append", None), ("LanceTable.open", "t.lance")],
)
def test_a_disk_that_stays_full_stops_the_sink_until_there_is_room(
    tmp_path: Path, mode: Mode, method: str, table: str | None
) -> None:
    driver = driver_of(tmp_path, mode)
    driver.write(0, *FIRST)
    driver = driver_of(tmp_path, mode)
    with StoreFault(method, kind="full_disk", table=table, lasts=True) as fault:
        for _ in range(3):
            with pytest.raises(StoreError, match="No space left"):
                driver.write(1, *SECOND)
    assert batches(driver) == [0]
    driver.write(1, *SECOND)
    go_on(driver, fault)


@pytest.mark.parametrize("when", ["before", "after"])
def test_files_that_cannot_be_removed_do_not_hide_the_first_error(
    tmp_path: Path, when: str
) -> None:
    driver = driver_of(tmp_path, Mode.UPDATE, probe=FailAt(Moment.parse("before:commit:1")))
    driver.write(0, *FIRST)
    with (
        StoreFault("LanceTable.discard", when, "no_permission") as fault,
        pytest.raises(InjectedFaultError),
    ):
        driver.write(1, *SECOND)
    go_on(driver, fault)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_key_index_that_cannot_be_extended_does_no_harm_to_the_batch(
    tmp_path: Path, when: str
) -> None:
    driver = driver_of(tmp_path, Mode.UPDATE)
    with StoreFault("LanceTable.index_new_keys", when, "full_disk") as fault:
        for batch in range(20):
            driver.write(batch, *[(f"k{batch}", 1, "x")])
    assert fault.struck
    assert batches(driver) == list(range(20))
    assert len(contents(driver)) == 20


@pytest.mark.parametrize(("when", "rows"), [("before", 0), ("after", 1)])
def test_a_killed_process_leaves_a_marker_and_nothing_is_cleaned_up(
    tmp_path: Path, when: str, rows: int
) -> None:
    program = f"""
from pathlib import Path
import pyarrow as pa
from freshet.stores.delta_tables import SmallTable
from freshet.testing import StoreFault
small = SmallTable("{tmp_path}/small", pa.schema([("n", pa.int64())]))
with StoreFault("SmallTable.append", "{when}", "killed", marker=Path("{tmp_path}/struck")):
    small.append([{{"n": 1}}])
"""
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "struck").read_text() == f"{when}:SmallTable.append:killed:1\n"
    assert SmallTable(f"{tmp_path}/small", pa.schema([("n", pa.int64())])).count() == rows


def test_a_fault_strikes_the_call_and_the_table_that_were_named_and_leaves_no_trace(
    tmp_path: Path,
) -> None:
    plain = SmallTable.append
    schema = pa.schema([("n", pa.int64())])
    one, other = SmallTable(f"{tmp_path}/one", schema), SmallTable(f"{tmp_path}/other", schema)
    with StoreFault("SmallTable.append", "after", call=2, table="one") as fault:
        for _ in range(3):
            other.append([{"n": 0}])
        one.append([{"n": 1}])
        assert (one.count(), other.count()) == (1, 3)
        with pytest.raises(StoreError, match=r"could not append to .*/one: .*Input/output error"):
            one.append([{"n": 2}])
        one.append([{"n": 3}])
    assert fault.struck
    assert SmallTable.append is plain
    assert (one.count(), other.count()) == (3, 3)


def test_a_fault_is_written_as_it_is_read(tmp_path: Path) -> None:
    for method in STORE_CALLS:
        for text in (f"after:{method}:killed:2", f"before:{method}:full_disk:1:t.lance"):
            assert str(StoreFault.parse(text)) == text
    for wrong in ("after:LanceTable.burn:error:1", "amid:LanceTable.open:error:1"):
        with pytest.raises(ValueError, match="not"):
            StoreFault.parse(wrong)
    with pytest.raises(ValueError, match="is not a valid Kind"):
        StoreFault.parse("after:LanceTable.open:flood:1")


def test_the_step_log_has_the_steps_in_order_up_to_the_last(tmp_path: Path) -> None:
    log = StepLog(tmp_path / "steps.log")
    assert log.moments() == []
    fault = FailAt(Moment.parse("after:prepare:0"))
    with pytest.raises(InjectedFaultError):
        driver_of(tmp_path, Mode.APPEND, together(log, fault)).write(0, *FIRST)
    seen = [str(moment) for moment in log.moments()]
    assert seen[:2] == ["before:skip:0", "after:skip:0"]
    assert seen[-2:] == ["before:prepare:0", "after:prepare:0"]


def test_a_fault_for_tasks_needs_a_marker_and_travels_without_what_it_counted(
    tmp_path: Path,
) -> None:
    with (
        pytest.raises(ValueError, match="only a marker"),
        on_executors(StoreFault("LanceTable.open")),
    ):
        pass
    schema = pa.schema([("n", pa.int64())])
    with StoreFault("SmallTable.append", call=2, marker=tmp_path / "struck") as fault:
        SmallTable(f"{tmp_path}/small", schema).append([{"n": 1}])
        sent = pickle.loads(pickle.dumps(fault))  # noqa: S301 - ours
    with sent:
        SmallTable(f"{tmp_path}/small", schema).append([{"n": 2}])
        with pytest.raises(StoreError):
            SmallTable(f"{tmp_path}/small", schema).append([{"n": 3}])
    assert fault.struck, "the marker tells"
